"""The parts of the rivals: planes, projections, directions, steps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from manykernels.compare import SMOMKL
from manykernels.compare.solvers.cutting_planes import Cuts
from manykernels.compare.solvers.simple_mkl import reduced_direction
from manykernels.compare.solvers.wrapper import FrozenSVM
from manykernels.hot import smo
from tests.compare.solvers.cases import case, exact
from tests.oracles.optimum import cvxpy_optimum

SEEDS = range(5)


def simplex_points(rng: np.random.Generator, n: int, n_blocks: int) -> np.ndarray:
    return rng.dirichlet(np.ones(n_blocks), size=n)


def test_the_svm_is_the_optimum_on_the_combined_kernel() -> None:
    problem = case(0, sparse=True)
    weights = np.array([0.5, 0.2, 0.3, 0.0])
    svm = FrozenSVM(problem, problem.zero(), np.random.default_rng(0))
    rough, fine = svm.solve(weights, 0.1), svm.solve(weights, 1e-7)
    stack = problem.bank.combine(weights, np.arange(problem.n_rows))[:, None, :]
    optimum = cvxpy_optimum(stack, problem.target, problem.n_outputs, 2.0, problem.C)
    assert problem.reg * fine.values.primal == pytest.approx(optimum, rel=1e-5)
    assert problem.reg * fine.value == pytest.approx(optimum, rel=1e-5)
    assert rough.value <= fine.value  # and the second call went on from the first
    np.testing.assert_allclose(fine.theta_norms, problem.theta_norms(fine.coef))


def test_the_svm_reports_its_derivatives() -> None:
    problem = case(0, sparse=True)
    svm = FrozenSVM(problem, problem.zero(), np.random.default_rng(0))
    weights, step = np.full(4, 0.25), 1e-3
    squares = svm.solve(weights, 1e-10).squares
    for f in range(4):
        change = step * np.eye(4)[f]
        ends = [svm.solve(weights + s * change, 1e-10).value for s in (1.0, -1.0)]
        slope = (ends[0] - ends[1]) / (2.0 * step)
        assert slope == pytest.approx(-0.5 * squares[f], rel=1e-2, abs=1e-4)


def test_planes_stay_below_the_values_and_bound_the_optimum() -> None:
    problem, rng = case(3, sparse=True), np.random.default_rng(0)
    svm = FrozenSVM(problem, problem.zero(), rng)
    cuts, points = Cuts(8), simplex_points(rng, 12, 8)
    values, bounds = [], []
    for weights in points:
        solution = svm.solve(weights, 1e-6)
        values.append(solution.values.primal)
        bounds.append(
            cuts.add(solution.coef, solution.values.linear, solution.theta_norms)
        )
    slopes, heights = cuts.planes()
    model = np.max(points @ slopes.T + heights, axis=1)
    assert np.all(model <= np.array(values) * (1.0 + 1e-9))
    np.testing.assert_allclose(model, values, rtol=1e-5)
    assert np.all(np.diff(bounds) >= 0.0)
    assert problem.reg * cuts.value <= exact(3, sparse=True) * (1.0 + 1e-6)
    point = problem.dual_value(cuts.coef, problem.theta_norms(cuts.coef))
    assert point >= problem.reg * cuts.value * (1.0 - 1e-9)
    lowest = np.max(slopes @ cuts.weights + heights)
    others = simplex_points(rng, 200, 8)
    assert np.all(np.max(others @ slopes.T + heights, axis=1) >= lowest - 1e-9)
    assert cuts.value >= lowest - 1e-9 * abs(lowest)


@pytest.mark.parametrize("seed", SEEDS)
def test_directions_descend_and_keep_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, gradient = rng.dirichlet(np.ones(6)), rng.normal(size=6)
    weights[rng.integers(6)] = 0.0
    direction = reduced_direction(weights, gradient)
    assert direction.sum() == pytest.approx(0.0, abs=1e-12)
    assert gradient @ direction < 0.0
    assert np.all(direction[weights == 0.0] >= 0.0)


def dual_value(stack, target, alpha, q) -> float:
    signed = alpha * np.where(target == 1, 1.0, -1.0)
    squares = [2.0 * signed @ stack[:, f, :] @ signed for f in range(stack.shape[1])]
    return alpha.sum() - 0.5 * np.linalg.norm(np.sqrt(squares), ord=q) ** 2


@pytest.mark.parametrize("index", [1, 3])
def test_smo_steps_are_the_best_ones_on_their_lines(index: int) -> None:
    problem = case(index, n_classes=2)
    n_rows, q = problem.n_rows, problem.norm.q
    stack = problem.bank.rows(np.arange(n_rows))
    state = smo.SMOState(
        np.zeros(n_rows), np.zeros((stack.shape[1], n_rows)), np.zeros(stack.shape[1])
    )
    signs = np.where(problem.target == 1, 1.0, -1.0)
    rest = (problem.bound, problem.bank.diagonals(), q)
    for _ in range(60):
        before = state.alpha.copy()
        assert smo.smo_steps(stack, np.arange(n_rows), state, signs, *rest, 1)[0] == 1
        (i,) = np.flatnonzero(state.alpha != before)

        def value(a: float, before=before, i=i) -> float:
            alpha = before.copy()
            alpha[i] = a
            return dual_value(stack, problem.target, alpha, q)

        best = minimize_scalar(
            lambda a: -value(a), bounds=(0.0, problem.bound[i]), method="bounded"
        )
        assert value(state.alpha[i]) >= -best.fun - 1e-9
        assert value(state.alpha[i]) >= value(before[i])
    signed = state.alpha * signs
    partial = np.einsum("ifj,j->fi", stack, signed)
    np.testing.assert_allclose(state.partial, partial, atol=1e-10)
    np.testing.assert_allclose(state.squares, 2.0 * partial @ signed, atol=1e-9)


def test_smo_stops_where_nothing_can_gain() -> None:
    result = SMOMKL(tol=0.0, max_iter=400).solve(case(4))
    assert result.relative_gap < 1e-9
