"""Certified fits of censored times against an interior-point solver."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from manykernels.losses import CensoredEpsilonInsensitive, EpsilonInsensitive
from manykernels.solvers import SVRG, Auto, DualAscent, Obscure, TruncatedNewton
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ascent import RegressionAscent
from tests.oracles.survival import (
    naive_survival_objective,
    survival_optimum,
    toy_survival,
)

PS = (1.0, 1.05, 4 / 3, 1.5, 1.9, 2.0)
EPSILONS = (0.0, 0.2)
CASES = [(p, epsilon) for p in PS for epsilon in EPSILONS]
SOLVERS = (Auto, RegressionAscent)  # those that take the loss


@lru_cache
def case(index: int) -> tuple[Problem, float]:
    """C, sizes, weights and the share of censored rows vary with the index."""
    p, epsilon = CASES[index]
    problem = toy_survival(
        seed=index,
        epsilon=epsilon,
        p=p,
        C=(0.1, 1.0, 10.0, 30.0)[(index + index // 5) % 4],
        n_rows=(14, 20, 30)[index % 3],
        n_blocks=(1, 3, 5, 8, 4)[index % 5],
        weighted=index % 4 == 1,
        share=(0.2, 0.5, 0.8)[index % 3],
    )
    return problem, survival_optimum(problem)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("index", range(len(CASES)))
def test_solvers_reach_the_optimum(index: int, solver: type) -> None:
    problem, optimum = case(index)
    result = solver(tol=1e-8, random_state=0).solve(problem)
    assert result.converged, result.relative_gap
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    value = naive_survival_objective(problem, result.model)
    assert result.objective == pytest.approx(value, rel=1e-9)
    gap = problem.duality_gap(result.model, result.dual_coef)
    assert gap == pytest.approx(result.duality_gap, abs=1e-10 * value)
    assert np.all(result.dual_coef[problem.target[:, 1] == 0.0] >= 0.0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_gaps_are_never_negative_and_bound_the_distance(solver: type) -> None:
    for index in range(0, len(CASES), 3):
        problem, optimum = case(index)
        for max_iter in (1, 2, 3):
            found = solver(tol=0.0, max_iter=max_iter, random_state=0).solve(problem)
            assert found.duality_gap >= found.objective - optimum - 1e-6 * optimum
            assert found.duality_gap >= 0.0


@pytest.mark.parametrize("p", [1.0, 1.2, 2.0])
def test_events_only_are_plain_regression_to_the_bit(p: float) -> None:
    problem = toy_survival(3, 0.1, p, C=5.0, n_rows=40, share=0.0, weighted=True)
    assert problem.target[:, 1].all()
    plain = replace(problem, loss=EpsilonInsensitive(0.1), target=problem.target[:, :1])
    ours, expected = (
        RegressionAscent(tol=1e-7, random_state=0).solve(one)
        for one in (problem, plain)
    )
    np.testing.assert_array_equal(ours.model.coef, expected.model.coef)
    np.testing.assert_array_equal(ours.model.weights, expected.model.weights)
    assert ours.objective == expected.objective
    assert ours.duality_gap == expected.duality_gap


def test_a_late_censored_row_is_free_and_an_early_one_pulls() -> None:
    problem = toy_survival(1, 0.0, 2.0, C=10.0, share=0.0)
    last = problem.target.copy()
    last[0] = -50.0, 0.0  # known to be longer than next to nothing
    free = replace(problem, target=last)
    without = problem.take(np.arange(1, problem.n_rows))
    a, b = (
        RegressionAscent(tol=1e-10, random_state=0).solve(x) for x in (free, without)
    )
    assert a.model.coef[0, 0] == 0.0
    np.testing.assert_allclose(a.model.coef[1:], b.model.coef, atol=1e-6)
    last[0] = 50.0, 0.0
    pulled = RegressionAscent(tol=1e-8, random_state=0).solve(
        replace(problem, target=last.copy())
    )
    assert pulled.model.coef[0, 0] == pytest.approx(problem.bound[0])


@pytest.mark.parametrize("solver", [DualAscent, Obscure, TruncatedNewton, SVRG])
def test_solvers_of_other_losses_refuse_it(solver: type) -> None:
    assert isinstance(case(0)[0].loss, CensoredEpsilonInsensitive)
    with pytest.raises(ValueError, match="got the loss 'censored'"):
        solver().solve(case(0)[0])


@pytest.mark.parametrize("start", ["zero", "infeasible"])
def test_any_start_leads_to_the_same_optimum(start: str) -> None:
    problem, optimum = case(6)
    model = problem.zero()
    if start == "infeasible":
        model = replace(model, coef=model.coef - 3.0)
    result = RegressionAscent(tol=1e-7, random_state=0).solve(problem, model)
    assert result.objective == pytest.approx(optimum, rel=1e-5)
