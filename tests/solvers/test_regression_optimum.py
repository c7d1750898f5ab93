"""Certified regression against an interior-point solver."""

from __future__ import annotations

from functools import lru_cache

import pytest

from manykernels.losses import EpsilonInsensitive, Huber, Squared
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ascent import RegressionAscent
from manykernels.solvers.regression.ridge import Ridge
from tests.oracles.regression import (
    naive_regression_objective,
    regression_optimum,
    toy_regression,
)

LOSSES = (Squared(), Huber(0.5), EpsilonInsensitive(0.1))
PS = (1.0, 1.05, 4 / 3, 1.5, 1.9, 2.0)
CASES = [(loss, p) for loss in LOSSES for p in PS]
NAMES = [f"{loss.name}-{p:.3g}" for loss, p in CASES]


@lru_cache
def case(index: int) -> tuple[Problem, float]:
    """Every loss meets every p; C, targets, sizes and weights vary with the index."""
    loss, p = CASES[index]
    problem = toy_regression(
        seed=index,
        loss=loss,
        p=p,
        C=(0.1, 1.0, 10.0, 100.0)[(index + index // 6) % 4],
        n_rows=(14, 20, 30)[index % 3],
        n_blocks=(1, 3, 5, 8, 4)[index % 5],
        n_outputs=1 + index % 2,
        weighted=index % 4 == 1,
    )
    return problem, regression_optimum(problem)


def solvers(problem: Problem) -> list:
    found = [RegressionAscent(tol=1e-8, random_state=0)]
    return [*found, Ridge(tol=1e-8)] if problem.loss.name == "squared" else found


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_solvers_reach_the_optimum(index: int) -> None:
    problem, optimum = case(index)
    for solver in solvers(problem):
        result = solver.solve(problem)
        assert result.converged, result.relative_gap
        assert result.objective == pytest.approx(optimum, rel=1e-5)
        value = naive_regression_objective(problem, result.model)
        assert result.objective == pytest.approx(value, rel=1e-9)
        gap = problem.duality_gap(result.model, result.dual_coef)
        assert gap == pytest.approx(result.duality_gap, abs=1e-10 * value)
