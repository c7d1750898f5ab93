"""Proximity operators as maps on the vector of block norms.

prox(b) = argmin over a >= 0 of 1/2 ||a - b||^2 + step * omega(a). The blocks
themselves are rescaled by a_f / b_f, so nothing here knows what a block is.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from manykernels.base.arrays import Array
from manykernels.device import DeviceArray, namespace
from manykernels.hot.prox import LEAST_PROX_STEP, MAX_PROX_STEPS
from manykernels.norms.group import p_norm


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


def prox_elastic_net(block_norms: Array, step: float, share: float) -> Array:
    """argmin of 1/2 ||a - b||^2 + step * (share/2 ||a||^2 + (1 - share)/2 (sum a)^2).

    The square of the l2 norm joins the distance, which leaves sparse MKL.

    Examples
    --------
    >>> prox_elastic_net(np.array([3.0, 1.0]), 1.0, 1.0).tolist()
    [1.5, 0.5]
    """
    shrink = 1.0 + step * share
    return prox_sparse_mkl(block_norms / shrink, step * (1.0 - share) / shrink)


def prox_power(block_norms: Array, step: float, q: float) -> Array:
    """argmin over a of 1/2 ||a - b||^2 + step * sum(a^q), q >= 1.

    Newton's method on a + step q a^(q-1) = b, for each block. The equation is written
    in a where q > 2 and in u = a^(q-1) otherwise: it is convex there, so that steps
    from the right never pass the root.

    Examples
    --------
    >>> prox_power(np.array([3.0, 1.0]), 0.5, 2.0).tolist()
    [1.5, 0.5]
    """
    if q == 1.0:
        return prox_group_lasso(block_norms, step)
    slope = step * q
    if slope < LEAST_PROX_STEP:
        return block_norms.copy()
    power = max(q - 1.0, 1.0 / (q - 1.0))
    # x + slope x^power = b for q > 2, else x^power + slope x = b with a = x^power
    steep, flat = (slope, 1.0) if q > 2.0 else (1.0, slope)
    x = np.minimum(block_norms / flat, (block_norms / steep) ** (1.0 / power))
    for _ in range(MAX_PROX_STEPS):
        excess = steep * x**power + flat * x - block_norms
        change = excess / (steep * power * x ** (power - 1.0) + flat)
        x = np.maximum(x - np.maximum(change, 0.0), 0.0)
        if np.all(change <= 1e-15 * x):
            break
    return np.asarray(x if q > 2.0 else np.minimum(x**power, block_norms))


def prox_squared_p(block_norms: Array, step: float, p: float) -> Array:
    """argmin over a of 1/2 ||a - b||^2 + step/2 * ||a||_p^2, 1 <= p <= 2.

    a + m a^(p-1) = b with the one number m = step * ||a||_p^(2-p), which is the root of
    a falling function.

    Examples
    --------
    >>> prox_squared_p(np.array([3.0, 1.0]), 1.0, 2.0).tolist()
    [1.5, 0.5]
    >>> prox_squared_p(np.array([3.0, 1.0]), 1.0, 1.0).tolist()
    [1.5, 0.0]
    """
    if p == 1.0:
        return prox_sparse_mkl(block_norms, step)
    if p == 2.0:
        return prox_squared_l2(block_norms, step)
    largest = float(np.max(block_norms, initial=0.0))
    if largest == 0.0 or step < LEAST_PROX_STEP:
        return block_norms.copy()
    # The operator commutes with scaling, and tiny norms to a power would vanish.
    ratios = block_norms / largest
    most = step * p_norm(ratios, p) ** (2.0 - p)

    def shrunk(multiplier: float) -> Array:
        return prox_power(ratios, multiplier / p, p)

    def excess(multiplier: float) -> float:
        return float(step * p_norm(shrunk(multiplier), p) ** (2.0 - p) - multiplier)

    root = brentq(excess, 0.0, most, xtol=1e-15 * most, rtol=1e-14, disp=False)
    return largest * shrunk(float(root))


def prox_joint(block_norms: Array, step: float) -> Array:
    """argmin over a of 1/2 ||a - b||^2 + step * ||a||_2: all live or die together.

    Examples
    --------
    >>> prox_joint(np.array([3.0, 4.0]), 2.5).tolist()
    [1.5, 2.0]
    """
    length = float(np.linalg.norm(block_norms))
    if length <= step:
        return np.zeros_like(block_norms)
    return block_norms * (1.0 - step / length)


def prox_entries(block: Array, step: float) -> Array:
    """argmin over a of 1/2 ||a - b||^2 + step * ||a||_1, entry by entry.

    Examples
    --------
    >>> prox_entries(np.array([-3.0, 0.5]), 1.0).tolist()
    [-2.0, 0.0]
    """
    return np.asarray(np.sign(block) * np.maximum(np.abs(block) - step, 0.0))


def project_simplex(points: DeviceArray) -> DeviceArray:
    """The nearest probabilities to every row: argmin over the simplex of ||a - b||.

    Points may be an array of any library of the array API standard.

    Examples
    --------
    >>> project_simplex(np.array([[0.5, 0.0], [3.0, 0.0]])).tolist()
    [[0.75, 0.25], [1.0, 0.0]]
    """
    return namespace(points).clip(points - simplex_level(points), 0.0, None)


def simplex_level(points: DeviceArray) -> DeviceArray:
    """Return the number that the projection subtracts from each row, (rows, 1).

    The largest of the levels at which the first k values alone would sum to one.
    """
    xp = namespace(points)
    totals = xp.cumulative_sum(-xp.sort(-points, axis=1), axis=1)
    counts = xp.cumulative_sum(xp.ones_like(points[:1, :]), axis=1)
    return xp.max((totals - 1.0) / counts, axis=1, keepdims=True)
