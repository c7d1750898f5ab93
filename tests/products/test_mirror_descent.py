"""Randomized mirror descent: paths, steps, projections, interruptions."""

import numpy as np
import pytest
from scipy.optimize import minimize

from manykernels.products import Euclidean, RandomizedMirrorDescent, ShiftedEntropy
from manykernels.products.base import RankOneKernels
from manykernels.products.product_problem import ProductProblem
from manykernels.solvers import InterruptedFitWarning
from tests.products.toys import as_matrices, gaussians, regression

X, Y = regression(n=30)
BASE = RankOneKernels(X)


def problem(base=BASE, **options):
    return ProductProblem(base, Y, np.ones(4), **{"C": 5.0, **options})


def test_columns_and_their_matrices_take_the_same_path():
    solver = RandomizedMirrorDescent(60, tol=0.0, look_every=20, random_state=3)
    one, two = (solver.solve(problem(base)) for base in (BASE, as_matrices(BASE)))
    assert one.model.products == two.model.products
    np.testing.assert_allclose(one.model.weights, two.model.weights, rtol=1e-6)
    for a, b in zip(one.history, two.history, strict=True):
        assert a.objective == pytest.approx(b.objective, rel=1e-6)
        assert a.gap == pytest.approx(b.gap, rel=1e-5)


def test_same_seed_same_result():
    runs = [RandomizedMirrorDescent(40, random_state=1).solve(problem()) for _ in "ab"]
    np.testing.assert_array_equal(runs[0].model.weights, runs[1].model.weights)


def test_products_are_merged_and_weights_stay_in_the_ball():
    result = RandomizedMirrorDescent(300, random_state=0).solve(problem())
    products, weights = result.model.products, result.model.weights
    assert len(set(products)) == len(products)
    assert all(list(product) == sorted(product) for product in products)
    assert np.all(weights >= 0.0) and np.linalg.norm(weights) <= 1.0 + 1e-12


def test_the_step_of_the_theory_keeps_its_bound():
    """Corollary 3.3: the expected excess is at most sqrt(B / T)."""
    task = problem()
    best = RandomizedMirrorDescent(2000, tol=0.0, patience=None, random_state=0)
    lowest = best.solve(task).objective * task.scale
    draws = 100
    solver = RandomizedMirrorDescent(
        draws, tol=0.0, step="theory", look_every=draws, random_state=0
    )
    excess = solver.solve(task).objective * task.scale - lowest
    coef = task.C * task.target
    first = 0.5 * sum(coef @ power @ coef for power in BASE.power_sums(3))
    assert 0.0 < excess <= np.sqrt(0.5 * first**2 / draws)


def test_a_number_as_step_runs():
    small = RandomizedMirrorDescent(50, step=1e-4, random_state=0).solve(problem())
    none = RandomizedMirrorDescent(50, step=1e-12, random_state=0).solve(problem())
    assert small.objective < none.objective


def test_too_many_products_for_a_certificate_still_bound(monkeypatch):
    from manykernels.products import mirror_descent

    exact = RandomizedMirrorDescent(100, random_state=0).solve(problem())
    monkeypatch.setattr(mirror_descent, "MAX_CERTIFICATE_WORK", 0.0)
    loose = RandomizedMirrorDescent(100, random_state=0).solve(problem())
    assert loose.objective == exact.objective
    assert loose.duality_gap >= exact.duality_gap


def test_early_stopping():
    solver = RandomizedMirrorDescent(5000, tol=0.0, patience=2, random_state=0)
    result = solver.solve(problem())
    assert len(result.history) < 100 and not result.stopped


def test_a_start_is_used():
    solved = RandomizedMirrorDescent(500, tol=0.0, random_state=0).solve(problem())
    short = RandomizedMirrorDescent(1, tol=0.0, step=1e-9, random_state=0)
    warm, cold = short.solve(problem(), solved.model), short.solve(problem())
    assert warm.objective < cold.objective


def test_callback_stops_and_ctrl_c_keeps_the_best():
    solver = RandomizedMirrorDescent(500, tol=0.0, look_every=10, random_state=0)
    lines = []
    stopped = solver.solve(problem(), callback=lambda line: lines.append(line) or True)
    assert stopped.stopped and len(lines) == 1

    def interrupt(line):
        if line.epoch == 3:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning, match="after 3 epochs"):
        kept = solver.solve(problem(), callback=interrupt)
    assert kept.objective == min(line.objective for line in kept.history)


def test_gaussian_base_kernels_fit():
    task = problem(gaussians(X), C=50.0)
    result = RandomizedMirrorDescent(150, random_state=0).solve(task)
    assert result.objective < 0.2 * 0.5


@pytest.mark.parametrize("nu", [1.0, 1.5, 2.0, 4.0])
def test_euclidean_projection(nu):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=6) + 0.6
    projected = Euclidean().project(theta, nu)
    best = minimize(
        lambda x: 0.5 * ((x - theta) ** 2).sum(),
        np.full(6, 0.1),
        jac=lambda x: x - theta,
        bounds=[(0, None)] * 6,
        constraints={"type": "ineq", "fun": lambda x: 1 - (np.abs(x) ** nu).sum()},
        options={"maxiter": 500, "ftol": 1e-14},
    )
    np.testing.assert_allclose(projected, best.x, atol=2e-5)
    inside = np.array([0.1, 0.2])
    np.testing.assert_array_equal(Euclidean().project(inside, nu), inside)


def test_entropic_projection_minimizes_the_divergence():
    potential = ShiftedEntropy(0.05)
    theta = np.array([1.2, 0.5, 0.01, 0.3])
    projected = potential.project(theta, 1.0)
    assert projected.sum() == pytest.approx(1.0)

    def divergence(x):
        a, b = x + 0.05, theta + 0.05
        return (a * np.log(a / b) - a + b).sum()

    best = minimize(
        divergence,
        np.full(4, 0.25),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(projected, best.x, atol=1e-5)
    with pytest.raises(ValueError, match="needs p = 1"):
        potential.project(theta, 2.0)


def test_simplex_projection_keeps_the_sum():
    projected = Euclidean().project(np.array([3.0, 1.0, -2.0]), 1.0)
    assert projected.tolist() == [1.0, 0.0, 0.0]
