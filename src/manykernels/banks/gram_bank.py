"""Kernel values that are stored: in memory, as they lie, or behind a slower store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from manykernels.banks.base import Bank, support_of, without_noise
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import SCATTERED, in_slices, stack_bytes
from manykernels.hot import stack as hot
from manykernels.kernels.matrices import gather

# Stored values that wait to be converted, of each thread: they stay in its cache.
CONVERTED_BYTES = 4 << 20
# Four times the largest rounding of one value, relative to the largest value.
HALF_NOISE = 4.0 * 2.0**-11


class GramBank(Bank):
    """K_f(i, j) = factors[f] * stack[i, f, j], from an array as it lies in memory.

    All kernels of a row may lie side by side, the matrices one after the other, or the
    kernels last, as users often have them. In this last layout a combined row is a
    product of the values with the weights, and products that ask for single kernels
    read the pairs of support rows only.

    Parameters
    ----------
    stack : array of shape (rows, blocks, rows)
        float32 or float64, symmetric in the two row axes; copied only where it has
        none of these layouts.
    names : sequence of str, optional
    noise : float
        Size of the rounding in the values, where it is larger than the dtype's.
    dtype : dtype, optional
        Of the rows that are handed out, where it is not the stack's.
    factors : array of shape (blocks,), optional
        Positive; all one by default.

    Examples
    --------
    >>> bank = GramBank(np.stack([np.eye(3), np.ones((3, 3))], axis=1))
    >>> bank.combine(np.array([2.0, 1.0]), np.array([0])).tolist()
    [[3.0, 1.0, 1.0]]
    """

    stores_values = True

    def __init__(
        self,
        stack: Values,
        names: Sequence[str] | None = None,
        noise: float = 0.0,
        dtype: Any = None,
        factors: Array | None = None,
    ) -> None:
        if stack.ndim != 3 or stack.shape[0] != stack.shape[2]:
            raise ValueError(
                "A Gram stack has shape (rows, blocks, rows), got "
                f"{stack.shape}; move the kernel axis to the middle."
            )
        n_rows, n_blocks = stack.shape[:2]
        names = names or [f"kernel {f}" for f in range(n_blocks)]
        super().__init__(n_rows, names, stack.dtype if dtype is None else dtype)
        self.noise, self.nbytes = noise, stack.nbytes
        self.factors = np.ones(n_blocks) if factors is None else factors
        self.is_scaled = bool(np.any(self.factors != 1.0))
        one_by_one, last = stack.transpose(1, 0, 2), stack.transpose(0, 2, 1)
        self.kernels_last = False
        self.steps = (n_blocks, 1)  # from a row to the next, from a kernel to the next
        if one_by_one.flags.c_contiguous:
            self.steps, self.values = (1, n_rows), one_by_one.reshape(-1, n_rows)
        elif last.flags.c_contiguous and not stack.flags.c_contiguous:
            self.kernels_last, self.values = True, last
        else:
            stack = np.ascontiguousarray(stack)
            self.values = stack.reshape(-1, n_rows)  # a kernel row each
        self.stack = stack
        self.row_bytes = stack[0].nbytes
        self._rows: Values | None = None

    def diagonals(self) -> Array:
        every = np.arange(self.n_rows)
        return self.factors * self.stack[every, :, every].astype(np.float64)

    def rows(self, index: Index) -> Values:
        if self.kernels_last:
            rows = gather(self.values, index, np.arange(self.n_rows), self.dtype)
        else:
            rows = np.asarray(self.stack[index], self.dtype, order="C")
        return self._scaled(rows)

    def stored_rows(self) -> Values:
        """The stack itself, or a copy made for solvers that need all rows so."""
        if self._rows is None:
            direct = not self.kernels_last and not self.is_scaled
            self._rows = (
                np.ascontiguousarray(self.stack, self.dtype)
                if direct
                else self.rows(np.arange(self.n_rows))
            )
        return self._rows

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        out = self._new_rows(rows) if out is None else out
        weights = weights * self.factors
        if self.kernels_last:
            # One pass over memory in the order in which it lies, for all kernels.
            every = np.arange(self.n_rows)
            work = partial(hot.combine_pairs, self.values, weights, rows, every, out)
        else:
            # A float64 weight would turn every float32 product into float64 and back.
            weights = weights.astype(np.result_type(self.stack.dtype, out.dtype))
            of_rows = partial(hot.combine_rows, self.values, self.steps)
            work = partial(of_rows, weights, rows, out)
        in_slices(len(rows), len(rows) * self.row_bytes, work)
        return out

    def combine_between(self, weights: Array, rows: Index, columns: Index) -> Values:
        if not self.kernels_last:
            return super().combine_between(weights, rows, columns)
        out = np.empty((len(rows), len(columns)), self.dtype)
        weights = weights * self.factors
        work = partial(hot.combine_pairs, self.values, weights, rows, columns, out)
        in_slices(len(rows), self._pair_bytes(out.size), work)
        return out

    def _scores_in_parts(self, coef: Array, weights: Array, support: Index) -> Array:
        if self.kernels_last:
            return super()._scores_in_parts(coef, weights, support)
        weights = (weights * self.factors).astype(np.float64)
        of_rows = partial(hot.combined_scores, self.values, self.steps)
        work = partial(of_rows, weights, coef, support)
        traffic = len(support) * self.row_bytes
        return np.asarray(sum(in_slices(len(support), traffic, work))).T

    def block_scores(self, coef: Array) -> Values:
        if self.kernels_last:  # by blocks of rows that are brought together
            return super().block_scores(coef)
        support = support_of(coef)
        active = coef[support].T.astype(self.dtype)
        if len(support) == self.n_rows:  # one product with the rows side by side
            flat = self.stored_rows().reshape(self.n_rows, -1)
            return np.asarray(active @ flat).reshape(-1, self.n_blocks, self.n_rows)
        out = np.empty((coef.shape[1], self.n_blocks, self.n_rows), self.dtype)
        for f in range(self.n_blocks):
            out[:, f, :] = active @ self.stack[support, f, :]
        return self._scaled(out)

    def square_norms(self, coef: Array) -> Array:
        support = support_of(coef)
        # Every other row in turn: slices then have as much left of the diagonal.
        turns = np.arange(len(support))
        turns = np.concatenate([turns[::2], turns[1::2]])
        if self.kernels_last:
            by_output = np.ascontiguousarray(coef[support].T)
            of_pairs = partial(hot.quadratic_forms_given, self.values)
            work = partial(of_pairs, by_output, support, turns)
            traffic = self._pair_bytes(len(support) ** 2 / 2.0)
        else:
            by_output = np.ascontiguousarray(coef.T)
            of_rows = partial(hot.quadratic_forms, self.values, self.steps)
            work = partial(of_rows, self.n_blocks, by_output, support[turns])
            traffic = len(support) * self.row_bytes
        squares = self.factors * np.sum(in_slices(len(support), traffic, work), axis=0)
        return without_noise(squares, coef, self.noise) if self.noise else squares

    def take(self, index: Index, brief: bool = False) -> GramBank:
        if self.kernels_last:
            stack = gather(self.values, index, index, self.dtype)
        else:
            stack = np.empty((len(index), self.n_blocks, len(index)), self.dtype)
            work = partial(hot.gather_block, self.values, self.steps, index, stack)
            in_slices(len(index), stack.nbytes, work)
        return GramBank(self._scaled(stack), self.names, self.noise)

    def _scaled(self, values: Values) -> Values:
        """Values of shape (..., blocks, rows), a copy, times the factors."""
        if self.is_scaled:
            values *= self.factors[:, None].astype(values.dtype)
        return values

    def _pair_bytes(self, n_pairs: float) -> float:
        """Traffic of pairs of rows, kernels last, that lie scattered."""
        return SCATTERED * n_pairs * int(self.values[0, 0].nbytes)


class Store(Protocol):
    """What holds the values of a `StoredBank`: an array or a file."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, index: Index, /) -> Any:
        """Rows `index`, shape (len(index), blocks, rows)."""


class StoredBank(Bank):
    """K_f(i, j) = store[i, f, j], read and converted a block of rows at a time.

    Half precision is handed out as float32.

    Parameters
    ----------
    store : array or GramFile
        Rows of shape (blocks, rows), by position.
    diagonals : array of shape (rows, blocks)
    names : sequence of str, optional
    bytes_free : int
        Bytes that some of the rows may take to be held in memory, ready to use.
    max_combined_rows : int, optional
        Rows whose combined kernel a solver may hold; all by default.

    Examples
    --------
    >>> stack = np.eye(2, dtype=np.float16)[:, None, :]
    >>> bank = StoredBank(stack, np.ones((2, 1)))
    >>> bank.rows(np.array([1])).tolist(), bank.dtype
    ([[[0.0, 1.0]]], dtype('float32'))
    """

    stores_values = True

    def __init__(
        self,
        store: Store,
        diagonals: Array,
        names: Sequence[str] | None = None,
        bytes_free: int = 0,
        max_combined_rows: int | None = None,
    ) -> None:
        n_rows, n_blocks = diagonals.shape
        names = names or [f"kernel {f}" for f in range(n_blocks)]
        stored_dtype = np.dtype(store.dtype).newbyteorder("=")
        is_half = stored_dtype == np.float16
        dtype = np.dtype(np.float32) if is_half else stored_dtype
        super().__init__(n_rows, names, dtype, max_combined_rows)
        self.store = store
        self.bytes_free = bytes_free
        # As they are stored, rounding included.
        self._diagonals: Array = diagonals.astype(stored_dtype).astype(np.float64)
        self.noise = HALF_NOISE * float(self._diagonals.max()) if is_half else 0.0
        self.nbytes += int(getattr(store, "nbytes", 0))

    def diagonals(self) -> Array:
        return self._diagonals

    def rows(self, index: Index) -> Values:
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)
        row_bytes = self.n_blocks * self.store.shape[2] * self.dtype.itemsize
        step = max(1, CONVERTED_BYTES // row_bytes)

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, step):
                part = slice(first, min(first + step, stop))
                out[part] = self.store[index[part]]

        in_slices(len(index), out.nbytes, work)
        return out

    def take(self, index: Index, brief: bool = False) -> Bank:
        """Return the kernels on some rows, in memory if there are bytes for them."""
        n_bytes = stack_bytes(len(index), self.n_blocks, self.dtype.itemsize)
        if n_bytes > self.bytes_free:
            return StoredBank(
                StorePart(self.store, index),
                self._diagonals[index],
                self.names,
                self.bytes_free,
                self.max_combined_rows,
            )
        stack = np.empty((len(index), self.n_blocks, len(index)), self.dtype)
        for rows, block in self._row_blocks(index):
            stack[rows] = block[:, :, index]
        return GramBank(stack, self.names, self.noise)


class StorePart:
    """Some rows and columns of a store, read anew each time."""

    def __init__(self, store: Store, index: Index) -> None:
        self.store = store
        self.index = index
        self.dtype = store.dtype
        self.shape = (len(index), store.shape[1], store.shape[2])  # as it is read

    def __getitem__(self, index: Index) -> Values:
        return np.asarray(self.store[self.index[index]][:, :, self.index])
