"""Given kernel or distance matrices: how they come in and what is checked.

A stack is one array of shape (n, n_train, n_kernels), a list of matrices, or a single
matrix. Matrices are kept as views; nothing is copied here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values

# Not a power of two: rows of a tile would then compete for the same cache lines.
TILE = 384
SYMMETRY_TOLERANCE = 1e-5


@dataclass
class GivenRows:
    """Rows of a given matrix, and the columns that stand for them."""

    values: Values
    ids: Values | slice

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.values)

    def take(self, index: Values | slice) -> GivenRows:
        """Return the chosen rows of new data."""
        return GivenRows(self.values[index], self.ids)


def read_stack(X: Any) -> list[Values]:
    """The matrices of a stack, as views.

    >>> stack = np.zeros((3, 5, 5))  # (n_kernels, n, n)
    >>> matrices = read_stack(np.moveaxis(stack, 0, -1))
    >>> len(matrices), np.shares_memory(matrices[0], stack)
    (3, True)
    """
    if sp.issparse(X):
        raise TypeError(
            "given kernels must be dense arrays, got a sparse matrix; call .toarray() "
            "on it first."
        )
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
        matrices = [np.asarray(matrix) for matrix in X]
    else:
        array = np.asarray(X)
        if array.ndim == 2:
            matrices = [array]
        elif array.ndim == 3:
            matrices = [array[:, :, k] for k in range(array.shape[2])]
        else:
            raise ValueError(
                f"given kernels must come as (n, n_train, n_kernels), a list of "
                f"matrices or one matrix, got {array.ndim} dimensions; stack them so."
            )
    _require_same_shape(matrices)
    return matrices


def check_training_stack(matrices: list[Values]) -> None:
    """Raise unless the matrices are square, as a training stack must be."""
    rows, columns = matrices[0].shape
    if rows != columns:
        raise ValueError(
            f"given training kernels must be square, got {rows} rows and {columns} "
            f"columns; pass k(x_i, x_j) for all pairs of training rows."
        )


def check_new_stack(matrices: list[Values], n_matrices: int, n_train: int) -> None:
    """Raise unless new rows come with the kernels and columns of training."""
    if len(matrices) != n_matrices:
        raise ValueError(
            f"expected {n_matrices} given kernels as in fit, got {len(matrices)}; pass "
            f"them all in the same order."
        )
    if matrices[0].shape[1] != n_train:
        raise ValueError(
            f"expected {n_train} columns, one per training row, got "
            f"{matrices[0].shape[1]}; pass k(x, x_j) for all training rows x_j."
        )


def check_training_matrix(matrix: Values, name: str, nonnegative: bool) -> None:
    """Finite, non-zero and symmetric, in one pass over tiles."""
    largest = gap = 0.0
    for rows, columns in symmetric_tiles(len(matrix)):
        tile, mirror = matrix[rows, columns], matrix[columns, rows].T
        require_finite(tile, name)
        require_finite(mirror, name)
        if nonnegative:
            require_nonnegative(tile, name)
        largest = max(largest, float(np.abs(tile).max()))
        gap = max(gap, float(np.abs(np.subtract(tile, mirror, dtype=float)).max()))
    if largest == 0.0:
        raise ValueError(
            f"kernel {name!r} must have a non-zero entry, got all zeros on the "
            f"training rows; leave it out."
        )
    if gap > SYMMETRY_TOLERANCE * largest:
        raise ValueError(
            f"kernel {name!r} must be symmetric, got entries that differ from their "
            f"mirror image by {gap:.2g}; pass (K + K.T) / 2 if this is rounding."
        )


def symmetric_tiles(n: int, size: int = TILE) -> list[tuple[slice, slice]]:
    """Tiles on and above the diagonal of an n x n matrix.

    >>> symmetric_tiles(3, 2)
    [(slice(0, 2, None), slice(0, 2, None)), (slice(0, 2, None), slice(2, 3, None)), \
(slice(2, 3, None), slice(2, 3, None))]
    """
    cuts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    return [(rows, cuts[j]) for i, rows in enumerate(cuts) for j in range(i, len(cuts))]


def symmetric_gap(block: Values) -> float:
    """Largest difference to the mirror image, relative to the largest entry."""
    largest = float(np.abs(block).max())
    gap = float(np.abs(block - block.T).max())
    return gap / largest if largest > 0 else 0.0


def require_finite(block: Values, name: str) -> None:
    """Raise if a block of a given or custom kernel holds NaN or infinity."""
    if not np.isfinite(block).all():
        raise ValueError(
            f"kernel {name!r} must hold finite numbers, got NaN or infinity; correct "
            f"the kernel or its input."
        )


def require_nonnegative(values: Values, name: str) -> None:
    """Raise if a kernel defined for values >= 0 gets others."""
    smallest = float(values.min()) if values.size else 0.0
    if smallest < 0:
        raise ValueError(
            f"kernel {name!r} needs values that are not negative, got {smallest:.4g}; "
            f"shift or rescale them, or choose another kernel."
        )


def _require_same_shape(matrices: list[Values]) -> None:
    if not matrices:
        raise ValueError("expected at least one given kernel, got none; pass one.")
    for k, matrix in enumerate(matrices):
        if matrix.ndim != 2 or matrix.shape != matrices[0].shape:
            raise ValueError(
                f"given kernels must have the same shape, got {matrices[0].shape} for "
                f"kernel 0 and {matrix.shape} for kernel {k}; use the same rows."
            )
        if not np.issubdtype(matrix.dtype, np.number) and matrix.dtype != bool:
            raise TypeError(
                f"given kernels must hold numbers, got {matrix.dtype} in kernel {k}; "
                f"convert it to float."
            )
