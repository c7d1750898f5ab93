"""Blocks of kernels given as functions, checked as they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.kernels.stacks import require_finite, symmetric_gap

DIAGONAL_ROWS = 16
SYMMETRY_ROWS = 32


def custom_block(kernel: Any, name: str, a: Values, b: Values) -> Values:
    """function(a, b), with its shape and values checked; a copy that may be changed."""
    block = kernel.function(a, b)
    block = np.array(block.toarray() if sp.issparse(block) else block, dtype=a.dtype)
    if block.shape != (len(a), len(b)):
        raise ValueError(
            f"kernel {name!r} must return shape {(len(a), len(b))} for tables of "
            f"{len(a)} and {len(b)} rows, got {block.shape}; return one value per pair."
        )
    require_finite(block, name)
    return block


def custom_diagonal(kernel: Any, name: str, values: Values) -> Values:
    """k(x, x), from the function's own ``diag`` or from small square blocks."""
    own = getattr(kernel.function, "diag", None)
    if callable(own):
        return np.asarray(own(values), dtype=np.float64)
    parts = [
        np.diagonal(custom_block(kernel, name, part, part)).astype(np.float64)
        for part in np.split(values, range(DIAGONAL_ROWS, len(values), DIAGONAL_ROWS))
    ]
    return np.concatenate(parts)


def check_custom_symmetry(kernel: Any, name: str, values: Values) -> None:
    """Raise if k(x, y) and k(y, x) differ on the first rows."""
    rows = values[:SYMMETRY_ROWS]
    block = custom_block(kernel, name, rows, rows)
    gap = symmetric_gap(block)
    if gap > 1e-4:
        raise ValueError(
            f"kernel {name!r} must be symmetric, got values that differ from their "
            f"mirror image by {gap:.2g} of the largest; return k(x, y) = k(y, x)."
        )
