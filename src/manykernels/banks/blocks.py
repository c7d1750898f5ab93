"""Blocks of any sort side by side: explicit features, sparse kernel matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from manykernels.banks.base import Array, Index, Values


class Block(Protocol):
    """One kernel: its rows, its products and its diagonal."""

    n_rows: int
    nbytes: int

    def rows(self, index: Index) -> Values:
        """K(i, j) for i in index and all j, dense."""

    def times(self, coef: Array) -> Array:
        """K @ coef in float64."""

    def diagonal(self) -> Array:
        """K(i, i)."""

    def subset(self, index: Index) -> Block:
        """The same kernel on a subset of the rows."""


def _bytes_of(matrix: Any) -> int:
    if sp.issparse(matrix):
        return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    return int(matrix.nbytes)


class FeatureBlock:
    """K = Phi Phi' for explicit features Phi, dense or CSR; K is never stored.

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

    def rows(self, index: Index) -> Values:
        """Phi[index] Phi'."""
        product = self.features[index] @ self.features.T
        return np.asarray(product.toarray() if sp.issparse(product) else product)

    def times(self, coef: Array) -> Array:
        """Phi (Phi' coef): two thin products instead of a square one."""
        return np.asarray(self.features @ (self.features.T @ coef), dtype=np.float64)

    def diagonal(self) -> Array:
        """Squared lengths of the rows."""
        if sp.issparse(self.features):
            return np.asarray(self.features.multiply(self.features).sum(axis=1)).ravel()
        squares = np.einsum("ij,ij->i", self.features, self.features, dtype=np.float64)
        return np.asarray(squares)

    def subset(self, index: Index) -> FeatureBlock:
        """The same features of fewer rows."""
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

    def rows(self, index: Index) -> Values:
        """Dense rows."""
        return np.asarray(self.matrix[index].toarray())

    def times(self, coef: Array) -> Array:
        """K @ coef."""
        return np.asarray(self.matrix @ coef, dtype=np.float64)

    def diagonal(self) -> Array:
        """K(i, i)."""
        return np.asarray(self.matrix.diagonal(), dtype=np.float64)

    def subset(self, index: Index) -> SparseGramBlock:
        """Rows and columns `index`."""
        return SparseGramBlock(self.matrix[index][:, index])


class BlockBank:
    """A bank whose blocks are `Block` objects, freely mixed.

    Examples
    --------
    >>> bank = BlockBank([FeatureBlock(np.eye(2)), FeatureBlock(np.ones((2, 1)))])
    >>> bank.scores(np.array([[1.0], [0.0]]), np.array([1.0, 0.5])).tolist()
    [[1.5], [0.5]]
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        names: Sequence[str] | None = None,
        dtype: Any = np.float64,
    ) -> None:
        self.blocks = list(blocks)
        self.n_rows = self.blocks[0].n_rows
        self.n_blocks = len(self.blocks)
        if any(block.n_rows != self.n_rows for block in self.blocks):
            sizes = [block.n_rows for block in self.blocks]
            raise ValueError(
                f"All blocks must have the same rows, got {sizes} rows; "
                "build every block from the same samples in the same order."
            )
        self.names = list(names or (f"kernel {f}" for f in range(self.n_blocks)))
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.nbytes = sum(block.nbytes for block in self.blocks)

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        return np.stack([block.diagonal() for block in self.blocks], axis=1)

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        rows = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)
        for f, block in enumerate(self.blocks):
            rows[:, f, :] = block.rows(index)
        return rows

    def combine(self, weights: Array, rows: Index) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        out = np.zeros((len(rows), self.n_rows), self.dtype)
        for weight, block in zip(weights, self.blocks, strict=True):
            if weight > 0.0:
                out += weight * block.rows(rows)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef."""
        scores = np.zeros((self.n_rows, coef.shape[1]))
        for weight, block in zip(weights, self.blocks, strict=True):
            if weight > 0.0:
                scores += weight * block.times(coef)
        return scores

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        out = np.empty((coef.shape[1], self.n_blocks, self.n_rows), self.dtype)
        for f, block in enumerate(self.blocks):
            out[:, f, :] = block.times(coef).T
        return out

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f."""
        return np.array([np.sum(coef * block.times(coef)) for block in self.blocks])

    def subset(self, index: Index) -> BlockBank:
        """The same blocks on fewer rows."""
        blocks = [block.subset(index) for block in self.blocks]
        return BlockBank(blocks, self.names, self.dtype)
