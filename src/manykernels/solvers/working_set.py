"""The frozen-weight problem on some of the rows."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from manykernels.banks.base import Bank, support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices
from manykernels.hot.dual import (
    add_products,
    best_stretch,
    dual_sweeps,
    frozen_values,
    gather_square,
    shuffled,
)
from manykernels.losses.classification import margins
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem

SWEEPS = 20  # between two looks at which rows still matter
SCORE_ROWS = 1024  # rows combined at a time
NEW_SHARE = 0.3  # of the support: rows without coefficients taken in at a time
FEWEST_NEW = 300  # unless there are fewer
EXACTLY = 0.0  # precision of a multiple, as far as floats go
EPS = 0.5 * float(np.finfo(np.float64).eps)  # of one rounding


class Sums(NamedTuple):
    """Primal and dual value of a frozen problem, and the dual's linear part."""

    linear: float  # of the own coefficients
    primal: float  # of the best multiple of the model
    dual: float


class WorkingSet:
    """The problem on some of the rows, with one combined kernel."""

    def __init__(
        self,
        problem: Problem,
        rows: Index,
        coef: Array,
        rng: np.random.Generator,
        brief: bool = False,
    ) -> None:
        bank = problem.bank
        if len(rows) < problem.n_rows:
            bank = bank.brief_subset(rows) if brief else bank.subset(rows)
        self.bank: Bank = bank
        self.kernel = CombinedKernel(self.bank)
        self.doubt = Doubt(self.bank)
        self.target = problem.target[rows]
        self.bound = problem.bound[rows]
        self.coef = coef[rows]
        self.rng = rng
        self.scores: Array = np.zeros(self.coef.shape).T
        self.sums = Sums(0.0, 0.0, 0.0)
        self.solved = False  # whether the last frozen problem reached its goal

    def ascend(self, weights: Array, goal: float) -> int:
        """Solve the problem with these weights to a relative gap; returns updates."""
        self.adopt(self.coef, weights)
        updates = 0
        for _ in range(SWEEPS):
            updates += self._ascend_active(goal)
            self._sum()
            self.solved = relative_gap(self.sums.primal, self.sums.dual) <= goal
            if self.solved:
                break
        return updates

    def adopt(self, coef: Array, weights: Array) -> None:
        """Go on from these coefficients and kernel weights."""
        self.coef = coef
        self.kernel.set_weights(weights)
        self.scores = self.kernel.scores(coef)
        self._sum()

    def _sum(self) -> None:
        no_drift, found = np.zeros_like(self.scores), np.empty(len(self.target))
        linear, quadratic = frozen_values(
            self.target, self.coef, self.scores, no_drift, found
        )
        _, primal = best_stretch(found, self.bound, quadratic, EXACTLY)
        self.sums = Sums(linear, primal, linear - 0.5 * quadratic)

    def _ascend_active(self, goal: float) -> int:
        """Sweeps over the rows that can change, with their part of the kernel only."""
        active = self._active_rows()
        self.kernel.require(active)
        before = self.coef[active]
        coef = before.copy()
        scores = np.ascontiguousarray(self.scores[:, active])
        draws = self.rng.integers(2**32, size=(SWEEPS, len(active)), dtype=np.uint32)
        _, updates = dual_sweeps(
            self.kernel.square(active),
            self.target[active],
            self.bound[active],
            coef,
            scores,
            np.zeros(scores.shape, self.bank.dtype),
            shuffled(draws),
            goal,
        )
        self.coef[active] = coef
        change = np.zeros_like(self.coef)
        change[active] = coef - before
        self.scores += self.kernel.scores(change)
        return int(updates)

    def _active_rows(self) -> Index:
        """The support, and the rows that violate their margin most.

        Many rows do so only until the worst of them have coefficients, and the kernel
        row of one that never gets any is computed in vain.
        """
        support = support_of(self.coef)
        distance = margins(self.scores.T, self.target)
        distance[support] = np.inf
        outside = np.flatnonzero(distance < 1.0)
        most = max(FEWEST_NEW, int(NEW_SHARE * len(support)))
        if len(outside) > most:
            outside = outside[np.argpartition(distance[outside], most)[:most]]
        chosen = np.zeros(len(distance), dtype=bool)
        chosen[support] = chosen[outside] = True
        return np.flatnonzero(chosen)


class Doubt:
    """What float64 leaves uncertain of products with large values that cancel.

    A product of K_f and coef has terms of up to ||coef_i|| sqrt(K_f(i, i) K_f(j, j)),
    and is known to the last digit of their sum. A certificate must not rest on less.
    """

    def __init__(self, bank: Bank) -> None:
        self.roots = np.sqrt(np.maximum(bank.diagonals(), 0.0))  # (rows, blocks)

    def of_margins(self, coef: Array, weights: Array) -> Array:
        """Of the margin of every row, of two scores.

        Fourfold: coefficients and weights are rounded again as they become a model.
        """
        return np.asarray(self.roots @ (8.0 * EPS * weights * self._sums(coef)))

    def longer(self, coef: Array, theta_norms: Array) -> Array:
        """Norms ||theta_f|| that are at least the true ones."""
        return np.sqrt(np.square(theta_norms) + EPS * np.square(self._sums(coef)))

    def _sums(self, coef: Array) -> Array:
        return np.asarray(np.linalg.norm(coef, axis=1) @ self.roots)


def stretched(
    scores: Array,
    target: Index,
    bound: Array,
    norm_value: float,
    doubt: Array | float = 0.0,
) -> tuple[float, float]:
    """The best multiple of a model with the hinge loss, and its value times C W.

    Parameters
    ----------
    scores : array of shape (rows, outputs)
    target, bound : array of shape (rows,)
        Labels, and the weights of the losses.
    norm_value : float
        The regularizer of the model itself.
    doubt : array of shape (rows,), optional
        By how much less the margins may be.
    """
    least = margins(scores, target) - doubt
    stretch, value = best_stretch(least, bound, 2.0 * norm_value, EXACTLY)
    return float(stretch), float(value)


class CombinedKernel:
    """K = sum_f d_f K_f, combined row by row as rows are asked for.

    Most rows never leave zero, and their kernel rows are never needed: the memory of
    a row is touched when the row is computed. Rows lie in the order they came in, so
    that products take them as they lie.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.values: Values = np.empty((bank.n_rows, bank.n_rows), bank.dtype)
        self.set_weights(np.zeros(bank.n_blocks))

    def set_weights(self, weights: Array) -> None:
        """Another combination, in the memory of the last one."""
        self.weights = weights
        self.owners: Index = np.empty(0, dtype=np.intp)  # values[a] is row owners[a]
        self.places = np.full(self.bank.n_rows, -1)  # and the inverse

    def scores(self, coef: Array) -> Array:
        """(K coef)' in float64, shape (outputs, rows)."""
        self.require(support_of(coef))
        held = self.values[: len(self.owners)]
        scores = np.zeros((coef.shape[1], len(coef)))
        work = partial(add_products, held, coef[self.owners], scores)
        in_slices(len(coef), held.nbytes, work)
        return scores

    def square(self, index: Index) -> Values:
        """Rows and columns `index`, which were required before, copied together."""
        out = np.empty((len(index), len(index)), self.values.dtype)
        work = partial(gather_square, self.values, self.places[index], index, out)
        in_slices(len(index), out.nbytes, work)
        return out

    def require(self, rows: Index) -> None:
        """Combine those of these rows that were not asked for before."""
        missing = rows[self.places[rows] < 0]
        for start in range(0, len(missing), SCORE_ROWS):
            part, begin = missing[start : start + SCORE_ROWS], len(self.owners)
            end = begin + len(part)
            self.bank.combine(self.weights, part, self.values[begin:end])
            self.places[part] = np.arange(begin, end)
            self.owners = np.concatenate([self.owners, part])
