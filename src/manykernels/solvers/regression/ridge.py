"""Certified multiple kernel ridge regression: Newton's method on the kernel weights.

Frozen weights have a closed form: one Cholesky factor gives the coefficients, the
derivatives in the weights, and the leave-one-out residuals.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import storable
from manykernels.solvers.loop import (
    SAMPLE_START_TOL,
    Iterate,
    IterativeSolver,
    Resumable,
    run,
)
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.ridge_system import (
    RidgeSolution,
    require_combined_kernel,
    ridge_system,
    solve_exactly,
)
from manykernels.solvers.weight_newton import WeightSteps

START_STEP = 4  # one row in so many is in the sample that gives the first weights
MIN_START_ROWS = 200  # in that sample
THREADED_ROWS = 3000  # from which on a factor is worth several BLAS threads
MAX_FACTOR_ROWS = 10_000  # above which Cholesky factors take minutes

logger = logging.getLogger(__name__)


@storable
@dataclass(frozen=True)
class Ridge(IterativeSolver):
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

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[RidgeRounds, Expansion]:
        require_direct(problem)
        zero = problem.zero()
        if start is None:
            start = self._sampled_start(problem)
        return RidgeRounds(problem, start or zero, self.max_iter), zero

    def _threads(self, problem: Problem) -> AbstractContextManager[object]:
        return few_threads(problem.n_rows)

    def _sampled_start(self, problem: Problem) -> Expansion | None:
        """Weights for some of the rows."""
        sample = sample_of(problem, self)
        if sample is None:
            return None
        zero, tol = sample.zero(), max(self.tol, SAMPLE_START_TOL)
        with few_threads(sample.n_rows):
            found = run(RidgeRounds(sample, zero, self.max_iter), zero, tol=tol)
        return Expansion(problem.zero().coef, found.model.weights)


def sample_of(problem: Problem, ridge: Ridge) -> Problem | None:
    """Some of the rows, with losses that count as much in total; None if too few."""
    n_rows = problem.n_rows // START_STEP
    if n_rows < MIN_START_ROWS or problem.norm.p == 2.0 or problem.bank.n_blocks == 1:
        return None
    rng = np.random.default_rng(ridge.random_state)
    rows = np.sort(rng.permutation(problem.n_rows)[:n_rows])
    part = problem.take(rows)
    share = float(part.sample_weight.sum() / problem.sample_weight.sum())
    return replace(part, C=problem.C / share)


def require_direct(problem: Problem) -> None:
    """Raise unless exact solves are possible; write to the log that they follow."""
    if not problem.loss.is_squared:
        raise ValueError(
            "Ridge handles the squared loss only, got the loss "
            f"{problem.loss.name!r}; choose another solver."
        )
    require_combined_kernel(problem, "Ridge", "choose another solver")
    logger.info(
        "squared loss, %d rows: the direct path, exact solves by Cholesky factors and "
        "Newton's method on the kernel weights",
        problem.n_rows,
    )


class RidgeRounds(Resumable):
    """The state of the search: weights, and how many factors were spent."""

    remembered = ("done", "newton")

    def __init__(self, problem: Problem, start: Expansion, max_iter: int) -> None:
        self.problem = problem
        self.max_iter = max_iter
        self.done = 0
        weights = problem.norm.normalize_weights(start.weights)
        self.newton = WeightSteps(problem.norm, weights[None])

    def iterates(self) -> Iterator[Iterate]:
        while self.done < self.max_iter:
            self.done += 1
            solved = solve_exactly(self.problem, self.newton.trial[0].copy())
            value = np.array([solved.value])
            squares, curvature = solved.squares[None], solved.curvature[None]
            self.newton.advance(np.array([0]), value, value, squares, curvature)
            yield certified_iterate(self.problem, solved)


def is_moderate(problem: Problem) -> bool:
    """Whether a Cholesky factor of all rows fits and does not take minutes."""
    return problem.n_rows <= min(MAX_FACTOR_ROWS, problem.bank.max_combined_rows)


def certified_iterate(problem: Problem, solved: RidgeSolution) -> Iterate:
    """Objective and dual bound; float64 whatever the storage."""
    coef, weights = solved.coef, solved.weights
    norms = np.sqrt(np.maximum(solved.squares, 0.0))
    if problem.bank.dtype == np.float64:
        scores = problem.target - coef / problem.bound[:, None]  # as M coef = Y
    else:
        scores = problem.bank.scores(coef, weights)
    return Iterate(
        objective=problem.primal_value(scores, weights * norms),
        dual_bound=problem.dual_bound(coef, norms),
        updates=problem.n_rows,
        snapshot=partial(Expansion, coef, weights),
        dual_snapshot=partial(np.asarray, coef),
    )


def few_threads(n_rows: int) -> AbstractContextManager[object]:
    """One BLAS thread for small factors: threads that wait for each other cost more."""
    return one_blas_thread() if n_rows < THREADED_ROWS else nullcontext()


def held_out_residuals(
    problem: Problem, weights: Array, centered: bool, counts: Array | None = None
) -> Array:
    r"""y_i minus the prediction of the fit without row i, shape (rows, outputs).

    With the kernel weights frozen and :math:`M = K_d + D`, :math:`D = diag(1/(C c_i))`,
    it is :math:`(M^{-1} y)_i / (M^{-1})_{ii}`: one Cholesky factor for all the rows.
    This is the criterion of least-squares SVMs. A row that stands for n_i rows loses
    one of them, and with it the share :math:`s_i = 1/n_i` of its weight:
    :math:`D_i (M^{-1} y)_i / (1 - s_i + s_i D_i (M^{-1})_{ii})`.

    Parameters
    ----------
    problem : Problem
        With the squared loss.
    weights : array of shape (blocks,)
    centered : bool
        Whether the target is y less its weighted mean; then the fit without row i
        takes the mean of the other rows.
    counts : array of shape (rows,), optional
        How many rows a row stands for; all of it is left out where that is one or
        less, which is the default.

    References
    ----------
    Cawley and Talbot (2004), Fast exact leave-one-out cross-validation of sparse
    least-squares support vector machines.
    """
    system = ridge_system(problem, weights)
    sides = np.hstack([problem.target, np.ones((problem.n_rows, 1))])
    with few_threads(problem.n_rows):
        solved, diagonal = system.solve(sides), system.inverse_diagonal()
    coef, unit = solved[:, :-1], solved[:, -1:]
    weight = problem.sample_weight[:, None]
    share = np.ones_like(weight)
    if counts is not None:
        share = 1.0 / np.maximum(counts[:, None], 1.0)
    if centered:
        lost = share * weight
        coef = coef + unit * problem.target * lost / (weight.sum() - lost)
    # Divided by D_i, so that share one gives the plain formula to the bit.
    rest = (1.0 - share) * problem.C * weight
    return np.asarray(coef / (rest + share * diagonal[:, None]))
