"""Every rival reaches the optimum that our certified solver finds."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.compare import (
    SILP,
    SMOMKL,
    GroupLassoMKL,
    Kloft,
    LevelMethod,
    SimpleMKL,
)
from manykernels.solvers.loop import SolveResult
from manykernels.solvers.problem import Problem
from tests.compare.solvers.cases import INDICES, case, certified, exact
from tests.oracles.naive import naive_objective

TOL = 2e-4
SPARSE = [SimpleMKL, SILP, LevelMethod, GroupLassoMKL]
SMOOTH = {
    "wrapper": Kloft(TOL, random_state=0),
    "interleaved": Kloft(TOL, interleaved=True, random_state=0),
    "group lasso": GroupLassoMKL(TOL, random_state=0),
}


def check(problem: Problem, result: SolveResult, reference: SolveResult) -> None:
    assert result.converged, result.relative_gap
    assert result.objective == pytest.approx(reference.objective, rel=1e-3)
    np.testing.assert_allclose(result.model.weights, reference.model.weights, atol=0.03)
    stack = problem.bank.rows(np.arange(problem.n_rows))
    value = naive_objective(stack, problem, result.model)
    assert result.objective == pytest.approx(value, rel=1e-9)
    # The certificate can be checked from what is returned, and is no better than true.
    gap = problem.duality_gap(result.model, result.dual_coef)
    assert gap <= result.duality_gap + 1e-9 * result.objective
    below = reference.objective - reference.duality_gap
    assert result.objective - result.duality_gap <= reference.objective * (1 + 1e-9)
    assert result.objective >= below * (1.0 - 1e-9)


@pytest.mark.parametrize("solver", SPARSE)
@pytest.mark.parametrize("index", INDICES)
def test_sparse_rivals_reach_the_certified_optimum(index: int, solver: type) -> None:
    problem = case(index, sparse=True)
    result = solver(tol=TOL, random_state=0).solve(problem)
    check(problem, result, certified(index, sparse=True))


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("index", INDICES)
def test_closed_form_weights_reach_the_certified_optimum(index: int, name: str) -> None:
    problem = case(index)
    check(problem, SMOOTH[name].solve(problem), certified(index))


@pytest.mark.parametrize("index", INDICES)
def test_smo_reaches_the_certified_optimum_of_two_classes(index: int) -> None:
    problem = case(index, n_classes=2)
    result = SMOMKL(tol=TOL).solve(problem)
    check(problem, result, certified(index, n_classes=2))


@pytest.mark.parametrize("solver", SPARSE)
def test_sparse_rivals_reach_an_interior_point_optimum(solver: type) -> None:
    result = solver(tol=TOL, random_state=0).solve(case(0, sparse=True))
    assert result.objective == pytest.approx(exact(0, sparse=True), rel=1e-3)


@pytest.mark.parametrize("name", SMOOTH)
def test_closed_form_weights_reach_an_interior_point_optimum(name: str) -> None:
    assert SMOOTH[name].solve(case(0)).objective == pytest.approx(exact(0), rel=1e-3)


def test_smo_reaches_an_interior_point_optimum() -> None:
    result = SMOMKL(tol=TOL).solve(case(0, n_classes=2))
    assert result.objective == pytest.approx(exact(0, n_classes=2), rel=1e-3)


def test_sparse_weights_vanish_exactly() -> None:
    problem, reference = case(3, sparse=True), certified(3, sparse=True)
    dead = reference.model.weights == 0.0
    assert dead.any()
    for solver in (SimpleMKL, SILP, LevelMethod):
        weights = solver(tol=TOL, random_state=0).solve(problem).model.weights
        assert np.any(weights[dead] == 0.0), solver
        assert weights.sum() == pytest.approx(1.0)


def test_alternation_never_raises_the_objective() -> None:
    result = Kloft(tol=1e-6, random_state=0).solve(case(3))
    values = np.array([line.objective for line in result.history])
    # Solutions are inexact: to a tenth of the gap at their time.
    slack = 0.2 * np.array([line.gap for line in result.history])
    assert np.all(values[1:] <= values[:-1] * (1.0 + slack[:-1]))


def test_a_warm_start_saves_rounds() -> None:
    problem, model = case(3), certified(3).model
    for solver in (Kloft(1e-4, random_state=0), SMOMKL(1e-4)):
        if isinstance(solver, SMOMKL):
            problem = case(3, n_classes=2)
            model = certified(3, n_classes=2).model
        cold = solver.solve(problem)
        warm = solver.solve(problem, model)
        assert warm.converged and len(warm.history) < len(cold.history)
