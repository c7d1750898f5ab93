"""Every product of a bank from its kernel rows, a block of rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from manykernels.banks.base import Bank, support_of
from manykernels.base.arrays import Array, Index, Values

BLOCK_BYTES = 128 << 20  # of kernel rows at a time


class RowBank(ABC):
    """K_f(i, :) is cheap to hold for a few rows, and too large for all of them.

    A subclass says where kernel rows come from; every product needs the rows of the
    coefficients' support only.

    Parameters
    ----------
    n_rows : int
    names : list of str
    dtype : dtype
        Of the rows that are handed out.
    max_combined_rows : int, optional
        Rows whose combined kernel a solver may hold; all by default.
    """

    def __init__(
        self,
        n_rows: int,
        names: list[str],
        dtype: np.dtype[Any],
        max_combined_rows: int | None = None,
    ) -> None:
        self.n_rows = n_rows
        self.n_blocks = len(names)
        self.names = names
        self.dtype = dtype
        self.max_combined_rows = (
            n_rows if max_combined_rows is None else min(n_rows, max_combined_rows)
        )
        row_bytes = self.n_blocks * n_rows * dtype.itemsize
        # A block that were most of the stack would leave nothing to be saved.
        self.block_rows = max(1, min(BLOCK_BYTES // row_bytes, n_rows // 8))
        self.nbytes = self.block_rows * row_bytes  # held at a time

    @abstractmethod
    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""

    @abstractmethod
    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""

    @abstractmethod
    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows."""

    def _row_blocks(self, index: Index) -> Iterator[tuple[slice, Values]]:
        """Kernel rows a block at a time."""
        for start in range(0, len(index), self.block_rows):
            part = slice(start, min(start + self.block_rows, len(index)))
            yield part, self.rows(index[part])

    def combine(self, weights: Array, rows: Index) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        out = np.empty((len(rows), self.n_rows), self.dtype)
        for part, block in self._row_blocks(rows):
            out[part] = np.einsum("f,bfn->bn", weights.astype(self.dtype), block)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64."""
        support = support_of(coef)
        scores = np.zeros((coef.shape[1], self.n_rows))
        for part, block in self._row_blocks(support):
            combined = np.zeros((block.shape[0], self.n_rows))
            for f in np.flatnonzero(weights):
                combined += weights[f] * block[:, f]
            scores += coef[support[part]].T @ combined
        return scores.T

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        support = support_of(coef)
        out = np.zeros((coef.shape[1], self.n_blocks, self.n_rows), self.dtype)
        for part, block in self._row_blocks(support):
            active = coef[support[part]].T.astype(self.dtype)
            for f in range(self.n_blocks):
                out[:, f] += active @ block[:, f]
        return out

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, accumulated in float64."""
        support = support_of(coef)
        squares = np.zeros(self.n_blocks)
        for part, block in self._row_blocks(support):
            products = coef[support[part]] @ coef.T
            for f in range(self.n_blocks):
                squares[f] += np.sum(block[:, f] * products)
        return squares
