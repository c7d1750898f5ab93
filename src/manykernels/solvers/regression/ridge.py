"""Certified multiple kernel ridge regression: Newton's method on the kernel weights."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from manykernels.solvers.loop import (
    Callback,
    Checkpoint,
    Iterate,
    SolveResult,
    run,
)
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.ridge_exact import (
    certified_iterate,
    few_threads,
    solve_exactly,
)
from manykernels.solvers.state import Remembers
from manykernels.solvers.weight_steps import WeightSteps

START_SHARE = 4  # a sample of one row in so many gives the first weights
START_ROWS = 200  # in the sample at least
START_TOL = 1e-2

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ridge:
    r"""Minimize :math:`J(d) = \frac12 tr(Y^\top (K_d + D)^{-1} Y)` over the weights d.

    For the squared loss and 1 <= p <= 2, with :math:`D = diag(1 / (C c_i))`. The inner
    problem is ridge regression: one Cholesky factor gives the coefficients and the
    first and second derivatives of J, and Newton's step under ||d||_r <= 1 gives the
    next weights. Large problems take their first weights from a sample of the rows.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Cholesky factors at most.
    random_state : int, Generator or None
        For the sample.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import Squared
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(2), np.ones((2, 2))], axis=1))
    >>> problem = Problem(bank, np.array([[1.0], [2.0]]), 1, Squared(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(2))
    >>> Ridge(tol=1e-9).solve(problem).converged
    True
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-3
    max_iter: int = 100
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or until `max_iter` factors are spent."""
        require_direct(problem)
        announce(problem)
        resumed = checkpoint is not None and checkpoint.load() is not None
        if start is None and not resumed:
            start = self._sampled_start(problem)
        zero = problem.zero()
        search = _Search(problem, start or zero, self.max_iter)
        with few_threads(problem.n_rows):
            return run(
                search, zero, tol=self.tol, callback=callback, checkpoint=checkpoint
            )

    def _sampled_start(self, problem: Problem) -> Expansion | None:
        """Weights for some of the rows."""
        sample = sample_of(problem, self)
        if sample is None:
            return None
        part, tol = sample.problem, max(self.tol, sample.tol)
        search = _Search(part, part.zero(), self.max_iter)
        with few_threads(part.n_rows):
            found = run(search, part.zero(), tol=tol).model
        return Expansion(problem.zero().coef, found.weights)


class Sample(NamedTuple):
    """A problem on some of the rows, and how precise its weights need to be."""

    problem: Problem
    tol: float


def sample_of(problem: Problem, ridge: Ridge) -> Sample | None:
    """Some of the rows, with losses that count as much in total; None if too few."""
    n_rows = problem.n_rows // START_SHARE
    if n_rows < START_ROWS or problem.norm.p == 2.0 or problem.bank.n_blocks == 1:
        return None
    rng = np.random.default_rng(ridge.random_state)
    rows = np.sort(rng.permutation(problem.n_rows)[:n_rows])
    weight = problem.sample_weight[rows]
    part = replace(
        problem,
        bank=problem.bank.subset(rows),
        target=problem.target[rows],
        sample_weight=weight,
        C=problem.C * float(problem.sample_weight.sum() / weight.sum()),
    )
    return Sample(part, START_TOL)


def announce(problem: Problem) -> None:
    """Say in the log that the direct path is taken."""
    logger.info(
        "squared loss, %d rows: the direct path, exact solves by Cholesky factors and "
        "Newton's method on the kernel weights",
        problem.n_rows,
    )


def require_direct(problem: Problem) -> None:
    """Raise unless exact solves are possible."""
    _require_squared(problem)
    _require_room(problem)


class _Search(Remembers):
    """The weights that are being tried, and how many factors were spent."""

    remembered = ("done", "newton")

    def __init__(self, problem: Problem, start: Expansion, max_iter: int) -> None:
        self.problem = problem
        self.max_iter = max_iter
        self.done = 0
        weights = problem.norm.normalize_weights(start.weights)
        self.newton = WeightSteps(problem.norm, weights[None])

    def iterates(self) -> Iterator[Iterate]:
        """One Cholesky factor each."""
        while self.done < self.max_iter:
            self.done += 1
            solved = solve_exactly(self.problem, self.newton.trial[0].copy())
            value = np.array([solved.value])
            self.newton.advance(
                np.array([0]),
                value,
                value,
                solved.squares[None],
                solved.curvature[None],
            )
            yield certified_iterate(self.problem, solved)


def _require_squared(problem: Problem) -> None:
    if not problem.loss.is_squared:
        raise ValueError(
            "Ridge handles the squared loss only, got the loss "
            f"{problem.loss.name!r}; choose another solver."
        )


def _require_room(problem: Problem) -> None:
    """Exact solves hold the combined kernel of all the rows."""
    if problem.bank.max_combined_rows < problem.n_rows:
        raise ValueError(
            f"Ridge holds a combined kernel of all the {problem.n_rows} rows, got "
            f"memory for {problem.bank.max_combined_rows}; raise memory_limit or "
            "choose another solver."
        )
