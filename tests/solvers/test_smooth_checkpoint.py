"""Killed searches for smooth losses end with the same bits."""

from __future__ import annotations

import pytest

from manykernels.losses import Softmax
from manykernels.solvers import Auto
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton
from manykernels.solvers.svrg.solver import SVRG
from tests.oracles.smooth import smooth_problem
from tests.solvers.test_checkpoint import KilledError, Memory, same

SOLVERS = [
    Auto(tol=1e-8, random_state=3),
    TruncatedNewton(tol=1e-8, random_state=3),
    SVRG(tol=1e-7, random_state=3),
    SVRG(tol=1e-9, eps=1e-2, steps="theory", random_state=3),
]


@pytest.mark.parametrize(
    "solver", SOLVERS, ids=["auto", "newton", "practical", "theory"]
)
@pytest.mark.parametrize("p", [1.0, 1.02, 1.5])
@pytest.mark.parametrize("kill_after", [1, 4])
def test_killed_and_resumed_equals_uninterrupted(
    solver, p: float, kill_after: int, one_blas_thread
) -> None:
    if p == 1.0 and isinstance(solver, SVRG):
        pytest.skip("this solver needs p > 1")
    problem = smooth_problem(Softmax(), 31, n_rows=30, n_blocks=5, p=p, C=2.0)
    whole = solver.solve(problem)
    assert len(whole.history) > kill_after
    memory = Memory()
    memory.kill_after = kill_after
    with pytest.raises(KilledError):
        solver.solve(problem, checkpoint=memory)
    memory.kill_after = -1
    same(whole, solver.solve(problem, checkpoint=memory))
