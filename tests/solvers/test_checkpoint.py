"""A killed search goes on from its checkpoint and ends with the same bits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from manykernels.banks import OnDemandBank
from manykernels.files.plain import from_plain, to_plain
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto, DualAscent, Obscure, Pegasos, mirror
from manykernels.solvers.loop import SolveResult
from tests.oracles.toys import blobs, make_problem, toy_problem


class KilledError(Exception):
    """Stands for kill -9."""


class Memory:
    """A checkpoint as a file would hold it, and a kill after some of the saves."""

    def __init__(self) -> None:
        self.kept: str | None = None
        self.arrays: list[np.ndarray] = []
        self.kill_after = -1

    def load(self):
        if self.kept is None:
            return None
        return from_plain(json.loads(self.kept), [a.copy() for a in self.arrays])

    def save(self, state, last: bool) -> None:
        arrays: list[np.ndarray] = []
        self.kept = json.dumps(to_plain(state(), arrays))
        self.arrays = [a.copy() for a in arrays]
        self.kill_after -= 1
        if self.kill_after == 0:
            raise KilledError


def same(one: SolveResult, other: SolveResult) -> None:
    assert np.array_equal(one.model.coef, other.model.coef)
    assert np.array_equal(one.model.weights, other.model.weights)
    assert one.objective == other.objective
    assert one.duality_gap == other.duality_gap
    assert [line._replace(time=0.0) for line in one.history] == [
        line._replace(time=0.0) for line in other.history
    ]


SOLVERS = [
    Auto(tol=1e-6, random_state=3),
    DualAscent(tol=1e-6, subset=8, random_state=3),
    Obscure(online_passes=3, batch_passes=5, random_state=3),
    Pegasos(passes=6, random_state=3),
]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)


@each_solver
@pytest.mark.parametrize("p", [1.0, 1.25])
@pytest.mark.parametrize("kill_after", [1, 2, 5])
def test_killed_and_resumed_equals_uninterrupted(
    solver, p: float, kill_after: int, one_blas_thread
) -> None:
    if p == 1.0 and isinstance(solver, Obscure | Pegasos):
        pytest.skip("this solver needs p > 1")
    problem = toy_problem(31, n_rows=120, p=p, C=10.0)
    whole = solver.solve(problem)
    memory = Memory()
    memory.kill_after = kill_after
    with pytest.raises(KilledError):
        solver.solve(problem, checkpoint=memory)
    memory.kill_after = kill_after  # and once more
    try:
        resumed = solver.solve(problem, checkpoint=memory)
    except KilledError:
        memory.kill_after = -1
        resumed = solver.solve(problem, checkpoint=memory)
    same(whole, resumed)


@each_solver
def test_rows_computed_on_demand_resume_to_the_bit(
    solver, monkeypatch: pytest.MonkeyPatch, one_blas_thread
) -> None:
    monkeypatch.setattr(mirror, "PREFETCHED_ROWS", 5)
    X, target = blobs(90, 3, seed=5)
    kernels = KernelSet.fit([RBF(0.1), Linear()], X)
    problem = make_problem(OnDemandBank(kernels), target, p=1.5, C=5.0)
    whole = solver.solve(problem)
    memory = Memory()
    memory.kill_after = 3
    with pytest.raises(KilledError):
        solver.solve(problem, checkpoint=memory)
    same(whole, solver.solve(problem, checkpoint=memory))


@pytest.mark.parametrize("p", [1.0, 1.1, 1.5])
def test_a_combined_kernel_that_still_serves_is_made_anew_row_by_row(
    p: float, one_blas_thread
) -> None:
    """Sums over its rows are rounded by their order, which is that of the rows."""
    solver = DualAscent(tol=1e-4, subset=20, random_state=0)
    for seed in (0, 2, 3, 5, 7):
        problem = toy_problem(seed, n_rows=150, p=p, C=10.0)
        whole = solver.solve(problem)
        for kill_after in range(2, 12):
            memory = Memory()
            memory.kill_after = kill_after
            try:
                solver.solve(problem, checkpoint=memory)
                break
            except KilledError:
                same(whole, solver.solve(problem, checkpoint=memory))


@pytest.mark.parametrize("rows", [[0, 0], [-1], [10**6], [0.5]])
def test_rows_that_no_search_holds_are_refused(rows: list) -> None:
    problem = toy_problem(0, n_rows=30)
    solver, memory = DualAscent(tol=1e-9, random_state=0), Memory()
    memory.kill_after = 2
    with pytest.raises(KilledError):
        solver.solve(problem, checkpoint=memory)
    state = memory.load()
    state["search"]["rows"] = np.array(rows)
    memory.load = lambda: state  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="delete the checkpoint"):
        solver.solve(problem, checkpoint=memory)


@each_solver
def test_a_finished_search_is_returned_at_once(solver) -> None:
    problem = toy_problem(32, n_rows=40, p=1.25, C=2.0)
    memory = Memory()
    whole = solver.solve(problem, checkpoint=memory)
    before = memory.kept
    same(whole, solver.solve(problem, checkpoint=memory))
    assert memory.kept == before


def test_a_finished_search_can_be_made_more_precise() -> None:
    problem = toy_problem(33, n_rows=60, p=1.1, C=20.0)
    memory = Memory()
    rough = Auto(tol=1e-1, random_state=0)
    assert rough.solve(problem, checkpoint=memory).relative_gap > 1e-5
    fine = replace(rough, tol=1e-5).solve(problem, checkpoint=memory)
    assert fine.relative_gap <= 1e-5
