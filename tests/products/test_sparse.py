"""p = 1: certificates, recovery, noise, and the small quadratic programs inside."""

import numpy as np
import pytest
from scipy.optimize import minimize

from manykernels.losses.one_score import Logistic, SquaredError
from manykernels.products import ColumnGeneration, RandomizedMirrorDescent
from manykernels.products.base import RankOneKernels
from manykernels.products.product_fit import ProductFit
from manykernels.products.product_problem import ProductProblem
from manykernels.products.sparse.quadratic_programs import simplex_quadratic, squared_l1
from manykernels.products.sparse.refit import extended_bic, log_choices
from manykernels.products.sparse.sparse_path import SparsePath
from manykernels.solvers import InterruptedFitWarning
from tests.products.toys import gaussians, planted, regression


def path_of(X, y, **options):
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4), p=1.0, **options)
    return SparsePath(ColumnGeneration(tol=1e-2)).solve(problem)


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_terms_are_recovered_exactly(seed):
    (X, y), (X_new, y_new), terms = planted(30, seed)
    found = path_of(X, y).terms
    assert set(found.products) == terms
    scores = RankOneKernels(X_new).features(found.products) @ found.w + found.intercept
    assert np.mean((scores - y_new) ** 2) <= 1e-12 * y_new.var()


def test_noise_costs_no_true_term_and_few_false_ones():
    (X, y), _, terms = planted(30, 2, noise=0.1)
    found = path_of(X, y).terms.products
    assert len(terms & set(found)) >= 8 and len(found) <= 12


@pytest.mark.parametrize("seed", range(4))
def test_pure_noise_has_no_terms(seed):
    rng = np.random.default_rng(seed)
    chosen = path_of(rng.uniform(-1, 1, size=(150, 20)), rng.normal(size=150))
    assert len(chosen.terms.products) <= 1


def test_labels_of_noise_have_few_terms():
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(120) > 0.5, 1.0, -1.0)
    chosen = path_of(
        rng.normal(size=(120, 8)), labels, loss=Logistic(), intercept=False
    )
    assert len(chosen.terms.products) <= 2


def test_gap_is_that_of_all_products():
    X, y = regression(n=50, r=6)
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4), C=20.0, p=1.0)
    exact = ColumnGeneration(tol=1e-10).solve(problem)
    rough = ColumnGeneration(tol=1e-1, top=3).solve(problem)
    assert exact.objective <= rough.objective
    assert rough.objective - rough.duality_gap <= exact.objective * (1 + 1e-9)
    gaps = [line.gap for line in exact.history]
    assert gaps == sorted(gaps, reverse=True)


def test_a_search_that_is_cut_short_says_so():
    X, y = regression(n=60, r=12, seed=3)
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4), C=20.0, p=1.0)
    exact = ColumnGeneration(tol=1e-8).solve(problem)
    short = ColumnGeneration(tol=1e-8, affordable=1.0).solve(problem)
    assert short.objective - short.duality_gap <= exact.objective * (1 + 1e-9)
    assert short.relative_gap > exact.relative_gap


def test_only_p_one():
    X, y = regression()
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4), p=1.5)
    with pytest.raises(ValueError, match=r"needs p = 1, got p = 1.5; use Randomized"):
        ColumnGeneration().solve(problem)


def test_interrupted_paths_keep_the_best():
    (X, y), _, _ = planted(20, 0, n=200)
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4), p=1.0)
    calls = []

    def interrupt(line):
        calls.append(line)
        if len(calls) == 6:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning):
        chosen = SparsePath(ColumnGeneration()).solve(problem, interrupt)
    assert len(chosen.terms.products) >= 1
    assert len(chosen.path) < len(path_of(X, y).path)


def test_nothing_is_kept_of_a_path_without_a_point(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ColumnGeneration, "solve", interrupted)
    X, y = regression()
    with pytest.raises(KeyboardInterrupt):
        path_of(X, y)


def test_an_interruption_between_two_points_keeps_the_best(monkeypatch):
    (X, y), _, _ = planted(20, 0, n=200)
    solve, calls = ColumnGeneration.solve, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return solve(*args)

    monkeypatch.setattr(ColumnGeneration, "solve", interrupted)
    with pytest.warns(InterruptedFitWarning, match="after 3 values of C"):
        chosen = path_of(X, y)
    assert len(chosen.path) == 3


def test_criterion_over_gaussian_products_prefers_little_to_noise():
    X, _ = regression(n=40)
    base = gaussians(X[:, :3])
    signal = X[:, 0] * X[:, 1]
    rng = np.random.default_rng(0)
    chosen = [
        SparsePath(ColumnGeneration(tol=1e-2)).solve(
            ProductProblem(base, target, np.ones(3), p=1.0)
        )
        for target in (signal / signal.std(), rng.normal(size=40))
    ]
    assert chosen[0].terms is None
    assert chosen[0].problem.C > chosen[1].problem.C
    strongest = int(np.argmax(chosen[0].result.model.weights))
    assert chosen[0].result.model.products[strongest] == (0, 1)


def test_duplicate_columns_do_not_hurt():
    X, y = regression()
    twice = np.column_stack([X, X, np.zeros(len(X))])
    problem = ProductProblem(RankOneKernels(twice), y, np.ones(4), C=10.0, p=1.0)
    single = ProductProblem(RankOneKernels(X), y, np.ones(4), C=10.0, p=1.0)
    solver = ColumnGeneration(tol=1e-8)
    assert solver.solve(problem).objective == pytest.approx(
        solver.solve(single).objective, rel=1e-6
    )


def test_binary_columns_have_equal_powers():
    """x^3 = x and x^2 = 1 for x = -1, 1: features repeat exactly."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((80, 6)) > 0.5, 1.0, -1.0)
    found = path_of(X, X[:, 0] * X[:, 1] + 2 * X[:, 3]).terms
    columns = {tuple(np.sign(RankOneKernels(X).feature(i))) for i in found.products}
    assert columns == {tuple(X[:, 0] * X[:, 1]), tuple(X[:, 3])}
    assert extended_bic(SquaredError(), found.scores, found.scores, 1, 1, 10) < -1000


@pytest.mark.parametrize("seed", range(5))
def test_squared_l1_meets_its_conditions(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(15, 25))
    G, h = Z.T @ Z, Z.T @ rng.normal(size=15)
    rho, C = rng.uniform(0.5, 2.0, size=25), 10.0 ** rng.integers(-2, 3)
    for start in (np.zeros(25), rng.normal(size=25)):
        w = squared_l1(G, h, rho, C, start)
        gradient, norm = C * (G @ w - h), rho @ np.abs(w)
        used = w != 0.0
        scale = 1.0 + C * np.abs(h).max()
        np.testing.assert_allclose(
            gradient[used], -norm * rho[used] * np.sign(w[used]), atol=1e-8 * scale
        )
        assert np.all(np.abs(gradient) <= norm * rho + 1e-8 * scale)


@pytest.mark.parametrize("seed", range(5))
def test_simplex_quadratic_is_the_minimum(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 8))
    H, c = A.T @ A, rng.normal(size=8)

    def value(x):
        return 0.5 * x @ H @ x + c @ x

    x = simplex_quadratic(H, c, np.full(8, 1 / 8))
    best = minimize(
        value,
        np.full(8, 1 / 8),
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert x.sum() == pytest.approx(1.0) and np.all(x >= 0.0)
    assert value(x) <= best.fun + 1e-8


def test_choices_are_counted():
    assert log_choices(10, 3) == pytest.approx(np.log(120))
    assert log_choices(5, 9) == pytest.approx(0.0)


def test_held_out_rows_choose_c():
    X, y = regression(n=80)
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4))
    drawing = RandomizedMirrorDescent(100)
    fitted = ProductFit(solver=drawing, random_state=0).solve(problem)
    assert fitted.C >= 1.0
    noise = np.random.default_rng(0).normal(size=80)
    problem = ProductProblem(RankOneKernels(X), noise, np.ones(4))
    again = ProductFit(solver=drawing, random_state=0).solve(problem)
    assert again.C < fitted.C


def test_refit_removes_the_shrinkage():
    X, y = regression(noise=0.0)
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4), p=1.0)
    plain = ProductFit(C=1.0).solve(problem)
    again = ProductFit(C=1.0, refit=True).solve(problem)
    assert set(plain.products) == set(again.products)
    assert np.abs(again.coefs).sum() > np.abs(plain.coefs).sum()
    assert again.result.objective == plain.result.objective
