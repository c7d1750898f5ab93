"""Certified regression with losses that have kinks or bounds: dual ascent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.base.arrays import Array
from manykernels.solvers.loop import (
    Callback,
    Checkpoint,
    Iterate,
    SolveResult,
    relative_gap,
    run,
)
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.frozen import DualTerms, FrozenRegression
from manykernels.solvers.regression.ridge_exact import few_threads
from manykernels.solvers.state import Remembers
from manykernels.solvers.weight_steps import WeightSteps

FIRST_GOAL = 1e-2  # relative gap asked of the first frozen problem
SHARPEST = 1e-14  # beyond which rounding limits a frozen problem


@dataclass(frozen=True)
class RegressionAscent:
    r"""Freeze d, solve the dual on :math:`K_d = \sum_f d_f K_f`, update d, repeat.

    For the epsilon-insensitive, Huber and squared losses and 1 <= p <= 2. A round
    solves the frozen problem by coordinate ascent (a step along the residual, a soft
    threshold, a clip) with steps of Newton's on the coefficients that are free; the
    same second derivatives give Newton's step on the weights.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None
        For the order of the rows.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import EpsilonInsensitive
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(2), np.ones((2, 2))], axis=1))
    >>> problem = Problem(bank, np.array([[1.0], [2.0]]), 1, EpsilonInsensitive(0.1),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(2))
    >>> RegressionAscent(tol=1e-6, random_state=0).solve(problem).converged
    True
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-3
    max_iter: int = 200
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or until `max_iter` rounds are spent."""
        terms = DualTerms.of(problem.loss, problem.bound)
        _require_room(problem)
        start = start or problem.zero()
        rng = np.random.default_rng(self.random_state)
        rounds = _Rounds(problem, terms, start, rng, self)
        with few_threads(problem.n_rows):
            return run(
                rounds, start, tol=self.tol, callback=callback, checkpoint=checkpoint
            )


class _Rounds(Remembers):
    """Coefficients, the weights that are being tried, and what was asked of them."""

    remembered = ("coef", "done", "goal", "rng", "newton")

    def __init__(
        self,
        problem: Problem,
        terms: DualTerms,
        start: Expansion,
        rng: np.random.Generator,
        solver: RegressionAscent,
    ) -> None:
        self.problem = problem
        self.terms = terms
        self.rng = rng
        self.solver = solver
        coef = np.clip(start.coef, -terms.limit[:, None], terms.limit[:, None])
        self.coef: Array = np.ascontiguousarray(coef.T)  # (outputs, rows)
        self.target = np.ascontiguousarray(problem.target.T, dtype=np.float64)
        self.done = 0
        self.goal = FIRST_GOAL
        weights = problem.norm.normalize_weights(start.weights)
        self.newton = WeightSteps(problem.norm, weights[None])

    def iterates(self) -> Iterator[Iterate]:
        """One frozen problem each."""
        while self.done < self.solver.max_iter:
            self.done += 1
            frozen = self._solve_frozen()
            products = self.problem.bank.block_scores(frozen.coef.T)
            norms = self._norms(frozen, products)
            iterate = self._iterate(frozen, norms)
            gap = relative_gap(iterate.objective, iterate.dual_bound)
            # The gap bounds a square, and the weights' gap is of the first order.
            self.goal = min(self.goal, max(gap, self.solver.tol) ** 2 + SHARPEST)
            self._advance(frozen, products, norms)
            yield iterate

    def _solve_frozen(self) -> FrozenRegression:
        every = np.arange(self.problem.n_rows)
        weights = self.newton.trial[0]
        kernel = np.asarray(self.problem.bank.combine(weights, every), np.float64)
        frozen = FrozenRegression(
            kernel, self.target, self.coef.copy(), self.terms, self.rng
        )
        frozen.solve(self.goal)
        self.coef = frozen.coef
        return frozen

    def _norms(self, frozen: FrozenRegression, products: Array) -> Array:
        """||theta_f||; certificates are float64 whatever the storage."""
        if self.problem.bank.dtype != np.float64:
            return self.problem.theta_norms(frozen.coef.T)
        squares = np.einsum("kfi,ki->f", products, frozen.coef)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def _iterate(self, frozen: FrozenRegression, norms: Array) -> Iterate:
        problem, weights = self.problem, self.newton.trial[0].copy()
        coef = frozen.coef.T.copy()
        if problem.bank.dtype == np.float64:
            scores = (frozen.target - frozen.residual).T
        else:
            scores = problem.bank.scores(coef, weights)
        return Iterate(
            objective=problem.primal_value(scores, weights * norms),
            dual_bound=problem.dual_bound(coef, norms),
            updates=frozen.updates,
            snapshot=lambda: Expansion(coef, weights),
            dual_snapshot=lambda: coef,
        )

    def _advance(self, frozen: FrozenRegression, products: Array, norms: Array) -> None:
        primal, dual = frozen.values()
        curvature = frozen.curvature(np.asarray(products, dtype=np.float64))
        self.newton.advance(
            np.array([0]),
            np.array([dual]),
            np.array([primal]),
            norms[None] ** 2,
            curvature[None],
        )


def _require_room(problem: Problem) -> None:
    if problem.bank.max_combined_rows < problem.n_rows:
        raise ValueError(
            f"RegressionAscent holds a combined kernel of all the {problem.n_rows} "
            f"rows, got memory for {problem.bank.max_combined_rows}; raise "
            "memory_limit or fit fewer rows."
        )
