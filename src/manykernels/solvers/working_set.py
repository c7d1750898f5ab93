"""The frozen-weight problem on some of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.banks.base import (
    Array,
    Bank,
    Index,
    Values,
    block_norms,
    support_of,
)
from manykernels.hot.dual import dual_sweeps, frozen_values, gather_square
from manykernels.hot.threads import in_slices
from manykernels.losses.hinge import margins
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem

SWEEPS = 20  # between two looks at which rows still matter
SCORE_ROWS = 1024  # combined rows multiplied at a time


class Sums(NamedTuple):
    """What the values of a frozen problem are made of."""

    linear: float  # of the own coefficients
    quadratic: float
    loss: float  # weighted

    @property
    def primal(self) -> float:
        return 0.5 * self.quadratic + self.loss

    @property
    def dual(self) -> float:
        return self.linear - 0.5 * self.quadratic


class WorkingSet:
    """The problem on some of the rows, with one combined kernel."""

    def __init__(
        self, problem: Problem, rows: Index, coef: Array, rng: np.random.Generator
    ) -> None:
        everything = len(rows) == problem.n_rows
        self.bank: Bank = problem.bank if everything else problem.bank.subset(rows)
        self.target = problem.target[rows]
        self.bound = problem.bound[rows]
        self.coef = coef[rows]
        self.rng = rng
        self.scores: Array = np.zeros(self.coef.shape).T
        self.sums = Sums(0.0, 0.0, 0.0)
        self.solved = False  # whether the last frozen problem reached its goal

    def ascend(self, weights: Array, goal: float) -> int:
        """Solve the problem with these weights to a relative gap; returns updates."""
        kernel = CombinedKernel(self.bank, weights)
        self.scores = kernel.scores(self.coef)
        updates = 0
        for _ in range(SWEEPS):
            updates += self._ascend_active(kernel, goal)
            self.sums = self._sums()
            self.solved = relative_gap(self.sums.primal, self.sums.dual) <= goal
            if self.solved:
                break
        return updates

    def _ascend_active(self, kernel: CombinedKernel, goal: float) -> int:
        """Sweeps over the rows that can change, with their part of the kernel only."""
        active = self._active_rows()
        before = self.coef[active]
        coef = before.copy()
        scores = np.ascontiguousarray(self.scores[:, active])
        orders = np.stack([self.rng.permutation(len(active)) for _ in range(SWEEPS)])
        _, updates = dual_sweeps(
            kernel.square(active),
            self.target[active],
            self.bound[active],
            coef,
            scores,
            np.zeros(scores.shape, self.bank.dtype),
            orders,
            goal,
        )
        self.coef[active] = coef
        change = np.zeros_like(self.coef)
        change[active] = coef - before
        self.scores += kernel.scores(change)
        return int(updates)

    def _active_rows(self) -> Index:
        active = margins(self.scores.T, self.target) < 1.0
        active[support_of(self.coef)] = True
        return np.flatnonzero(active)

    def _sums(self) -> Sums:
        no_drift = np.zeros_like(self.scores)
        return Sums(
            *frozen_values(self.target, self.bound, self.coef, self.scores, no_drift)
        )

    def theta_norms(self) -> Array:
        """||theta_f|| of the current coefficients."""
        return block_norms(self.bank, self.coef)


class CombinedKernel:
    """K = sum_f d_f K_f, combined row by row as rows are asked for.

    Most rows never leave zero, and their kernel rows are never needed: the memory of
    a row is touched when the row is computed.
    """

    def __init__(self, bank: Bank, weights: Array) -> None:
        self.bank = bank
        self.weights = weights
        self.values: Values = np.empty((bank.n_rows, bank.n_rows), bank.dtype)
        self.known = np.zeros(bank.n_rows, dtype=bool)

    def _require(self, rows: Index) -> None:
        missing = rows[~self.known[rows]]
        for start in range(0, len(missing), SCORE_ROWS):
            part = missing[start : start + SCORE_ROWS]
            self.values[part] = self.bank.combine(self.weights, part)
        self.known[missing] = True

    def scores(self, coef: Array) -> Array:
        """(K coef)' in float64, multiplied in the precision of the kernel."""
        support = support_of(coef)
        self._require(support)
        scores = np.zeros(coef.shape[::-1])
        for start in range(0, len(support), SCORE_ROWS):
            part = support[start : start + SCORE_ROWS]
            scores += coef[part].T.astype(self.values.dtype) @ self.values[part]
        return scores

    def square(self, index: Index) -> Values:
        """Rows and columns `index`, copied together."""
        self._require(index)
        out = np.empty((len(index), len(index)), self.values.dtype)

        def work(start: int, stop: int) -> None:
            gather_square(self.values, index, out, start, stop)

        in_slices(len(index), out.nbytes, work)
        return out
