"""The frozen-weight problem on some of the rows, and sweeps that solve it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from manykernels.banks.base import Bank, support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import SCATTERED, in_slices
from manykernels.hot.dual import (
    add_products,
    best_multiple,
    dual_sweeps,
    frozen_values,
    gather_square,
    shuffled,
)
from manykernels.losses.classification import margins
from manykernels.solvers.device_blocks import HOST_ROWS, DeviceBlocks
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem

SWEEPS_PER_CHECK = 20  # between two choices of the rows that can change
NEW_ROWS_SHARE = 0.3  # of the support: rows without coefficients taken in at a time,
MIN_NEW_ROWS = 300  # unless there are fewer
FILLED_SHARE = 1.8  # of the two combined kernels that there is memory for
ROUNDOFF = 0.5 * float(np.finfo(np.float64).eps)  # relative, of one operation


class FrozenValues(NamedTuple):
    """Primal and dual value of a frozen problem, and the dual's linear part."""

    linear: float  # of the own coefficients
    primal: float  # of the best multiple of the model
    dual: float


class FrozenDual(Protocol):
    """The dual problem with one combined kernel K, on the host or a device."""

    weights: Array

    def begin(self, weights: Array) -> None:
        """Combine the kernels with these weights, unless they are so already."""

    def scores(self, coef: Array) -> Array:
        """(K coef)' in float64, shape (outputs, rows)."""

    def ascend(self, coef: Array, scores: Array, goal: float) -> int:
        """Improve coef and its scores in place, towards a gap; returns updates."""


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
            bank = bank.take(rows, brief)
        self.bank: Bank = bank
        self.rounding = RoundingBound(bank)
        self.target = problem.target[rows]
        self.bound = problem.bound[rows]
        self.coef = coef[rows]
        self.kernel: FrozenDual
        kernels = bank.on_device()
        # Few rows are not worth a device: their combined kernel may as well travel.
        if kernels is None or bank.n_rows <= HOST_ROWS:
            most = active_rows_limit(problem.bank.max_combined_rows, bank.n_rows)
            self.kernel = HostSweeps(bank, self.target, self.bound, rng, most)
        else:
            self.kernel = DeviceBlocks(kernels, self.target, self.bound)
        self.scores: Array = np.zeros(self.coef.shape).T
        self.values = FrozenValues(0.0, 0.0, 0.0)
        self.solved = False  # whether the last frozen problem reached its goal

    def ascend(self, weights: Array, goal: float) -> int:
        """Solve the problem with these weights to a relative gap; returns updates."""
        self.adopt(self.coef, weights)
        updates = 0
        for _ in range(SWEEPS_PER_CHECK):
            updates += self.kernel.ascend(self.coef, self.scores, goal)
            self._evaluate()
            self.solved = relative_gap(self.values.primal, self.values.dual) <= goal
            if self.solved:
                break
        return updates

    def adopt(self, coef: Array, weights: Array) -> None:
        """Go on from these coefficients and kernel weights."""
        self.coef = coef
        self.kernel.begin(weights)
        self.scores = self.kernel.scores(coef)
        self._evaluate()

    def _evaluate(self) -> None:
        no_drift, found = np.zeros_like(self.scores), np.empty(len(self.target))
        linear, quadratic = frozen_values(
            self.target, self.coef, self.scores, no_drift, found
        )
        _, primal = best_multiple(found, self.bound, quadratic, 0.0)
        self.values = FrozenValues(linear, primal, linear - 0.5 * quadratic)


class HostSweeps:
    """Sweeps over the rows that can change, on K = sum_f d_f K_f in host memory.

    Most rows never leave zero, and their kernel rows are never needed: a row of K is
    combined when it is first asked for, and sweeps take a copy of the part of K among
    the rows that can change. At most `most` rows of K are held; those that are not
    asked for make room for others.
    """

    def __init__(
        self,
        bank: Bank,
        target: Index,
        bound: Array,
        rng: np.random.Generator,
        most: int,
    ) -> None:
        self.bank = bank
        self.target, self.bound, self.rng = target, bound, rng
        self.values: Values = np.empty((most, bank.n_rows), bank.dtype)
        self.weights: Array = np.empty(0)  # nothing is combined yet
        self.owners: Index = np.empty(0, dtype=np.intp)  # values[a] is row owners[a]
        self.places: Index = np.full(bank.n_rows, -1)  # and the inverse

    def begin(self, weights: Array) -> None:
        if not np.array_equal(weights, self.weights):
            self.weights = weights
            self.owners, self.places[:] = np.empty(0, dtype=np.intp), -1

    def require(self, rows: Index) -> None:
        """Combine those of these rows that were not asked for before."""
        missing = rows[self.places[rows] < 0]
        if len(self.owners) + len(missing) > len(self.values):
            self._keep(rows)
        begin = len(self.owners)
        end = begin + len(missing)
        self.bank.combine(self.weights, missing, self.values[begin:end])
        self.places[missing] = np.arange(begin, end)
        self.owners = np.concatenate([self.owners, missing])

    def _keep(self, rows: Index) -> None:
        """Move those of these rows that are held together, and forget the others."""
        kept = np.sort(self.places[rows])
        kept = kept[kept >= 0]
        for place, before in enumerate(kept):
            self.values[place] = self.values[before]
        self.owners, self.places[:] = self.owners[kept], -1
        self.places[self.owners] = np.arange(len(kept))

    def scores(self, coef: Array) -> Array:
        support = support_of(coef)
        self.require(support)
        scores = np.zeros((coef.shape[1], len(coef)))
        # In the order of the rows: sums must not depend on when rows were combined.
        places = self.places[support]
        work = partial(add_products, self.values, places, coef[support], scores)
        in_slices(len(coef), len(support) * self.values[0].nbytes, work)
        return scores

    def ascend(self, coef: Array, scores: Array, goal: float) -> int:
        rows = self._active_rows(coef, scores)
        self.require(rows)
        # Their part of K side by side: short rows are faster.
        square = np.empty((len(rows), len(rows)), self.values.dtype)
        gather = partial(gather_square, self.values, self.places[rows], rows, square)
        in_slices(len(rows), SCATTERED * square.nbytes, gather)
        before = coef[rows]
        after = before.copy()
        starts = np.ascontiguousarray(scores[:, rows])
        shape = (SWEEPS_PER_CHECK, len(rows))
        draws = self.rng.integers(2**32, size=shape, dtype=np.uint32)
        _, updates = dual_sweeps(
            square,
            self.target[rows],
            self.bound[rows],
            after,
            starts,
            np.zeros(starts.shape, self.bank.dtype),
            shuffled(draws),
            goal,
        )
        coef[rows] = after
        change = np.zeros_like(coef)
        change[rows] = after - before
        scores += self.scores(change)
        return int(updates)

    def _active_rows(self, coef: Array, scores: Array) -> Index:
        """The support, and the rows that violate their margin most.

        Many rows do so only until the worst of them have coefficients, and the kernel
        row of one that never gets any is computed in vain.
        """
        support = support_of(coef)
        distance = margins(scores.T, self.target)
        distance[support] = np.inf
        outside = np.flatnonzero(distance < 1.0)
        most = max(MIN_NEW_ROWS, int(NEW_ROWS_SHARE * len(support)))
        most = min(most, len(self.values) - len(support))
        if len(outside) > most:
            outside = outside[np.argpartition(distance[outside], most)[:most]]
        return np.union1d(support, outside)


class RoundingBound:
    """What float64 leaves uncertain of products with large values that cancel.

    A product of K_f and coef has terms of up to ||coef_i|| sqrt(K_f(i, i) K_f(j, j)),
    and is known to the last digit of their sum. A certificate must not rest on less.
    """

    def __init__(self, bank: Bank) -> None:
        self.roots = np.sqrt(np.maximum(bank.diagonals(), 0.0))  # (rows, blocks)

    def on_margins(self, coef: Array, weights: Array) -> Array:
        """By how much the margin of every row, of two scores, may be too large.

        Fourfold: coefficients and weights are rounded again as they become a model.
        """
        sums = np.linalg.norm(coef, axis=1) @ self.roots
        return np.asarray(self.roots @ (8.0 * ROUNDOFF * weights * sums))

    def upper_norms(self, coef: Array, theta_norms: Array) -> Array:
        """Norms ||theta_f|| that are at least the true ones."""
        sums = np.linalg.norm(coef, axis=1) @ self.roots
        return np.asarray(np.sqrt(np.square(theta_norms) + ROUNDOFF * np.square(sums)))


def best_rescaling(
    scores: Array,
    target: Index,
    bound: Array,
    norm_value: float,
    rounding: Array | float = 0.0,
) -> tuple[float, float]:
    """The best multiple of a model with the hinge loss, and its value times C W.

    Parameters
    ----------
    scores : array of shape (rows, outputs)
    target, bound : array of shape (rows,)
        Labels, and the weights of the losses.
    norm_value : float
        The regularizer of the model itself.
    rounding : array of shape (rows,), optional
        By how much less the margins may be.
    """
    least = margins(scores, target) - rounding
    multiple, value = best_multiple(least, bound, 2.0 * norm_value, 0.0)
    return float(multiple), float(value)


def active_rows_limit(most: int, n_rows: int) -> int:
    """How many rows of a working set of `n_rows` may be active.

    Memory holds the combined kernel of `most` rows and as much again. A working set
    takes the kernel rows of the active ones, and a copy of the part among them.

    Examples
    --------
    >>> active_rows_limit(100, 100), active_rows_limit(100, 310)
    (100, 50)
    """
    if n_rows <= most:
        return n_rows
    return int(0.5 * (np.sqrt(n_rows**2 + 4.0 * FILLED_SHARE * most**2) - n_rows))


def fits_in_memory(bank: Bank, n_active: int) -> bool:
    """Whether all rows may be one working set if so many of them can change."""
    most = bank.max_combined_rows
    if bank.on_device() is not None:
        return bank.n_rows <= most
    return n_active <= active_rows_limit(most, bank.n_rows)
