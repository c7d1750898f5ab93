"""Blocks of two banks side by side."""

from __future__ import annotations

import numpy as np

from manykernels.banks.base import Bank
from manykernels.base.arrays import Array, Index, Values


class MixedBank(Bank):
    """K_f of one bank, and for some blocks of another, on as many rows.

    Parameters
    ----------
    bank, other : Bank
        With the same blocks.
    chosen : bool array of shape (blocks,)
        Blocks that come from `other`.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> bank = GramBank(np.stack([np.eye(2), np.diag([1.0, 2.0])], axis=1))
    >>> turned = bank.subset(np.array([1, 0]))
    >>> MixedBank(bank, turned, np.array([False, True])).diagonals()
    array([[1., 2.],
           [1., 1.]])
    """

    def __init__(self, bank: Bank, other: Bank, chosen: Array) -> None:
        super().__init__(bank.n_rows, bank.names, bank.dtype, bank.max_combined_rows)
        self.bank, self.other, self.chosen = bank, other, chosen
        self.nbytes = bank.nbytes + other.nbytes
        self.stores_values = bank.stores_values and other.stores_values
        self.computes_anew = bank.computes_anew
        self.cache_bytes = bank.cache_bytes

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        return np.where(self.chosen, self.other.diagonals(), self.bank.diagonals())

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        rows = np.array(self.bank.rows(index))
        rows[:, self.chosen] = self.other.rows(index)[:, self.chosen]
        return rows

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        own, others = self._apart(weights)
        out = self.bank.combine(own, rows, out)
        out += self.other.combine(others, rows, np.empty_like(out))
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64."""
        own, others = self._apart(weights)
        return self.bank.scores(coef, own) + self.other.scores(coef, others)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`."""
        own, others = self._apart(weights)
        here = self.bank.scores_at(rows, coef, own)
        return here + self.other.scores_at(rows, coef, others)

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        out = np.array(self.bank.block_scores(coef))
        out[:, self.chosen] = self.other.block_scores(coef)[:, self.chosen]
        return out

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, in float64."""
        squares = self.bank.square_norms(coef), self.other.square_norms(coef)
        return np.where(self.chosen, squares[1], squares[0])

    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows."""
        parts = self.bank.subset(index), self.other.subset(index)
        return MixedBank(*parts, self.chosen)

    def _apart(self, weights: Array) -> tuple[Array, Array]:
        return np.where(self.chosen, 0.0, weights), np.where(self.chosen, weights, 0.0)
