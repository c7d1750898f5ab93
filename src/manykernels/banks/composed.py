"""Banks made of other banks: kernels merged into one, or exchanged one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manykernels.banks.base import ROW_BLOCK_BYTES, Bank
from manykernels.banks.gram_bank import GramBank
from manykernels.base.arrays import Array, Index, Values

Merge = Callable[[Values], Values]  # (rows, blocks, n) -> (rows, n)


def weighted_sum(bank: Bank, weights: Array) -> Bank:
    """Return the kernel sum_f weights_f K_f as a bank of one block.

    Values in memory are combined once; others are combined as they are asked for.

    Examples
    --------
    >>> bank = GramBank(np.stack([np.eye(2), np.ones((2, 2))], axis=1))
    >>> weighted_sum(bank, np.array([0.5, 0.5])).rows(np.array([0])).tolist()
    [[[1.0, 0.5]]]
    """
    return _in_memory_if_stored(WeightedBank(bank, weights))


def merged(bank: Bank, merge: Merge) -> Bank:
    """Return the kernel that `merge` makes of the kernels' values, entry by entry."""
    return _in_memory_if_stored(MergedBank(bank, merge))


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
        self.bank, self.merge = bank, merge
        # A row of the one kernel takes the rows of all the kernels.
        row_bytes = bank.n_blocks * bank.n_rows * bank.dtype.itemsize
        self.block_rows = max(1, min(self.block_rows, ROW_BLOCK_BYTES // row_bytes))
        self.nbytes = self.block_rows * row_bytes
        self.cache_bytes = bank.cache_bytes

    def diagonals(self) -> Array:
        values = self.bank.diagonals()[:, :, None]  # a column stands for the row
        return np.asarray(self.merge(values), dtype=np.float64)

    def rows(self, index: Index) -> Values:
        out = np.empty((len(index), 1, self.n_rows), self.dtype)
        for start in range(0, len(index), self.block_rows):
            part = slice(start, start + self.block_rows)
            out[part, 0] = self.merge(self.bank.rows(index[part]))
        return out

    def take(self, index: Index, brief: bool = False) -> Bank:
        return merged(self.bank.take(index, brief), self.merge)


class WeightedBank(Bank):
    """K = sum_f weights_f K_f, by the products of the bank it is made of.

    Parameters
    ----------
    bank : Bank
    weights : array of shape (blocks,)
    """

    def __init__(self, bank: Bank, weights: Array) -> None:
        super().__init__(bank.n_rows, ["combined"], bank.dtype, bank.max_combined_rows)
        self.bank, self.weights = bank, weights
        self.cache_bytes = bank.cache_bytes
        self.computes_anew = bank.computes_anew

    def diagonals(self) -> Array:
        return (self.bank.diagonals() @ self.weights)[:, None]

    def rows(self, index: Index) -> Values:
        return self.bank.combine(self.weights, index)[:, None, :]

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        return self.bank.combine(weights[0] * self.weights, rows, out)

    def scores(self, coef: Array, weights: Array) -> Array:
        return self.bank.scores(coef, weights[0] * self.weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        return self.bank.scores_at(rows, coef, weights[0] * self.weights)

    def square_norms(self, coef: Array) -> Array:
        return np.array([self.bank.square_norms(coef) @ self.weights])

    def take(self, index: Index, brief: bool = False) -> Bank:
        return weighted_sum(self.bank.take(index, brief), self.weights)


class ExchangedBank(Bank):
    """K_f of one bank, and for some blocks of another, on as many rows.

    Parameters
    ----------
    bank, other : Bank
        With the same blocks.
    exchanged : bool array of shape (blocks,)
        Blocks that come from `other`.

    Examples
    --------
    >>> bank = GramBank(np.stack([np.eye(2), np.diag([1.0, 2.0])], axis=1))
    >>> turned = bank.take(np.array([1, 0]))
    >>> ExchangedBank(bank, turned, np.array([False, True])).diagonals()
    array([[1., 2.],
           [1., 1.]])
    """

    def __init__(self, bank: Bank, other: Bank, exchanged: Array) -> None:
        super().__init__(bank.n_rows, bank.names, bank.dtype, bank.max_combined_rows)
        self.bank, self.other, self.exchanged = bank, other, exchanged
        self.nbytes = bank.nbytes + other.nbytes
        self.stores_values = bank.stores_values and other.stores_values
        self.computes_anew = bank.computes_anew
        self.cache_bytes = bank.cache_bytes

    def diagonals(self) -> Array:
        return np.where(self.exchanged, self.other.diagonals(), self.bank.diagonals())

    def rows(self, index: Index) -> Values:
        rows = np.array(self.bank.rows(index))
        rows[:, self.exchanged] = self.other.rows(index)[:, self.exchanged]
        return rows

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        kept, exchanged = self._split(weights)
        out = self.bank.combine(kept, rows, out)
        out += self.other.combine(exchanged, rows, np.empty_like(out))
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        kept, exchanged = self._split(weights)
        return self.bank.scores(coef, kept) + self.other.scores(coef, exchanged)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        kept, exchanged = self._split(weights)
        scores = self.bank.scores_at(rows, coef, kept)
        return scores + self.other.scores_at(rows, coef, exchanged)

    def block_scores(self, coef: Array) -> Values:
        out = np.array(self.bank.block_scores(coef))
        out[:, self.exchanged] = self.other.block_scores(coef)[:, self.exchanged]
        return out

    def square_norms(self, coef: Array) -> Array:
        squares = self.bank.square_norms(coef), self.other.square_norms(coef)
        return np.where(self.exchanged, squares[1], squares[0])

    def take(self, index: Index, brief: bool = False) -> Bank:
        bank, other = self.bank.take(index, brief), self.other.take(index, brief)
        return ExchangedBank(bank, other, self.exchanged)

    def _split(self, weights: Array) -> tuple[Array, Array]:
        """Weights of the blocks that each bank has, zero for the others."""
        kept = np.where(self.exchanged, 0.0, weights)
        return kept, np.where(self.exchanged, weights, 0.0)


def _in_memory_if_stored(lazy: MergedBank | WeightedBank) -> Bank:
    """The values of the one kernel, where those that it is made of are in memory."""
    if lazy.bank.stored_rows() is None:
        return lazy
    return GramBank(lazy.rows(np.arange(lazy.n_rows)), lazy.names)
