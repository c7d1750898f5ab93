"""Proximity operators as maps on the vector of block norms.

prox(b) = argmin over a >= 0 of 1/2 ||a - b||^2 + step * omega(a). The blocks
themselves are rescaled by a_f / b_f, so nothing here knows what a block is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def prox_group_lasso(block_norms: Array, step: float) -> Array:
    """argmin over a of 1/2 ||a - b||^2 + step * sum(a): soft threshold.

    Examples
    --------
    >>> prox_group_lasso(np.array([3.0, 0.5]), 1.0).tolist()
    [2.0, 0.0]
    """
    return np.maximum(block_norms - step, 0.0)


def prox_squared_l2(block_norms: Array, step: float) -> Array:
    """argmin over a of 1/2 ||a - b||^2 + step/2 * sum(a^2): uniform shrinkage.

    Examples
    --------
    >>> prox_squared_l2(np.array([3.0, 1.0]), 1.0).tolist()
    [1.5, 0.5]
    """
    return block_norms / (1.0 + step)


def prox_sparse_mkl(block_norms: Array, step: float) -> Array:
    """argmin over a of 1/2 ||a - b||^2 + step/2 * (sum a)^2: a data-driven threshold.

    The threshold is step * (sum of the result), found by sorting the norms.

    Examples
    --------
    >>> prox_sparse_mkl(np.array([3.0, 1.0]), 1.0).tolist()
    [1.5, 0.0]
    """
    falling = np.sort(block_norms)[::-1]
    counts = np.arange(1, len(falling) + 1)
    thresholds = step / (1.0 + counts * step) * np.cumsum(falling)
    kept = int(np.sum(falling > thresholds))
    if kept == 0:
        return np.zeros_like(block_norms)
    threshold: float = thresholds[kept - 1]
    return np.maximum(block_norms - threshold, 0.0)
