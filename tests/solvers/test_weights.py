"""Weights between rounds: fixed points, level sets, mixtures of dual points."""

from __future__ import annotations

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from manykernels.norms import LpGroupNorm
from manykernels.norms.group import p_norm
from manykernels.solvers import levels
from manykernels.solvers.levels import (
    LevelSearch,
    lowest_on_simplex,
    project_on_level,
)
from manykernels.solvers.problem import Problem
from manykernels.solvers.weights import DualMixture, WeightSearch, anderson
from tests.oracles.optimum import optimum_of
from tests.oracles.toys import blobs, kernel_stack, toy_problem


def ridge(seed: int, n_blocks: int = 5):
    X, target = blobs(20, 2, seed)
    stack = kernel_stack(X, n_blocks, seed)
    y = 3.0 * (target - 0.5)

    def inner(weights: np.ndarray) -> tuple[np.ndarray, float]:
        gram = np.einsum("f,ifj->ij", weights, stack)
        a = np.linalg.solve(np.eye(20) + gram, y)
        return np.sqrt(np.einsum("i,ifj,j->f", a, stack, a)), 0.5 * float(y @ a)

    return inner


def lower_bound(
    norm: LpGroupNorm, weights: np.ndarray, theta_norms: np.ndarray, value: float
) -> float:
    """min over feasible d of the tangent of V, whose gradient is -||theta_f||^2 / 2.

    V is convex, so no feasible weights have a smaller value.
    """
    squares = theta_norms**2
    steepest = p_norm(squares, norm.q / 2.0)  # q / 2 is the dual exponent of r
    return value - 0.5 * (steepest - float(squares @ weights))


@pytest.mark.parametrize("p", [1.0, 1.01, 1.05, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_search_finds_the_best_weights(p: float, seed: int) -> None:
    inner = ridge(seed)
    norm = LpGroupNorm(p)
    search = WeightSearch(norm, norm.uniform_weights(5))
    upper, lower = np.inf, 0.0
    for _ in range(60):
        weights = search.weights
        theta_norms, value = inner(weights)
        upper = min(upper, value)
        lower = max(lower, lower_bound(norm, weights, theta_norms, value))
        assert lower <= upper * (1.0 + 1e-12)
        new = search.step(theta_norms, value, value)
        assert np.all(new >= 0.0)
        assert np.linalg.norm(new, norm.weight_exponent) == pytest.approx(1.0)
    assert upper - lower <= 1e-4 * upper


def test_the_search_is_faster_than_the_plain_update() -> None:
    norm = LpGroupNorm(1.05)

    def rounds(inner, step) -> int:
        weights = norm.uniform_weights(5)
        for count in range(1, 500):
            theta_norms, value = inner(weights)
            bound = lower_bound(norm, weights, theta_norms, value)
            if value - bound <= 1e-4 * value:
                return count
            weights = step(weights, theta_norms, value)
        return 500

    fast = plain = 0
    for seed in range(8):
        inner = ridge(seed)
        search = WeightSearch(norm, norm.uniform_weights(5))
        fast += rounds(inner, lambda _, n, value, s=search: s.step(n, value, value))
        plain += rounds(inner, lambda weights, n, _: norm.weights(weights * n))
    assert fast < 0.8 * plain


def test_p_1_sets_useless_weights_to_zero() -> None:
    inner = ridge(1)
    norm = LpGroupNorm(1.0)
    search = WeightSearch(norm, norm.uniform_weights(5))
    for _ in range(60):
        theta_norms, value = inner(search.weights)
        weights = search.step(theta_norms, value, value)
    theta_norms, _ = inner(weights)
    assert np.any(weights == 0.0)
    assert np.all(theta_norms[weights == 0.0] < theta_norms.max())


def test_a_wanted_block_comes_back() -> None:
    norm = LpGroupNorm(1.0)
    search = WeightSearch(norm, norm.uniform_weights(2))
    for value in np.linspace(2.0, 1.0, 30):
        search.step(np.array([1.0, 1e-3]), value, value)
    assert search.weights[1] == 0.0
    search.step(np.array([1.0, 1.5]), 0.9, 0.9)
    assert search.weights[1] > 0.0


def test_a_worse_value_is_undone() -> None:
    norm = LpGroupNorm(1.5)
    search = WeightSearch(norm, norm.uniform_weights(3))
    good = search.weights.copy()
    bad = search.step(np.array([1.0, 2.0, 3.0]), 1.0, 1.0).copy()
    assert not np.allclose(bad, good)
    again = search.step(np.array([9.0, 1.0, 1.0]), 5.0, 5.0)
    # Back at the good weights, one plain step is d_f ~ (d_f ||theta_f||)^(2 - p).
    assert again.argmax() == 2
    assert again[0] < again[1] < again[2]


@given(st.integers(0, 1000))
def test_anderson_is_fast_on_a_linear_map(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    factors = np.array([0.9, 0.5, -0.3])
    matrix = rotation @ np.diag(factors) @ rotation.T
    fixed = rotation.sum(axis=1)
    shift = fixed - matrix @ fixed
    points, images = [np.zeros(3)], [shift]
    for _ in range(4):
        points.append(anderson(np.array(points), np.array(images)))
        images.append(matrix @ points[-1] + shift)
    # The plain iteration would be 0.9^5 = 0.59 away.
    assert np.linalg.norm(points[-1] - fixed) < 0.01


def test_anderson_starts_with_the_plain_step() -> None:
    assert anderson(np.zeros((1, 2)), np.array([[1.0, 2.0]])).tolist() == [1.0, 2.0]


SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_projection_is_the_nearest_point_of_the_level_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_blocks = 3 + seed
    point, inside = rng.dirichlet(np.ones(n_blocks), 2)
    slopes = rng.normal(size=(6, n_blocks))
    heights = -slopes @ inside - 0.01  # `inside` lies in the set
    found = project_on_level(point, slopes, heights)
    assert found is not None
    assert found.sum() == pytest.approx(1.0) and found.min() >= 0.0
    assert np.max(slopes @ found + heights) <= 1e-9
    best = minimize(
        lambda d: 0.5 * np.sum((d - point) ** 2),
        inside,
        jac=lambda d: d - point,
        bounds=[(0.0, 1.0)] * n_blocks,
        constraints=[
            {"type": "ineq", "fun": lambda d: -(slopes @ d + heights)},
            {"type": "eq", "fun": lambda d: d.sum() - 1.0},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(found, best.x, atol=1e-5)


def test_an_empty_level_set_has_no_projection() -> None:
    point = np.array([0.5, 0.5])
    assert project_on_level(point, np.zeros((1, 2)), np.array([1.0])) is None
    assert project_on_level(np.ones(1), np.zeros((1, 1)), np.array([-1.0])) == 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_many_blocks_are_projected_to_the_same_point(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    point, inside = rng.dirichlet(np.ones(40), 2)
    slopes = rng.normal(size=(8, 40))
    heights = -slopes @ inside - 0.001
    exact = project_on_level(point, slopes, heights)
    monkeypatch.setattr(levels, "MAX_EXACT_BLOCKS", 1)
    np.testing.assert_allclose(
        project_on_level(point, slopes, heights), exact, atol=1e-5
    )
    assert project_on_level(point, np.zeros((1, 40)), np.array([1.0])) is None


@pytest.mark.parametrize("error", [RuntimeError, np.linalg.LinAlgError])
def test_planes_that_coincide_are_projected_on_all_the_same(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SciPy's exact solver breaks off there, in some of its versions."""
    rng = np.random.default_rng(0)
    point, inside = rng.dirichlet(np.ones(4), 2)
    slopes = np.repeat(rng.normal(size=(2, 4)), 3, axis=0)
    heights = -slopes @ inside - 0.001
    exact = project_on_level(point, slopes, heights)

    def broken(system: np.ndarray, wanted: np.ndarray) -> None:
        raise error("Matrix is singular.")

    monkeypatch.setattr(levels, "nnls", broken)
    np.testing.assert_allclose(
        project_on_level(point, slopes, heights), exact, atol=1e-5
    )


def least_of_planes(slopes: list[np.ndarray], heights: list[float]) -> float:
    """The lowest point over the simplex of the largest of some planes."""
    matrix = np.array(slopes)
    solved = linprog(
        np.append(np.zeros(matrix.shape[1]), 1.0),
        A_ub=np.column_stack([matrix, -np.ones(len(matrix))]),
        b_ub=-np.array(heights),
        A_eq=np.append(np.ones(matrix.shape[1]), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * matrix.shape[1] + [(None, None)],
    )
    return float(solved.fun)


@pytest.mark.parametrize("seed", SEEDS)
def test_level_sets_find_the_best_weights(seed: int) -> None:
    inner, norm = ridge(seed), LpGroupNorm(1.0)
    bound = SimpleNamespace(value=-np.inf)
    search = LevelSearch(norm.uniform_weights(5), bound)
    upper, slopes, heights = np.inf, [], []
    for _ in range(40):
        theta_norms, value = inner(search.weights)
        slopes.append(-0.5 * theta_norms**2)
        heights.append(value - slopes[-1] @ search.weights)
        upper, bound.value = min(upper, value), least_of_planes(slopes, heights)
        if upper - bound.value <= 1e-6 * upper:
            break
        new = search.step(theta_norms, value, value)
        assert np.all(new >= 0.0) and new.sum() == pytest.approx(1.0)
    assert upper - bound.value <= 1e-6 * upper


def test_a_stored_search_goes_on_as_if_nothing_had_happened() -> None:
    inner, norm = ridge(1), LpGroupNorm(1.0)
    bound = SimpleNamespace(value=0.0)
    search, other = (LevelSearch(norm.uniform_weights(5), bound) for _ in range(2))
    for _ in range(3):
        theta_norms, value = inner(search.weights)
        search.step(theta_norms, value, value)
    other.restore(search.state())
    theta_norms, value = inner(search.weights)
    assert np.array_equal(
        search.step(theta_norms, value, value), other.step(theta_norms, value, value)
    )


PS = [1.0, 1.001, 1.01, 1.05, 1.25, 2.0]


def dual_points(problem: Problem, count: int) -> list[tuple[np.ndarray, float]]:
    rng = np.random.default_rng(0)
    points = []
    for _ in range(count):
        draw = -rng.exponential(size=(problem.n_rows, problem.n_outputs)) * 0.3
        unit = problem.loss.make_feasible(draw, problem.target)
        coef = unit * problem.bound[:, None] * rng.uniform(0.2, 1.0)
        own = coef[np.arange(problem.n_rows), problem.target]
        points.append((coef, float(own.sum())))
    return points


@pytest.mark.parametrize("p", PS)
def test_the_value_is_a_true_lower_bound(p: float) -> None:
    problem = toy_problem(30, n_rows=16, n_blocks=4, p=p, C=0.5)
    mixture = DualMixture(problem.norm)
    optimum = optimum_of(problem)
    best_alone = -np.inf
    previous = -np.inf
    for coef, linear in dual_points(problem, 20):
        norms = problem.theta_norms(coef)
        value = mixture.add(coef, linear, norms)
        alone = problem.dual_value(coef, norms)
        best_alone = max(best_alone, alone)
        true = problem.dual_value(mixture.coef, problem.theta_norms(mixture.coef))
        assert problem.reg * value <= true + 1e-12
        assert true <= optimum * (1.0 + 1e-6)
        assert problem.reg * value >= best_alone - 1e-12
        assert value >= previous
        previous = value
    assert value == mixture.value


def test_the_caller_may_change_its_array_afterwards() -> None:
    problem = toy_problem(31, n_rows=10, n_blocks=3, p=1.0)
    mixture = DualMixture(problem.norm)
    coef, linear = dual_points(problem, 1)[0]
    mixture.add(coef, linear, problem.theta_norms(coef))
    kept = mixture.coef.copy()
    coef[:] = 99.0
    assert np.array_equal(mixture.coef, kept)


def test_p_1_mixes_points_that_spoil_different_blocks() -> None:
    # Each point alone has one large block norm; half of each has none.
    mixture = DualMixture(LpGroupNorm(1.0))
    mixture.add(np.array([[1.0]]), 1.0, np.array([1.0, 0.0]))
    value = mixture.add(np.array([[3.0]]), 1.0, np.array([0.0, 1.0]))
    assert value == pytest.approx(1.0 - 0.5 * 0.5**2, abs=1e-6)
    assert mixture.coef[0, 0] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("points", "blocks"), [(5, 4), (2, 1), (12, 12), (12, 150)])
def test_p_1_finds_the_best_mixture(points: int, blocks: int, scale: float) -> None:
    rng = np.random.default_rng(points + blocks)
    linears = rng.uniform(1.0, 3.0, points)
    norms = rng.uniform(0.1, 2.0, (points, blocks))
    mixture = DualMixture(LpGroupNorm(1.0))
    for linear, row in zip(linears, norms, strict=True):
        mixture.add(np.zeros((1, 1)), scale**2 * linear, scale * row)
    shares = cp.Variable(points, nonneg=True)
    best = cp.Problem(
        cp.Maximize(linears @ shares - 0.5 * cp.square(cp.max(norms.T @ shares))),
        [cp.sum(shares) == 1.0],
    ).solve(solver=cp.CLARABEL)
    assert mixture.value == pytest.approx(scale**2 * best, rel=1e-6)


def test_a_mixture_that_is_worse_than_a_point_is_not_taken() -> None:
    # For finite q the best mixture of the limit q = inf may be worse than a point.
    norm = LpGroupNorm(1.03)
    assert 30.0 < norm.q < 40.0
    rng = np.random.default_rng(1)
    for _ in range(20):
        mixture = DualMixture(norm)
        values = []
        for _ in range(4):
            linear, row = rng.uniform(1.0, 3.0), rng.uniform(0.5, 1.5, 6)
            values.append(linear - norm.dual_value(row))
            mixture.add(np.zeros((1, 1)), linear, row)
        assert mixture.value >= max(values) - 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quadratic_model_is_minimized_on_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    point, root = rng.dirichlet(np.ones(6)), rng.normal(size=(4, 6))
    curvature, slopes = root.T @ root + 1e-3 * np.eye(6), rng.normal(size=6)
    found = lowest_on_simplex(point, slopes, curvature)
    assert found is not None
    d = cp.Variable(6, nonneg=True)
    value = slopes @ (d - point) + 0.5 * cp.quad_form(d - point, curvature)
    best = cp.Problem(cp.Minimize(value), [cp.sum(d) == 1.0]).solve()
    moved = found - point
    assert found.min() >= 0.0 and found.sum() == pytest.approx(1.0)
    assert slopes @ moved + 0.5 * moved @ curvature @ moved <= best + 1e-6


def test_a_curvature_without_a_root_has_no_minimum() -> None:
    even = np.full(2, 0.5)
    assert lowest_on_simplex(even, np.ones(2), np.zeros((2, 2))) is None
    assert lowest_on_simplex(even, np.ones(2), np.diag([1.0, -0.5])) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_learned_of_the_curvature_outlasts_a_change_of_the_rows(
    seed: int,
) -> None:
    """The same problem four times as large: fewer rounds than from nothing."""
    inner, norm = ridge(seed), LpGroupNorm(1.0)

    def rounds(search: LevelSearch, bound: SimpleNamespace, times: float) -> int:
        upper, slopes, heights = np.inf, [], []
        for count in range(60):
            theta_norms, value = inner(search.weights)
            slopes.append(-0.5 * times * theta_norms**2)
            heights.append(times * value - slopes[-1] @ search.weights)
            upper = min(upper, times * value)
            bound.value = least_of_planes(slopes, heights)
            if upper - bound.value <= 1e-6 * upper:
                return count
            search.step(np.sqrt(times) * theta_norms, times * value, times * value)
        return 60

    bound = SimpleNamespace(value=-np.inf)
    search = LevelSearch(norm.uniform_weights(5), bound)
    alone = rounds(search, bound, 1.0)
    search.restart()
    search.weights = norm.uniform_weights(5)
    assert rounds(search, bound, 4.0) < max(alone, 2) <= 40
