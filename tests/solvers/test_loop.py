"""The shared loop: history, best iterate, stopping, interruption, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import (
    Auto,
    DualAscent,
    InterruptedFitWarning,
    Obscure,
    Pegasos,
)
from manykernels.solvers.loop import Epoch, Iterate, relative_gap, run
from manykernels.solvers.problem import Expansion
from tests.oracles.naive import naive_objective
from tests.oracles.toys import toy_problem

SOLVERS = [
    Auto(tol=1e-4, random_state=3),
    DualAscent(tol=1e-4, random_state=3),
    Obscure(random_state=3),
    Pegasos(random_state=3),
]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
MODEL = Expansion(np.zeros((1, 2)), np.ones(1))


class MadeUp:
    """A search with the given objectives and dual bounds."""

    def __init__(self, *values: tuple[float, float]) -> None:
        self.values = values

    def iterates(self):
        for number, (objective, dual_bound) in enumerate(self.values):
            coef = np.full((1, 2), float(number))
            model = Expansion(coef, np.ones(1))
            yield Iterate(objective, dual_bound, number, lambda model=model: model)


@each_solver
def test_history_and_best_iterate(solver) -> None:
    problem = toy_problem(23, n_rows=30, p=1.1, C=10.0)
    result = solver.solve(problem)
    objectives = np.array([line.objective for line in result.history])
    gaps = np.array([line.gap for line in result.history])
    assert [line.epoch for line in result.history] == list(range(1, len(gaps) + 1))
    assert np.all(gaps >= 0.0)
    assert np.all(np.diff(gaps) <= 0.0)
    assert np.all(np.diff([line.time for line in result.history]) >= 0.0)
    assert result.objective == objectives.min()
    assert isinstance(result.converged, bool)
    assert result.relative_gap == pytest.approx(gaps[-1], rel=1e-9)
    stack = problem.bank.rows(np.arange(30))
    value = naive_objective(stack, problem, result.model)
    assert value == pytest.approx(result.objective, rel=1e-9)


@each_solver
def test_the_same_seed_gives_the_same_bits(solver, one_blas_thread) -> None:
    problem = toy_problem(24, n_rows=30, p=1.25, C=5.0)
    first, second = solver.solve(problem), solver.solve(problem)
    assert np.array_equal(first.model.coef, second.model.coef)
    assert np.array_equal(first.model.weights, second.model.weights)
    assert first.objective == second.objective
    assert first.duality_gap == second.duality_gap
    other = replace(solver, random_state=4).solve(problem)
    assert not np.array_equal(first.model.coef, other.model.coef)


@each_solver
def test_a_callback_stops_the_fit(solver) -> None:
    problem = toy_problem(25, p=1.1, C=10.0)
    lines: list[Epoch] = []

    def stop_at_two(line: Epoch) -> bool:
        lines.append(line)
        return line.epoch == 2

    result = replace(solver, tol=0.0).solve(problem, callback=stop_at_two)
    assert len(result.history) == 2
    assert lines == result.history
    assert not result.converged


@each_solver
def test_an_interruption_keeps_the_best_model(solver) -> None:
    problem = toy_problem(26, p=1.1, C=10.0)

    def interrupt(line: Epoch) -> None:
        if line.epoch == 3:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning, match="after 3 epochs; the best model"):
        result = replace(solver, tol=0.0).solve(problem, callback=interrupt)
    assert len(result.history) == 3
    assert result.objective == min(line.objective for line in result.history)
    assert problem.objective(result.model) == pytest.approx(result.objective)


def test_an_interruption_before_the_first_epoch_is_not_swallowed() -> None:
    class Interrupted(MadeUp):
        def iterates(self):
            raise KeyboardInterrupt
            yield

    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(), MODEL, tol=0.0)


def test_the_best_of_made_up_iterates_is_returned() -> None:
    iterates = MadeUp((3.0, 0.0), (1.0, 0.5), (2.0, 0.25))
    result = run(iterates, MODEL, tol=0.0)
    assert result.objective == 1.0
    assert result.duality_gap == 0.5
    assert np.all(result.model.coef == 1.0)
    assert [line.gap for line in result.history] == [1.0, 0.5, 0.5]
    assert not result.converged


def test_the_loop_stops_at_the_tolerance() -> None:
    result = run(MadeUp((2.0, 1.0), (2.0, 1.9), (2.0, 2.0)), MODEL, tol=0.1)
    assert len(result.history) == 2
    assert result.converged


def test_patience_ends_a_stalled_fit() -> None:
    values = [(3.0, 0.0), (1.0, 0.0), *[(1.0, 0.0)] * 20]
    stalled = run(MadeUp(*values), MODEL, tol=0.0, patience=4)
    assert len(stalled.history) == 6
    assert len(run(MadeUp(*values), MODEL, tol=0.0).history) == 22


def test_relative_gap_is_never_negative() -> None:
    assert relative_gap(2.0, 1.5) == 0.25
    assert relative_gap(2.0, 2.5) == 0.0
    assert relative_gap(0.0, -1.0) == 0.0


def test_too_few_rounds_are_reported_as_such() -> None:
    problem = toy_problem(27, n_rows=30, n_blocks=6, p=1.05, C=10.0)
    result = Auto(tol=1e-6, max_iter=2, random_state=0).solve(problem)
    assert len(result.history) == 2
    assert not result.converged
    assert result.relative_gap > 1e-6


def test_stage_1_ends_when_nothing_is_wrong() -> None:
    problem = toy_problem(6, n_rows=20, n_blocks=5, n_classes=3, p=1.5)
    result = Obscure(online_passes=500, batch_passes=0, random_state=0).solve(problem)
    assert len(result.history) < 500
    assert result.history[-1].updates == 0
    assert all(line.updates > 0 for line in result.history[:-1])


@pytest.mark.parametrize("solver", [Obscure, Pegasos])
def test_mirror_descent_refuses_p_1(solver: type) -> None:
    problem = toy_problem(29, p=1.0)
    with pytest.raises(ValueError, match=r"needs 1 < p <= 2 .* got p=1; use p=1.05"):
        solver().solve(problem)


class Ranking(MulticlassHinge):
    """A loss with kinks that no solver knows."""

    name, has_hinge_dual = "ranking", False


@each_solver
def test_other_losses_are_refused(solver) -> None:
    problem = toy_problem(29, p=1.5)
    other = replace(problem, loss=Ranking())
    name = type(solver).__name__
    with pytest.raises(ValueError, match=f"{name} handles .*the hinge loss.*, got"):
        solver.solve(other)


@pytest.mark.parametrize("p", [0.5, 2.5, np.nan])
def test_the_norm_refuses_p_out_of_range(p: float) -> None:
    with pytest.raises(ValueError, match="p must be between 1"):
        LpGroupNorm(p)
