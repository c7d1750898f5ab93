"""Small problems on which rivals are tried."""

from __future__ import annotations

from functools import lru_cache

from manykernels.solvers import Auto
from manykernels.solvers.loop import SolveResult
from manykernels.solvers.problem import Problem
from tests.oracles.optimum import optimum_of
from tests.oracles.toys import toy_problem

# seed, rows, kernels, classes, C, p where p > 1, with sample weights
CASES = (
    (0, 24, 4, 3, 1.0, 1.25, False),
    (1, 30, 6, 2, 10.0, 1.5, False),
    (2, 27, 3, 3, 0.2, 1.1, True),
    (3, 40, 8, 4, 5.0, 1.05, False),
    (4, 20, 1, 2, 2.0, 1.75, False),
    (5, 36, 5, 3, 100.0, 2.0, True),
)
INDICES = range(len(CASES))


@lru_cache
def case(index: int, sparse: bool = False, n_classes: int | None = None) -> Problem:
    """A problem; with p = 1 if `sparse`."""
    seed, n_rows, n_blocks, classes, C, p, weighted = CASES[index]
    return toy_problem(
        seed, n_rows, n_blocks, n_classes or classes, 1.0 if sparse else p, C, weighted
    )


@lru_cache
def certified(
    index: int, sparse: bool = False, n_classes: int | None = None
) -> SolveResult:
    """Our own solution."""
    return Auto(tol=1e-6, random_state=0).solve(case(index, sparse, n_classes))


@lru_cache
def exact(index: int, sparse: bool = False, n_classes: int | None = None) -> float:
    """The optimum by an interior-point method."""
    return optimum_of(case(index, sparse, n_classes))
