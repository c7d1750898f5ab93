"""Landmarks of Nyström: different training rows, drawn by how often they come."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.base.machine import in_slices
from manykernels.kernels.base import DEFAULT_RANK, Kernel
from manykernels.kernels.feature_group import (
    TableRows,
)
from manykernels.kernels.pairwise import (
    KERNEL_BLOCK_BYTES,
)

logger = logging.getLogger(__name__)


def draw_landmarks(
    kernel: Kernel, name: str, values: Any, copies: Values, rng: np.random.Generator
) -> TableRows:
    """Draw different training rows for Nyström, in float64; none for random features.

    A row is drawn with a probability proportional to its number of copies, in an
    order that depends on the rows' values only: k copies are as good as a weight of k.
    """
    if kernel.approximate != "nystroem":
        return TableRows.of(values[:0], None, np.float64)
    first, counts = distinct_rows(values, copies)
    n, rank = len(first), kernel.rank or DEFAULT_RANK
    if rank > n:
        logger.info("kernel %r: rank %d lowered to %d different rows", name, rank, n)
    if rank < n:
        chosen = rng.choice(n, rank, replace=False, p=counts / counts.sum())
        first = first[np.sort(chosen)]
    return TableRows.of(values[first], None, np.float64)


def distinct_rows(values: Any, copies: Values) -> tuple[Values, Values]:
    """Return the first place of each different row with copies, and all its copies.

    Rows are in the order of their keys.
    """
    _, first, group = np.unique(
        row_keys(values), return_index=True, return_inverse=True
    )
    counts = np.bincount(group, weights=copies)
    return first[counts > 0], counts[counts > 0]


def row_keys(values: Any) -> Values:
    """Return a hash of every row's entries, dense or sparse.

    Different rows have the same number with a chance of about 2 to the power of -64.

    >>> rows = np.array([[0.5, 0.0], [0.0, 0.5], [0.5, -0.0]])
    >>> keys = row_keys(rows)
    >>> len(set(keys)), bool((row_keys(sp.csr_array(rows)) == keys).all())
    (2, True)
    """
    # A sum of products with random numbers modulo 2^64 hashes the row.
    factors = np.random.default_rng(0).integers(
        2**64, size=values.shape[1], dtype=np.uint64
    )
    if sp.issparse(values):
        rows = sp.csr_array(values, copy=True)
        rows.sum_duplicates()
        mixed = (_mixed_bits(rows.data), rows.indices, rows.indptr)
        return np.asarray(sp.csr_array(mixed, shape=rows.shape) @ factors)
    size = max(1, KERNEL_BLOCK_BYTES // (8 * values.shape[1]))

    def work(start: int, stop: int) -> Values:
        parts = (values[i : min(i + size, stop)] for i in range(start, stop, size))
        return np.concatenate([_mixed_bits(part) @ factors for part in parts])

    return np.concatenate(in_slices(len(values), 8.0 * values.size, work))


def _mixed_bits(values: Values) -> Values:
    """Return the bits of numbers, the high ones mixed into the low; zero for zero."""
    # Adding zero makes -0.0 and 0.0 the same bits.
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    bits ^= bits >> np.uint64(32)
    bits *= np.uint64(0x9E3779B97F4A7C15)  # an odd number with mixed bits
    bits ^= bits >> np.uint64(29)
    return bits
