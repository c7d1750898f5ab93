"""Kernel matrices where the user has them: nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from manykernels.banks.base import Bank, GramBank, support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import SCATTERED, in_slices
from manykernels.hot import stack as hot
from manykernels.kernels.matrices import gather


def given_bank(stack: Values, factors: Array, names: Sequence[str], dtype: Any) -> Bank:
    """K_f = factors[f] * stack[:, :, f], from the array as it lies.

    Parameters
    ----------
    stack : array of shape (rows, rows, blocks)
        C-contiguous, or a view of matrices that lie one after the other.
    factors : array of shape (blocks,)
    names : sequence of str
    dtype : dtype
        Of the rows that are handed out.

    Examples
    --------
    >>> stack = np.stack([np.eye(3), np.ones((3, 3))], axis=-1)
    >>> bank = given_bank(stack, np.array([1.0, 3.0]), ["one", "three"], np.float32)
    >>> bank.combine(np.array([2.0, 1.0]), np.array([0])).tolist()
    [[5.0, 3.0, 3.0]]
    """
    bank: Bank
    if stack.flags.c_contiguous:
        bank = KernelsLastBank(stack, names, dtype)
    else:
        bank = GramBank(stack.transpose(0, 2, 1), names, dtype=dtype)
    return bank if np.all(factors == 1.0) else ScaledBank(bank, factors)


class KernelsLastBank(Bank):
    """K_f(i, j) = stack[i, j, f].

    A combined row is a product of the values as they lie with the weights; products
    that ask for single kernels read the pairs of support rows only. Everything is
    summed up in float64.

    Parameters
    ----------
    stack : array of shape (rows, rows, blocks)
        float32 or float64, C-contiguous; symmetric in the two row axes.
    names : sequence of str
    dtype : dtype
        Of the rows that are handed out.
    """

    stores_values = True

    def __init__(self, stack: Values, names: Sequence[str], dtype: Any) -> None:
        super().__init__(len(stack), names, dtype)
        self.stack = stack
        self.nbytes = stack.nbytes

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        every = np.arange(self.n_rows)
        return self.stack[every, every].astype(np.float64)

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        return self._gather(index, np.arange(self.n_rows))

    def stored_rows(self) -> Values:
        """All rows side by side: a copy, made for solvers that need them so."""
        return self._rows

    @cached_property
    def _rows(self) -> Values:
        return self.rows(np.arange(self.n_rows))

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        out = self._new_rows(rows) if out is None else out
        work = partial(hot.combine_given, self.stack, weights, rows, out)
        in_slices(len(rows), len(rows) * self.stack[0].nbytes, work)
        return out

    def combine_between(self, weights: Array, rows: Index, columns: Index) -> Values:
        """sum_f weights_f K_f(i, j), from the pairs that are asked for."""
        out = np.empty((len(rows), len(columns)), self.dtype)
        work = partial(hot.combine_pairs, self.stack, weights, rows, columns, out)
        traffic = SCATTERED * out.size * self.stack[0, 0].nbytes
        in_slices(len(rows), traffic, work)
        return out

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, from the pairs of support rows."""
        support = support_of(coef)
        by_output = np.ascontiguousarray(coef[support].T)
        # Every other row in turn: slices then have as many pairs.
        turns = np.arange(len(support))
        turns = np.concatenate([turns[::2], turns[1::2]])
        rows = (self.stack, by_output, support, turns)
        work = partial(hot.quadratic_forms_given, *rows)
        traffic = SCATTERED * len(support) ** 2 * self.stack[0, 0].nbytes / 2.0
        return np.asarray(np.sum(in_slices(len(support), traffic, work), axis=0))

    def subset(self, index: Index) -> GramBank:
        """The same kernels on the rows `index`, copied together."""
        return GramBank(self._gather(index, index), self.names)

    def _gather(self, rows: Index, columns: Index) -> Values:
        return gather(self.stack, rows, columns, self.dtype)


class ScaledBank(Bank):
    """factors[f] * K_f for the kernels of another bank, whose values stay as they are.

    Parameters
    ----------
    bank : Bank
    factors : array of shape (blocks,)
        Positive.
    """

    def __init__(self, bank: Bank, factors: Array) -> None:
        super().__init__(bank.n_rows, bank.names, bank.dtype, bank.max_combined_rows)
        self.bank = bank
        self.factors = factors
        self.stores_values = bank.stores_values
        self.nbytes = bank.nbytes

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        return self.factors * self.bank.diagonals()

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        rows = self.bank.rows(index)  # a copy
        rows *= self.factors[:, None].astype(self.dtype)
        return rows

    def stored_rows(self) -> Values:
        """All rows side by side: a copy, made for solvers that need them so."""
        return self._rows

    @cached_property
    def _rows(self) -> Values:
        return self.rows(np.arange(self.n_rows))

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        return self.bank.combine(weights * self.factors, rows, out)

    def combine_between(self, weights: Array, rows: Index, columns: Index) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and j in columns."""
        return self.bank.combine_between(weights * self.factors, rows, columns)

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f."""
        return self.factors * self.bank.square_norms(coef)

    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows, scaled once for all."""
        part = self.bank.subset(index)
        if not isinstance(part, GramBank):
            return ScaledBank(part, self.factors)
        part.stack *= self.factors[:, None].astype(part.stack.dtype)  # a copy
        return part
