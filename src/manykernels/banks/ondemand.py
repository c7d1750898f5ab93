"""Kernel values computed when they are asked for, and forgotten after use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from manykernels.banks.base import Array, Bank, Index, Values, support_of
from manykernels.hot.threads import in_slices
from manykernels.kernels import KernelSet

BLOCK_BYTES = 128 << 20  # of kernel rows at a time


class OnDemandBank:
    """K_f(i, j) from the rows themselves: memory for a few kernel rows, not for all.

    Every product costs the kernel rows of the coefficients' support anew; kernels on
    the same columns share the inner products.

    Parameters
    ----------
    kernels : KernelSet
    bank_of : callable, optional
        The bank for a subset of the rows, which may well be stored.

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> bank = OnDemandBank(KernelSet.fit([RBF(0.5)], [[0.0], [1.0]]))
    >>> bank.rows(np.array([0])).round(3).tolist()
    [[[1.0, 0.607]]]
    """

    def __init__(
        self, kernels: KernelSet, bank_of: Callable[[KernelSet], Bank] | None = None
    ) -> None:
        self.kernels = kernels
        self.bank_of = bank_of or OnDemandBank
        self.n_rows = kernels.n_reference
        self.n_blocks = kernels.n_kernels
        self.names = list(kernels.names)
        self.dtype: np.dtype[Any] = kernels.dtype
        row_bytes = self.n_blocks * self.n_rows * self.dtype.itemsize
        # A block that were most of the stack would make computing anew pointless.
        self._block_rows = max(1, min(BLOCK_BYTES // row_bytes, self.n_rows // 8))
        self.nbytes = self._block_rows * row_bytes  # held at a time

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        return np.asarray(self.kernels.diagonals().T)

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)

        def work(start: int, stop: int) -> None:
            block = self.kernels.rows(index[start:stop])
            out[start:stop] = block.transpose(1, 0, 2)

        in_slices(len(index), out.nbytes, work)
        return out

    def _row_blocks(self, index: Index) -> Iterator[tuple[slice, Values]]:
        """Kernel rows a block at a time."""
        for start in range(0, len(index), self._block_rows):
            part = slice(start, min(start + self._block_rows, len(index)))
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

    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows, stored if they fit."""
        return self.bank_of(self.kernels.restrict(index))
