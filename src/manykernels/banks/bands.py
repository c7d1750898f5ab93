"""Kernel values in bands of rows, each computed once and mirrored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from manykernels.base.arrays import Values
from manykernels.base.machine import available_threads, one_blas_thread
from manykernels.kernels import KernelSet
from manykernels.kernels.pairwise import KERNEL_TILE, make_symmetric

# The tiles of `KernelSet.stack`: products of other shapes differ in the last bit.
BAND = KERNEL_TILE
FLOAT16 = np.dtype(np.float16)
# Largest k(x, x) that half precision holds without losing the other values.
HALF_RANGE = (1e-3, 6e4)


def bands(n_rows: int) -> list[slice]:
    """Consecutive bands of rows.

    Examples
    --------
    >>> bands(500)
    [slice(0, 384, None), slice(384, 500, None)]
    """
    return [slice(i, min(i + BAND, n_rows)) for i in range(0, n_rows, BAND)]


def fill_right(kernels: KernelSet, rows: slice, out: Values) -> None:
    """out[i, f, j] = K_f(rows[i], j) for j >= rows.start, exactly as in `stack`."""
    diagonals = kernels.diagonals()[:, rows]

    def fill(columns: slice) -> None:
        for f, block in kernels.between(rows, columns):
            if columns == rows:
                make_symmetric(block, diagonals[f])
            with np.errstate(over="raise"):
                out[:, f, columns] = block

    columns = [part for part in bands(kernels.n_reference) if part.start >= rows.start]
    try:
        with one_blas_thread(), ThreadPoolExecutor(available_threads()) as pool:
            list(pool.map(fill, columns))
    except FloatingPointError:
        raise ValueError(
            f"{out.dtype} holds values up to {np.finfo(out.dtype).max:.3g}, got larger "
            "kernel values; normalize the kernels or use float32."
        ) from None


def half_stack(kernels: KernelSet) -> Values:
    """The stack of shape (rows, blocks, rows), rounded to half precision."""
    require_half_range(kernels)
    n_rows = kernels.n_reference
    stack = np.empty((n_rows, kernels.n_kernels, n_rows), FLOAT16)
    for rows in bands(n_rows):
        fill_right(kernels, rows, stack[rows])
        for left in bands(rows.start):
            stack[rows, :, left] = stack[left, :, rows].transpose(2, 1, 0)
    return stack


def require_half_range(kernels: KernelSet) -> None:
    """Raise where half precision would lose a kernel to its range."""
    largest = kernels.diagonals().max(axis=1)
    for name, value in zip(kernels.names, largest, strict=True):
        if not HALF_RANGE[0] <= value <= HALF_RANGE[1]:
            raise ValueError(
                f"float16 needs kernels with a largest k(x, x) between "
                f"{HALF_RANGE[0]:g} and {HALF_RANGE[1]:g}, got {value:.3g} for "
                f"{name!r}; normalize it or use float32."
            )
