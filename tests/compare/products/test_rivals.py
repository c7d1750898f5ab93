"""The rivals against a general convex solver, brute force and each other."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from manykernels.compare import (
    HierarchicalKernelLearning,
    PolynomialKernelLearning,
    UniformCoordinateDescent,
    UniformPower,
    power_scores,
)
from manykernels.compare.products.hierarchical import (
    Below,
    divides,
    parents,
    sources,
)
from manykernels.compare.products.powers import CortesSearch, weighted_sum
from manykernels.compare.products.uniform_coordinates import (
    UniformSampler,
    draw_product,
)
from manykernels.losses.one_score import Logistic
from manykernels.products import ColumnGeneration, ExplicitLpNorm
from manykernels.products.base import RankOneKernels
from manykernels.products.fitted_products import scores_of
from manykernels.products.indices import all_products
from manykernels.products.product_problem import ProductProblem
from tests.oracles.optimum import minimum, p_norm
from tests.products.toys import as_matrices, gaussians, regression

RHO = np.array([1.0, 1.5, 2.0, 3.0])
X, Y = regression(n=30, r=3 + 2)
X = X[:, :3]


def problem(degree=2, C=3.0, intercept=False, **options):
    return ProductProblem(
        RankOneKernels(X), Y, RHO[: degree + 1], C=C, intercept=intercept, **options
    )


def listed(task):
    every = all_products(task.base.n_base, task.degree)
    return [product for product in every if len(product) >= task.least_degree]


def squared_error(task, products, w):
    scores = task.base.features(products) @ w
    if task.intercept:
        scores = scores + cp.Variable()
    return 0.5 * task.C * cp.sum_squares(scores - task.target)


# --- Kloft -------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("p", [1.0, 1.2, 4 / 3])
def test_kloft_reaches_the_optimum(p, intercept):
    task = problem(3, p=p, intercept=intercept)
    products = listed(task)
    w = cp.Variable(len(products))
    norms = [RHO[len(i)] * cp.abs(w[k]) for k, i in enumerate(products)]
    penalty = 0.5 * cp.square(p_norm(norms, p))
    least = minimum(penalty + squared_error(task, products, w)) / task.scale
    result = ExplicitLpNorm(tol=1e-5, max_iter=2000).solve(task)
    assert result.converged
    assert result.objective == pytest.approx(least, rel=2e-5)
    assert result.objective - result.duality_gap <= least * (1 + 1e-6)


def test_kloft_is_the_same_on_matrices():
    task = problem(2)
    dense = replace(task, base=as_matrices(task.base))
    one, other = (ExplicitLpNorm(tol=1e-6).solve(t) for t in (task, dense))
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    assert np.allclose(one.model.weights, other.model.weights, atol=1e-9)


def test_kloft_with_p_1_agrees_with_column_generation_on_other_losses():
    labels = np.where(Y > 0.0, 1.0, -1.0)
    task = replace(problem(2, p=1.0), loss=Logistic(), target=labels)
    exact = ColumnGeneration(tol=1e-8).solve(task)
    found = ExplicitLpNorm(tol=1e-4, max_iter=5000).solve(task)
    assert found.objective == pytest.approx(exact.objective, rel=1e-4)


@pytest.mark.parametrize("matrices", [False, True])
def test_kloft_refuses_a_list_that_does_not_fit(matrices):
    task = problem(3)
    if matrices:
        task = replace(task, base=as_matrices(task.base))
    with pytest.raises(MemoryError, match="list of 20 products of 3 base kernels"):
        ExplicitLpNorm(memory_limit=5000).solve(task)


def test_kloft_goes_on_from_another_solution():
    task = problem(2)
    solver = ExplicitLpNorm(tol=1e-6)
    first = solver.solve(task)
    again = solver.solve(task, first.model)
    assert len(again.history) < len(first.history)


# --- Uniform coordinate descent ----------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
def test_uniform_coordinates_approach_the_optimum(intercept):
    task = problem(1, intercept=intercept)
    exact = ExplicitLpNorm(tol=1e-6).solve(task)
    solver = UniformCoordinateDescent(4000, look_every=1000, random_state=0)
    found = solver.solve(task)
    assert found.objective >= exact.objective * (1 - 1e-6)
    assert found.objective <= exact.objective * 1.02
    assert found.objective - found.duality_gap <= exact.objective * (1 + 1e-6)


def test_all_products_are_drawn_equally_often():
    rng = np.random.default_rng(0)
    drawn = [draw_product(3, 2, rng) for _ in range(6000)]
    pairs = [product for product in all_products(3, 2) if len(product) == 2]
    counts = np.array([drawn.count(product) for product in pairs])
    assert counts.sum() == 6000
    assert np.square(counts - 1000).sum() / 1000 < 20.5  # chi-square, 5 degrees, 0.1 %


@pytest.mark.parametrize("intercept", [False, True])
def test_the_uniform_estimate_of_the_gradient_is_unbiased(intercept):
    task = problem(2, intercept=intercept)
    sampler = UniformSampler.over(task)
    coef = np.random.default_rng(1).normal(size=task.n_rows)
    coef -= coef.mean() * intercept
    rng = np.random.default_rng(2)
    n_draws = 20000
    sums: dict[tuple[int, ...], float] = {}
    for _ in range(n_draws):
        draw = sampler.draw(coef, rng)
        sums[draw.product] = sums.get(draw.product, 0.0) + draw.gradient / n_draws
    assert set(sums) == set(listed(task))
    for product, mean in sums.items():
        energy = coef @ task.base.matrix(product) @ coef
        assert mean == pytest.approx(-0.5 * energy / RHO[len(product)] ** 2, rel=0.15)


def test_uniform_coordinates_repeat_with_a_seed():
    solver = UniformCoordinateDescent(100, random_state=3)
    one, other = solver.solve(problem()), solver.solve(problem())
    assert one.model.products == other.model.products
    assert np.array_equal(one.model.weights, other.model.weights)


# --- Powers of sums: uniform, and Cortes --------------------------------------


def test_the_uniform_power_counts_every_way_to_write_a_product():
    rng = np.random.default_rng(0)
    base = RankOneKernels(rng.normal(size=(6, 2)))
    kernel = weighted_sum(base, np.ones(3)) ** 2
    constant = RankOneKernels(np.column_stack([np.ones(6), base.columns]))
    ordered = [(i, j) for i in range(3) for j in range(3)]
    assert np.allclose(kernel, sum(constant.matrix(product) for product in ordered))


def test_the_uniform_power_is_kernel_ridge_regression():
    task = problem(2)
    K = (1.0 + X @ X.T) ** 2
    coef = np.linalg.solve(K + np.eye(len(Y)) / task.C, Y)
    value = (0.5 * coef @ K @ coef + 0.5 * task.C * np.square(K @ coef - Y).sum()) / (
        task.C * len(Y)
    )
    result = UniformPower().solve(task)
    assert np.allclose(result.model.coef[:, 0], coef, atol=1e-8)
    assert result.objective == pytest.approx(value)
    assert result.converged


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("dense", [False, True])
def test_the_gradient_of_cortes_is_the_numeric_one(degree, dense):
    task = problem(degree)
    if dense:
        task = replace(task, base=gaussians(X))
    search = CortesSearch(PolynomialKernelLearning(), task, None)
    weights = np.array([0.8, 1.2, 0.3, 0.9])
    gradient = search._gradient(search._at(weights))
    for j in range(4):
        step = 1e-4 * np.eye(4)[j]
        ahead, behind = (search._at(weights + s * step) for s in (1, -1))
        slope = (ahead.solution.value - behind.solution.value) / 2e-4
        assert gradient[j] == pytest.approx(slope, rel=1e-4)


def test_cortes_of_degree_1_is_a_convex_problem_with_known_optimum():
    """On the unit ball it is p = 4/3 over the columns and the constant."""
    task = replace(problem(1), rho=np.ones(2))
    exact = ExplicitLpNorm(tol=1e-7).solve(task)
    found = PolynomialKernelLearning(tol=1e-9, radius=1.0, max_iter=500).solve(task)
    assert found.objective == pytest.approx(exact.objective, rel=1e-4)


def test_cortes_finds_the_best_weights_of_a_grid():
    """Degree 2, two columns: all directions of three weights, 2 degrees apart."""
    task = replace(problem(2), base=RankOneKernels(X[:, :2]), rho=np.ones(3))
    search = CortesSearch(PolynomialKernelLearning(), task, None)
    angles = np.linspace(0.0, np.pi / 2, 46)
    values = [
        search._at(np.sqrt(3) * np.array([c, s * np.cos(b), s * np.sin(b)]))
        for a in angles
        for b in angles
        for c, s in [(np.cos(a), np.sin(a))]
    ]
    least = min(place.solution.value for place in values) / task.scale
    found = PolynomialKernelLearning(tol=1e-8, max_iter=500).solve(task)
    assert found.objective <= least * (1 + 1e-6)
    assert np.linalg.norm(found.model.weights) <= np.sqrt(3) * (1 + 1e-9)
    assert found.model.weights.min() >= 0.0


def test_cortes_never_does_worse_than_equal_weights():
    task = problem(3)
    uniform = UniformPower().solve(task)
    found = PolynomialKernelLearning().solve(task)
    assert found.objective < uniform.objective
    values = [line.objective for line in found.history]
    assert np.all(np.diff(values) <= 1e-12)


@pytest.mark.parametrize("intercept", [False, True])
def test_power_models_predict_the_training_scores(intercept):
    task = problem(2, intercept=intercept)
    rows = np.arange(len(Y))
    result = PolynomialKernelLearning().solve(task)
    scores = power_scores(task.base, result.model, rows, rows)
    smooth = weighted_sum(task.base, result.model.weights) ** 2
    norm = float(result.model.coef[:, 0] @ smooth @ result.model.coef[:, 0]) ** 0.5
    assert task.primal_value(norm, scores) == pytest.approx(result.objective)


# --- Bach ---------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_hierarchical_learning_reaches_the_optimum(degree, C, intercept):
    task = problem(degree, C=C, intercept=intercept)
    products = listed(task)
    w = cp.Variable(len(products))
    groups = [[k for k, i in enumerate(products) if divides(v, i)] for v in products]
    omega = sum(
        RHO[len(v)] * cp.norm(w[group], 2)
        for v, group in zip(products, groups, strict=True)
    )
    loss = squared_error(task, products, w)
    least = minimum((0.5 * cp.square(omega) + loss) / task.scale)
    solver = HierarchicalKernelLearning(tol=1e-5, patience=None)
    result = solver.solve(task)
    assert result.objective == pytest.approx(least, rel=1e-4)
    assert result.objective >= least * (1 - 1e-6)
    assert result.objective - result.duality_gap <= least * (1 + 1e-6)


def test_hulls_hold_all_divisors():
    result = HierarchicalKernelLearning().solve(problem(3, C=30.0))
    known = set(result.model.products)
    assert len(known) > 4
    assert all(parent in known for product in known for parent in parents(product))


def test_hierarchical_models_predict_the_training_scores():
    """The expansion divides by rho^2, which is no part of this kernel."""
    task = problem(2, C=30.0, intercept=True)
    solver = HierarchicalKernelLearning(tol=1e-6, patience=None)
    result = solver.solve(task)
    rows = np.arange(len(Y))
    scores = scores_of(task, result.model, rows, rows)
    assert np.allclose(task.C * (Y - scores), result.model.coef[:, 0], atol=1e-4)


def test_the_bound_on_all_products_below_is_their_sum():
    rng = np.random.default_rng(4)
    base, coef = RankOneKernels(rng.normal(size=(8, 3))), rng.normal(size=8)
    every = all_products(3, 3)
    for degree in (1, 2, 3):
        inside = [i for i in every if 1 <= len(i) <= degree]
        own, bound = Below(base.columns, RHO[: degree + 1], coef).of(inside)
        for k, t in enumerate(inside):
            total = 0.0
            for w in inside:
                between = [v for v in inside if divides(t, v) and divides(v, w)]
                if divides(t, w):
                    energy = float(coef @ base.feature(w)) ** 2
                    total += energy / sum(RHO[len(v)] for v in between) ** 2
            assert bound[k] == pytest.approx(total)
            energy = float(coef @ base.feature(t)) ** 2
            assert own[k] == pytest.approx(energy / RHO[len(t)] ** 2)


def test_sources_are_what_a_hull_can_grow_by():
    hull = [(), (0,), (1,), (0, 0)]
    found = sources(hull, n_base=3, degree=3, least=0)
    assert found == [(2,), (0, 1), (1, 1), (0, 0, 0)]
    assert sources([], n_base=2, degree=3, least=1) == [(0,), (1,)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base": gaussians(X)}, "base kernels of rank one, got DenseKernels"),
        ({"base": RankOneKernels(X, normalized=True)}, "got normalized ones"),
        ({"loss": Logistic()}, "squared errors, got the loss 'logistic'"),
        ({"rho": np.ones(5)}, "degree of 1, 2 or 3, got 4"),
    ],
)
def test_hierarchical_learning_says_what_it_cannot_do(change, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalKernelLearning().solve(replace(problem(), **change))
