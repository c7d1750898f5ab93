"""Blocks of any sort side by side: explicit features, sparse kernel matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from manykernels.banks.base import FLOAT64_VALUES, Bank, support_of
from manykernels.banks.gram_bank import GramBank
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices, one_blas_thread, stack_bytes


def _bytes_of(matrix: Any) -> int:
    if sp.issparse(matrix):
        return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    return int(matrix.nbytes)


def _stored_values(matrix: Any) -> int:
    return int(matrix.nnz if sp.issparse(matrix) else matrix.size)


class FeatureBlock:
    """K = Phi Phi' for explicit features Phi, dense or CSR; K is never stored.

    Attributes
    ----------
    product_work : float
        Multiplications of `times` for one column.
    matrix : None
        K as CSR, which another block has.

    Examples
    --------
    >>> block = FeatureBlock(np.array([[1.0, 0.0], [1.0, 1.0]]))
    >>> block.rows(np.array([1])).tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, features: Any) -> None:
        self.features = features.tocsr() if sp.issparse(features) else features
        self.n_rows = features.shape[0]
        self.nbytes = _bytes_of(self.features)
        self.product_work = 2.0 * float(_stored_values(self.features))
        self.matrix = None

    def rows(self, index: Index) -> Values:
        product = self.features[index] @ self.features.T
        return np.asarray(product.toarray() if sp.issparse(product) else product)

    def times(self, coef: Array) -> Array:
        """Phi (Phi' coef): two thin products instead of a square one."""
        # Features may be float32: parts are raised to float64, never all of them.
        block_coef = self.block_coef(coef)
        parts = [self.features[part] @ block_coef for part in self._parts(self.n_rows)]
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])

    def block_coef(self, coef: Array) -> Array:
        """Phi' coef in float64, from the support rows only."""
        support = support_of(coef)
        total = np.zeros((self.features.shape[1], coef.shape[1]))
        for part in self._parts(len(support)):
            rows = support[part]
            total += np.asarray(self.features[rows].T @ coef[rows])
        return total

    def _parts(self, n_rows: int) -> list[slice]:
        """Slices of rows whose float64 copy is small; sparse rows are not split."""
        size = max(1, FLOAT64_VALUES // max(1, self.features.shape[1]))
        if sp.issparse(self.features):
            size = max(1, n_rows)
        return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]

    def square_norm(self, coef: Array) -> float:
        """||Phi' coef||^2: never negative, and half of the work of `times`."""
        return float(np.square(self.block_coef(coef)).sum())

    def diagonal(self) -> Array:
        if sp.issparse(self.features):
            return np.asarray(self.features.multiply(self.features).sum(axis=1)).ravel()
        squares = np.einsum("ij,ij->i", self.features, self.features, dtype=np.float64)
        return np.asarray(squares)

    def take(self, index: Index) -> FeatureBlock:
        return FeatureBlock(self.features[index])


class SparseGramBlock:
    """A kernel matrix with mostly zeros, stored as CSR.

    Examples
    --------
    >>> SparseGramBlock(sp.eye_array(3, format="csr")).rows(np.array([1])).tolist()
    [[0.0, 1.0, 0.0]]
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = sp.csr_array(matrix)
        self.n_rows = self.matrix.shape[0]
        self.nbytes = _bytes_of(self.matrix)
        self.product_work = float(self.matrix.nnz)
        self.features = None

    def rows(self, index: Index) -> Values:
        return np.asarray(self.matrix[index].toarray())

    def times(self, coef: Array) -> Array:
        return np.asarray(self.matrix @ coef, dtype=np.float64)

    def square_norm(self, coef: Array) -> float:
        return float(np.sum(coef * self.times(coef)))

    def diagonal(self) -> Array:
        return np.asarray(self.matrix.diagonal(), dtype=np.float64)

    def take(self, index: Index) -> SparseGramBlock:
        return SparseGramBlock(self.matrix[index][:, index])


KernelBlock: TypeAlias = FeatureBlock | SparseGramBlock


class BlockBank(Bank):
    """Explicit features and sparse kernel matrices, freely mixed.

    Parameters
    ----------
    blocks : sequence of FeatureBlock or SparseGramBlock
    names : sequence of str, optional
    dtype : dtype
        Of the rows that are handed out.
    bytes_free : int
        Bytes that a subset may take to be held as a Gram stack: working sets are
        asked for the same values many times over.
    max_combined_rows : int, optional
        Rows whose combined kernel a solver may hold; all by default.

    Examples
    --------
    >>> bank = BlockBank([FeatureBlock(np.eye(2)), FeatureBlock(np.ones((2, 1)))])
    >>> bank.scores(np.array([[1.0], [0.0]]), np.array([1.0, 0.5])).tolist()
    [[1.5], [0.5]]
    """

    def __init__(
        self,
        blocks: Sequence[KernelBlock],
        names: Sequence[str] | None = None,
        dtype: Any = np.float64,
        bytes_free: int = 0,
        max_combined_rows: int | None = None,
    ) -> None:
        self.blocks = list(blocks)
        names = names or [f"kernel {f}" for f in range(len(self.blocks))]
        super().__init__(self.blocks[0].n_rows, names, dtype, max_combined_rows)
        if any(block.n_rows != self.n_rows for block in self.blocks):
            sizes = [block.n_rows for block in self.blocks]
            raise ValueError(
                f"All blocks must have the same rows, got {sizes} rows; "
                "build every block from the same samples in the same order."
            )
        self.nbytes = sum(block.nbytes for block in self.blocks)
        self.bytes_free = bytes_free
        self.product_work = sum(block.product_work for block in self.blocks)

    def diagonals(self) -> Array:
        return np.stack([block.diagonal() for block in self.blocks], axis=1)

    def rows(self, index: Index) -> Values:
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)

        def work(start: int, stop: int) -> None:
            for f, block in enumerate(self.blocks):
                out[start:stop, f] = block.rows(index[start:stop])

        self._in_slices(len(index), work)
        return out

    def features(self) -> list[Any] | None:
        features = [block.features for block in self.blocks]
        return None if any(phi is None for phi in features) else features

    def sparse_matrices(self) -> list[Any] | None:
        matrices = [block.matrix for block in self.blocks]
        return None if any(matrix is None for matrix in matrices) else matrices

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        out = self._new_rows(rows) if out is None else out
        out[:] = 0.0

        def work(start: int, stop: int) -> None:
            for weight, block in zip(weights, self.blocks, strict=True):
                if weight > 0.0:
                    part = block.rows(rows[start:stop])
                    part *= part.dtype.type(weight)
                    out[start:stop] += part

        self._in_slices(len(rows), work)
        return out

    def _in_slices(self, n_rows: int, work: Callable[[int, int], None]) -> None:
        """Products of some rows with all blocks, in the package's threads.

        A row needs every stored value once; four multiplications take about as long
        as one byte, which is what threads are chosen by.
        """
        with one_blas_thread():
            in_slices(n_rows, 0.25 * n_rows * self.nbytes / self.dtype.itemsize, work)

    def scores(self, coef: Array, weights: Array) -> Array:
        scores = np.zeros((self.n_rows, coef.shape[1]))
        for weight, block in zip(weights, self.blocks, strict=True):
            if weight > 0.0:
                scores += weight * block.times(coef)
        return scores

    def block_scores(self, coef: Array) -> Values:
        out = np.empty((coef.shape[1], self.n_blocks, self.n_rows), self.dtype)
        for f, block in enumerate(self.blocks):
            out[:, f, :] = block.times(coef).T
        return out

    def block_products(self, coefs: Array) -> Array:
        pairs = zip(self.blocks, coefs, strict=True)
        return np.stack([b.times(np.ascontiguousarray(c.T)).T for b, c in pairs])

    def square_norms(self, coef: Array) -> Array:
        return np.array([block.square_norm(coef) for block in self.blocks])

    def take(self, index: Index, brief: bool = False) -> Bank:
        blocks = [block.take(index) for block in self.blocks]
        part = BlockBank(
            blocks, self.names, self.dtype, self.bytes_free, self.max_combined_rows
        )
        if (
            stack_bytes(len(index), self.n_blocks, self.dtype.itemsize)
            > self.bytes_free
        ):
            return part
        return GramBank(part.rows(np.arange(len(index))), self.names)
