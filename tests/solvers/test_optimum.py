"""Certified solutions against an interior-point solver."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from manykernels.solvers import Auto, DualAscent, Obscure, Pegasos
from manykernels.solvers.problem import Problem
from tests.oracles.naive import naive_objective
from tests.oracles.optimum import optimum_of
from tests.oracles.toys import toy_problem

CASES = range(25)
PS = (1.0, 1.05, 1.25, 1.5, 2.0)
EXACT = 1e-6  # relative error of the interior-point solver


@lru_cache
def case(index: int) -> tuple[Problem, float]:
    """Every p meets every C; sizes, classes and kernels vary with the index."""
    problem = toy_problem(
        seed=index,
        n_rows=(14, 20, 30)[index % 3],
        n_blocks=(1, 2, 3, 5, 8, 4, 6)[index % 7],
        n_classes=2 + index % 3,
        p=PS[index % 5],
        C=(0.1, 1.0, 10.0, 100.0)[index % 4],
        weighted=index % 6 == 5,
    )
    return problem, optimum_of(problem)


@pytest.mark.parametrize("solver", [Auto, DualAscent])
@pytest.mark.parametrize("index", CASES)
def test_certified_solvers_reach_the_optimum(index: int, solver: type) -> None:
    problem, optimum = case(index)
    result = solver(tol=1e-4, random_state=index).solve(problem)
    assert result.converged, result.relative_gap
    assert result.objective == pytest.approx(optimum, rel=1e-3)
    assert result.objective >= optimum * (1.0 - EXACT)
    assert result.duality_gap >= result.objective - optimum - EXACT * optimum
    stack = problem.bank.rows(np.arange(problem.n_rows))
    value = naive_objective(stack, problem, result.model)
    assert result.objective == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("index", CASES)
def test_the_gap_of_any_model_bounds_its_distance_to_the_optimum(index: int) -> None:
    problem, optimum = case(index)
    rough = DualAscent(tol=0.3, random_state=index).solve(problem)
    for model in (rough.model, problem.zero()):
        distance = problem.objective(model) - optimum
        assert problem.duality_gap(model) >= distance - EXACT * optimum
    zero_gap = problem.duality_gap(problem.zero())
    assert problem.duality_gap(rough.model) < zero_gap


@pytest.mark.parametrize("solver", [Obscure, Pegasos])
@pytest.mark.parametrize("index", [2, 8, 12, 13, 17])
def test_the_gap_of_a_stochastic_run_is_honest(index: int, solver: type) -> None:
    problem, optimum = case(index)
    result = solver(random_state=index).solve(problem)
    distance = result.objective - optimum
    assert distance >= -EXACT * optimum
    assert result.duality_gap >= distance - EXACT * optimum


@pytest.mark.parametrize("p", [1.0, 1.05, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_tight_tolerances_are_reached_in_float64(p: float, C: float) -> None:
    problem = toy_problem(seed=1, n_rows=26, n_blocks=3, n_classes=3, p=p, C=C)
    result = Auto(tol=1e-6, random_state=0).solve(problem)
    assert result.converged, result.relative_gap
    assert result.relative_gap <= 1e-6
    assert result.objective == pytest.approx(optimum_of(problem), rel=5e-6)


@pytest.mark.parametrize("p", [1.0, 1.0001, 1.001, 1.01, 1.03])
def test_nearly_sparse_norms_are_certified(p: float) -> None:
    # Close to p = 1 the dual exponent is huge and the best weights change abruptly.
    uncertified = []
    for seed in range(25):
        problem = toy_problem(
            seed,
            n_rows=20 + seed % 10,
            n_blocks=2 + seed % 7,
            n_classes=2 + seed % 3,
            p=p,
            C=(0.1, 1.0, 10.0, 100.0, 1000.0)[seed % 5],
        )
        result = Auto(tol=1e-4, random_state=seed).solve(problem)
        if not result.converged:
            uncertified.append((seed, result.relative_gap))
    assert not uncertified
