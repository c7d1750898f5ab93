"""Sparse training matrices of kernels with compact support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.kernels.rows import BLOCK_BYTES, row_blocks
from manykernels.kernels.scaling import between

if TYPE_CHECKING:
    from manykernels.kernels.fitted import KernelSet


def sparse_matrices(fitted: KernelSet) -> list[Any]:
    """CSR matrices of the reference rows; only a few dense rows exist at a time."""
    n = fitted.n_reference
    parts: list[list[Any]] = [[] for _ in fitted.kernels]
    for rows in row_blocks(n, n, 8, BLOCK_BYTES):
        for f, block in between(fitted, rows, slice(rows.start, n)):
            parts[f].append(_strict_upper(block.astype(fitted.dtype), rows.start, n))
    diagonals = fitted.diagonals().astype(fitted.dtype)
    return [_mirrored(*both) for both in zip(parts, diagonals, strict=True)]


def _strict_upper(block: Values, start: int, n: int) -> Any:
    """Entries right of the diagonal, where column 0 of the block is `start`."""
    upper = np.triu(block, 1)
    rows, columns = np.nonzero(upper)
    entries = (upper[rows, columns], (rows, columns + start))
    return sp.csr_array(entries, shape=(len(block), n))


def _mirrored(parts: list[Any], diagonal: Values) -> Any:
    upper = sp.csr_array(sp.vstack(parts, format="csr"))
    return sp.csr_array(upper + upper.T + sp.diags_array(diagonal))
