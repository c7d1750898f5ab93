"""The frozen-weight problem in the processor's memory: sweeps over the rows at work."""

from __future__ import annotations

from functools import partial

import numpy as np

from manykernels.banks.base import Bank, support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import SCATTERED, in_slices
from manykernels.hot.dual import (
    add_products,
    dual_sweeps,
    gather_square,
    mirror_corner,
    shuffled,
)
from manykernels.losses.classification import margins

SWEEPS = 20  # between two looks at which rows still matter,
FEW_SWEEPS = 4  # or while rows that violate their margin wait to be taken in
SCORE_ROWS = 1024  # rows combined at a time
NEW_SHARE = 0.3  # of the support: rows without coefficients taken in at a time
FEWEST_NEW = 300  # unless there are fewer
FEW_OTHERS = 1.2  # times the active rows: others may take part for a while
ROOM = 1.3  # times the rows that take part: for those that come later
FILLED = 1.8  # of the two combined kernels that there is memory for


def rows_at_work(most: int, n_active: int) -> int:
    """Rows of a working set that fits in memory if `n_active` of them can change.

    Memory holds the combined kernel of `most` rows and as much again. A working set
    takes the kernel rows of those, and a copy of the part among them.

    Examples
    --------
    >>> rows_at_work(100, 100), rows_at_work(100, 50)
    (100, 310)
    """
    return max(most, int(FILLED * most**2 / max(n_active, 1)) - n_active)


def active_rows(most: int, n_rows: int) -> int:
    """How many rows of a working set of `n_rows` may be active: the inverse.

    Examples
    --------
    >>> active_rows(100, 100), active_rows(100, 310)
    (100, 50)
    """
    if n_rows <= most:
        return n_rows
    return int(0.5 * (np.sqrt(n_rows**2 + 4.0 * FILLED * most**2) - n_rows))


class CombinedKernel:
    """K = sum_f d_f K_f, combined row by row as rows are asked for.

    Most rows never leave zero, and their kernel rows are never needed: the memory of
    a row is touched when the row is computed. Rows lie in the order they came in, so
    that products take them as they lie. At most `most` are held: those that are not
    asked for make room for others.
    """

    def __init__(self, bank: Bank, most: int) -> None:
        self.bank = bank
        self.values: Values = np.empty((most, bank.n_rows), bank.dtype)
        self.set_weights(np.zeros(bank.n_blocks))

    def begin(self, weights: Array) -> None:
        """A round with these weights; rows that are combined so already are kept."""
        if not np.array_equal(weights, self.weights):
            self.set_weights(weights)

    def set_weights(self, weights: Array) -> None:
        """Another combination, in the memory of the last one."""
        self.weights = weights
        self.owners: Index = np.empty(0, dtype=np.intp)  # values[a] is row owners[a]
        self.places = np.full(self.bank.n_rows, -1)  # and the inverse

    def _keep(self, rows: Index) -> None:
        """Move those of these rows that are held together, and forget the others."""
        kept = np.sort(self.places[rows])
        kept = kept[kept >= 0]
        for place, before in enumerate(kept):
            self.values[place] = self.values[before]
        owners = self.owners[kept]
        self.set_weights(self.weights)
        self.owners, self.places[owners] = owners, np.arange(len(kept))

    def scores(self, coef: Array) -> Array:
        """(K coef)' in float64, shape (outputs, rows)."""
        self.require(support_of(coef))
        held = self.values[: len(self.owners)]
        scores = np.zeros((coef.shape[1], len(coef)))
        work = partial(add_products, held, coef[self.owners], scores)
        in_slices(len(coef), held.nbytes, work)
        return scores

    def hold(self, rows: Index) -> None:
        """Combine these rows in this order, as many as there is room for."""
        self.require(rows[: len(self.values)])

    def require(self, rows: Index) -> None:
        """Combine those of these rows that were not asked for before."""
        missing = rows[self.places[rows] < 0]
        if len(self.owners) + len(missing) > len(self.values):
            self._keep(rows)
        for start in range(0, len(missing), SCORE_ROWS):
            part, begin = missing[start : start + SCORE_ROWS], len(self.owners)
            end = begin + len(part)
            self.bank.combine(self.weights, part, self.values[begin:end])
            self.places[part] = np.arange(begin, end)
            self.owners = np.concatenate([self.owners, part])


class HostSweeps(CombinedKernel):
    """Sweeps over the rows that can change, with their part of the kernel only.

    Parameters
    ----------
    bank : Bank
    target, bound : array of shape (rows,)
        Labels, and the weights of the losses.
    rng : Generator
        For the order of the rows.
    most : int
        Rows that may be active.
    """

    def __init__(
        self,
        bank: Bank,
        target: Index,
        bound: Array,
        rng: np.random.Generator,
        most: int,
    ) -> None:
        super().__init__(bank, most)
        self.target, self.bound, self.rng = target, bound, rng
        self._forget_square()

    def begin(self, weights: Array) -> None:
        """A round of sweeps with these weights; nothing is left of the last one's."""
        super().begin(weights)
        self._forget_square()

    def _forget_square(self) -> None:
        self.rows: Index = np.empty(0, dtype=np.intp)  # that take part in sweeps,
        self.among: Values = np.empty((0, 0), self.bank.dtype)  # and K among them

    def ascend(self, coef: Array, scores: Array, goal: float) -> int:
        """Improve coef and its scores in place, towards a gap; returns updates."""
        active, waiting = self._active_rows(coef, scores)
        self.require(active)
        square = self._square(active, waiting)
        rows = self.rows
        before = coef[rows]
        after = before.copy()
        starts = np.ascontiguousarray(scores[:, rows])
        shape = (FEW_SWEEPS if waiting else SWEEPS, len(rows))
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
        if not waiting:
            self._forget_square()
        return int(updates)

    def _square(self, active: Index, waiting: bool) -> Values:
        """K among `self.rows`, in the first rows and columns of an array.

        These are the active rows, and, while rows wait to be taken in, few others that
        were active before: then only what is new is copied.
        """
        known, most = len(self.rows), len(self.values)
        outside = np.ones(len(self.places), dtype=bool)
        outside[self.rows] = False
        rows = np.concatenate([self.rows, active[outside[active]]])
        few = len(rows) <= min(FEW_OTHERS * len(active), most)
        if not (known and few and np.all(self.places[self.rows] >= 0)):
            known, rows = 0, active
        n = len(rows)
        if n > len(self.among):
            size = min(int(ROOM * n), most) if waiting else n  # short rows are faster
            self._forget_square()  # memory is free before it is taken
            known, self.among = 0, np.empty((size, size), self.values.dtype)
        square, places = self.among, self.places[rows[known:]]
        traffic = SCATTERED * len(places) * square.itemsize
        work = partial(gather_square, self.values, places, rows, square[known:])
        in_slices(len(places), traffic * n, work)
        if known:
            work = partial(mirror_corner, square, known, n)
            in_slices(known, traffic * known, work)
        self.rows = rows
        return square

    def _active_rows(self, coef: Array, scores: Array) -> tuple[Index, bool]:
        """The support, and the rows that violate their margin most; are there more?

        Many rows do so only until the worst of them have coefficients, and the kernel
        row of one that never gets any is computed in vain.
        """
        support = support_of(coef)
        distance = margins(scores.T, self.target)
        distance[support] = np.inf
        outside = np.flatnonzero(distance < 1.0)
        most = max(FEWEST_NEW, int(NEW_SHARE * len(support)))
        most = min(most, len(self.values) - len(support))
        waiting = len(outside) > most
        if waiting:
            outside = outside[np.argpartition(distance[outside], most)[:most]]
        chosen = np.zeros(len(distance), dtype=bool)
        chosen[support] = chosen[outside] = True
        return np.flatnonzero(chosen), waiting
