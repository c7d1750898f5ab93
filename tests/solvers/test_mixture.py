"""Mixtures of dual points are true lower bounds, and good ones."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from manykernels.norms import LpGroupNorm
from manykernels.solvers import Problem
from manykernels.solvers.weights import DualMixture
from tests.oracles.optimum import optimum_of
from tests.oracles.toys import toy_problem

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


@pytest.mark.parametrize("seed", range(5))
def test_p_1_finds_the_best_mixture(seed: int) -> None:
    rng = np.random.default_rng(seed)
    linears = rng.uniform(1.0, 3.0, 5)
    norms = rng.uniform(0.1, 2.0, (5, 4))
    mixture = DualMixture(LpGroupNorm(1.0))
    for linear, row in zip(linears, norms, strict=True):
        mixture.add(np.zeros((1, 1)), linear, row)
    shares = cp.Variable(5, nonneg=True)
    best = cp.Problem(
        cp.Maximize(linears @ shares - 0.5 * cp.square(cp.max(norms.T @ shares))),
        [cp.sum(shares) == 1.0],
    ).solve(solver=cp.CLARABEL)
    assert mixture.value == pytest.approx(best, abs=1e-5)


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
