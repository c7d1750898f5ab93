"""When exact solves are the way to go."""

from __future__ import annotations

from manykernels.solvers.problem import Problem

DIRECT_ROWS = 10_000  # above which Cholesky factors take minutes


def is_moderate(problem: Problem) -> bool:
    """Whether a Cholesky factor of all rows fits and does not take minutes."""
    return problem.n_rows <= min(DIRECT_ROWS, problem.bank.max_combined_rows)
