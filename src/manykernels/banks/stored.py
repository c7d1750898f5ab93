"""Kernel rows from where they were stored: a file, or half precision in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from manykernels.banks.bands import FLOAT16
from manykernels.banks.base import (
    SCORE_BLOCK,
    Bank,
    GramBank,
    support_of,
    without_noise,
)
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices, stack_bytes
from manykernels.hot import stack as hot

CHUNK_BYTES = 4 << 20  # of stored values that wait to be converted
# Four times the largest rounding of one value, relative to the largest value.
HALF_NOISE = 4.0 * 2.0**-11


class Store(Protocol):
    """What holds the values: an array or a file."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, index: Any, /) -> Any:
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
    room : int
        Bytes that a subset may take to be held in memory, ready to use.
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
        room: int = 0,
        max_combined_rows: int | None = None,
    ) -> None:
        n_rows, n_blocks = diagonals.shape
        names = list(names or (f"kernel {f}" for f in range(n_blocks)))
        native = np.dtype(store.dtype).newbyteorder("=")
        half = native == FLOAT16
        dtype = np.dtype(np.float32) if half else native
        super().__init__(n_rows, names, dtype, max_combined_rows)
        self.store = store
        self.room = room
        self._diagonals: Array = diagonals.astype(native).astype(np.float64)
        self.noise = HALF_NOISE * float(self._diagonals.max()) if half else 0.0
        self.nbytes += int(getattr(store, "nbytes", 0))

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        return self._diagonals

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)
        step = max(1, CHUNK_BYTES // (self.n_blocks * self.store.shape[2] * 4))

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, step):
                part = slice(first, min(first + step, stop))
                out[part] = self.store[index[part]]

        in_slices(len(index), out.nbytes, work)
        return out

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        out = self._new_rows(rows) if out is None else out
        weights = weights.astype(out.dtype)
        for part, block in self._row_blocks(rows):
            _combine(block, weights, out[part])
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64, read from the support rows only."""
        support = support_of(coef)
        scores = np.zeros((coef.shape[1], self.n_rows))
        for start in range(0, len(support), SCORE_BLOCK):
            block = support[start : start + SCORE_BLOCK]
            out = np.empty((len(block), self.n_rows))  # float64 whatever is stored
            scores += coef[block].T @ self.combine(weights, block, out)
        return scores.T

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, accumulated in float64."""
        return without_noise(super().square_norms(coef), coef, self.noise)

    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows, in memory if there is room."""
        if stack_bytes(len(index), self.n_blocks, self.dtype.itemsize) > self.room:
            store = _Part(self.store, index)
            return StoredBank(
                store,
                self._diagonals[index],
                self.names,
                self.room,
                self.max_combined_rows,
            )
        stack = np.empty((len(index), self.n_blocks, len(index)), self.dtype)
        for part, block in self._row_blocks(index):
            stack[part] = block[:, :, index]
        return GramBank(stack, self.names, self.noise)


class _Part:
    """Some rows and columns of a store, read anew each time."""

    def __init__(self, store: Store, index: Index) -> None:
        self.store = store
        self.index = index
        self.dtype = store.dtype
        self.shape = (len(index), store.shape[1], store.shape[2])  # as it is read

    def __getitem__(self, index: Index) -> Values:
        return np.asarray(self.store[self.index[index]][:, :, self.index])


def _combine(block: Values, weights: Array, out: Values) -> None:
    """out[a, j] = sum_f weights_f block[a, f, j]."""
    every = np.arange(len(block))
    values, steps = block.reshape(-1, block.shape[2]), (block.shape[1], 1)

    def work(start: int, stop: int) -> None:
        hot.combine_rows(values, steps, weights, every, out, start, stop)

    in_slices(len(block), block.nbytes, work)
