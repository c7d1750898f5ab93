"""Several kernels as one: a bank of one block, whatever stores the values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manykernels.banks.base import BLOCK_BYTES, Bank, GramBank
from manykernels.base.arrays import Array, Index, Values

Merge = Callable[[Values], Values]  # (rows, blocks, n) -> (rows, n)


def weighted_sum(bank: Bank, weights: Array) -> Bank:
    """The kernel sum_f weights_f K_f.

    Values in memory are combined once; others are combined as they are asked for.

    Examples
    --------
    >>> bank = GramBank(np.stack([np.eye(2), np.ones((2, 2))], axis=1))
    >>> weighted_sum(bank, np.array([0.5, 0.5])).rows(np.array([0])).tolist()
    [[[1.0, 0.5]]]
    """
    lazy = WeightedBank(bank, weights)
    return lazy if bank.stored_rows() is None else _in_memory(lazy)


def merged(bank: Bank, merge: Merge) -> Bank:
    """The kernel that `merge` makes of the kernels' values, entry by entry."""
    lazy = MergedBank(bank, merge)
    return lazy if bank.stored_rows() is None else _in_memory(lazy)


class MergedBank(Bank):
    """K(i, j) = merge(K_1(i, j), ..., K_F(i, j)), computed a few rows at a time.

    Parameters
    ----------
    bank : Bank
        Where the values of the kernels come from.
    merge : callable
        From values of shape (rows, blocks, n) to (rows, n).
    """

    def __init__(self, bank: Bank, merge: Merge) -> None:
        super().__init__(bank.n_rows, ["combined"], bank.dtype, bank.max_combined_rows)
        self.bank = bank
        self.merge = merge
        # A row of the one kernel takes the rows of all the kernels.
        row_bytes = bank.n_blocks * bank.n_rows * bank.dtype.itemsize
        self.block_rows = max(1, min(self.block_rows, BLOCK_BYTES // row_bytes))
        self.nbytes = self.block_rows * row_bytes
        self.cache_bytes = bank.cache_bytes

    def diagonals(self) -> Array:
        """K(i, i), shape (rows, 1)."""
        values = self.bank.diagonals()[:, :, None]  # a column stands for the row
        return np.asarray(self.merge(values), dtype=np.float64)

    def rows(self, index: Index) -> Values:
        """Rows of the kernel, shape (len(index), 1, rows)."""
        out = np.empty((len(index), 1, self.n_rows), self.dtype)
        for start in range(0, len(index), self.block_rows):
            part = slice(start, start + self.block_rows)
            out[part, 0] = self.merge(self.bank.rows(index[part]))
        return out

    def subset(self, index: Index) -> Bank:
        """The same kernel on fewer rows."""
        return merged(self.bank.subset(index), self.merge)


class WeightedBank(Bank):
    """K = sum_f weights_f K_f, by the products of the bank it is made of.

    Parameters
    ----------
    bank : Bank
    weights : array of shape (blocks,)
    """

    def __init__(self, bank: Bank, weights: Array) -> None:
        super().__init__(bank.n_rows, ["combined"], bank.dtype, bank.max_combined_rows)
        self.bank = bank
        self.weights = weights
        self.cache_bytes = bank.cache_bytes
        self.computes_anew = bank.computes_anew

    def diagonals(self) -> Array:
        """K(i, i), shape (rows, 1)."""
        return (self.bank.diagonals() @ self.weights)[:, None]

    def rows(self, index: Index) -> Values:
        """Rows of the kernel, shape (len(index), 1, rows)."""
        return self.bank.combine(self.weights, index)[:, None, :]

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """weights_0 K(i, j) for i in rows and all j."""
        return self.bank.combine(weights[0] * self.weights, rows, out)

    def scores(self, coef: Array, weights: Array) -> Array:
        """weights_0 K coef in float64."""
        return self.bank.scores(coef, weights[0] * self.weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`."""
        return self.bank.scores_at(rows, coef, weights[0] * self.weights)

    def square_norms(self, coef: Array) -> Array:
        """trace(coef' K coef), shape (1,)."""
        return np.array([self.bank.square_norms(coef) @ self.weights])

    def subset(self, index: Index) -> Bank:
        """The same kernel on fewer rows."""
        return weighted_sum(self.bank.subset(index), self.weights)

    def brief_subset(self, index: Index) -> Bank:
        """The same for a few products."""
        return weighted_sum(self.bank.brief_subset(index), self.weights)


def _in_memory(lazy: Bank) -> GramBank:
    return GramBank(lazy.rows(np.arange(lazy.n_rows)), lazy.names)
