"""Proximal steps on block norms, for loops that take one after every sample.

The maps are those of :mod:`manykernels.norms.proximity`, with which tests compare them.
Here they work in place on norms that a compiled loop holds. Chains and trees share
them.

This file is apart, because two copies of it would drift apart. Numba's cache on disk
looks at the file of the outermost loop alone: empty it after a change here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.jit import njit

# The one table of regularizer terms: compiled loops know a term by its place here.
TERM_KINDS = (
    "entries",
    "group_lasso",
    "sparse_mkl",
    "squared_l2",
    "power",
    "joint",
    "squared_p",
    "elastic_net",
)
ENTRIES, GROUP_LASSO, SPARSE_MKL, SQUARED_L2, POWER, JOINT, SQUARED_P, ELASTIC_NET = (
    range(len(TERM_KINDS))
)

LEAST_PROX_STEP = (
    1e-200  # steps below this change nothing, and dividing by them overflows
)
MAX_PROX_STEPS = 100  # never needed: a step at least divides the excess by e


class TermCodes(NamedTuple):
    """Regularizer terms as arrays; see `manykernels.norms.terms.Term`."""

    kinds: NDArray[np.int64]
    weights: NDArray[np.float64]
    exponents: NDArray[np.float64]
    members: NDArray[np.bool_]  # (terms, blocks)


@njit(cache=True, nogil=True, error_model="numpy")
def prox_step(norms, terms, j, step):
    """Replace the norms by the proximal step of term j, in place."""
    kind, inside = terms.kinds[j], terms.members[j]
    exponent = terms.exponents[j]
    step = step * terms.weights[j]
    if kind == GROUP_LASSO:
        for f in range(len(norms)):
            if inside[f]:
                norms[f] = max(norms[f] - step, 0.0)
    elif kind == SPARSE_MKL:
        _sparse_mkl(norms, inside, step)
    elif kind == SQUARED_L2:
        for f in range(len(norms)):
            if inside[f]:
                norms[f] /= 1.0 + step
    elif kind == POWER:
        for f in range(len(norms)):
            if inside[f]:
                norms[f] = _power(norms[f], step, exponent)
    elif kind == JOINT:
        total = 0.0
        for f in range(len(norms)):
            if inside[f]:
                total += norms[f] * norms[f]
        length = np.sqrt(total)
        keep = 1.0 - step / length if length > step else 0.0
        for f in range(len(norms)):
            if inside[f]:
                norms[f] *= keep
    elif kind == SQUARED_P:
        _squared_p(norms, inside, step, exponent)
    elif kind == ELASTIC_NET:
        shrink = 1.0 + step * exponent
        for f in range(len(norms)):
            if inside[f]:
                norms[f] /= shrink
        _sparse_mkl(norms, inside, step * (1.0 - exponent) / shrink)


@njit(cache=True, nogil=True, error_model="numpy")
def prox_steps(norms, terms, step):
    """The proximal steps of all terms, one after the other, in place."""
    for j in range(len(terms.kinds)):
        prox_step(norms, terms, j, step)


@njit(cache=True, nogil=True, error_model="numpy")
def _sparse_mkl(norms, inside, step):
    """Threshold step * (sum of the result): drop the smallest until it is consistent.

    Sorting is not needed: blocks below the current threshold are out for good, since
    the threshold of the rest is higher still.
    """
    total, count = 0.0, 0
    for f in range(len(norms)):
        if inside[f]:
            total += norms[f]
            count += 1
    threshold = 0.0
    while True:
        fresh = step / (1.0 + count * step) * total
        total, left = 0.0, 0
        for f in range(len(norms)):
            if inside[f] and norms[f] > fresh:
                total += norms[f]
                left += 1
        threshold = fresh
        if left == count or left == 0:
            break
        count = left
    for f in range(len(norms)):
        if inside[f]:
            norms[f] = max(norms[f] - threshold, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _power(norm, step, q):
    """The a with a + step q a^(q-1) = norm; see `prox_power`."""
    if norm <= 0.0 or step < LEAST_PROX_STEP:
        return norm
    if q == 1.0:
        return max(norm - step, 0.0)
    slope = step * q
    power = max(q - 1.0, 1.0 / (q - 1.0))
    steep, flat = (slope, 1.0) if q > 2.0 else (1.0, slope)
    x = min(norm / flat, (norm / steep) ** (1.0 / power))
    for _ in range(MAX_PROX_STEPS):
        high = steep * x ** (power - 1.0)
        change = (high * x + flat * x - norm) / (power * high + flat)
        if change <= 1e-15 * x:
            break
        x -= change
    return x if q > 2.0 else min(x**power, norm)


@njit(cache=True, nogil=True, error_model="numpy")
def _squared_p(norms, inside, step, p):
    """Newton's method for m = step ||a(m)||_p^(2-p), kept inside a bracket."""
    total = 0.0
    for f in range(len(norms)):
        if inside[f]:
            total += norms[f] ** p
    low, high = 0.0, step * total ** ((2.0 - p) / p)
    if high < LEAST_PROX_STEP:
        return
    m = high
    for _ in range(MAX_PROX_STEPS):
        total, slope = 0.0, 0.0
        for f in range(len(norms)):
            if inside[f] and norms[f] > 0.0:
                a = _power(norms[f], m / p, p)
                if a > 0.0:
                    push = a ** (p - 1.0)
                    total += push * a
                    slope -= push * push / (1.0 + m * (p - 1.0) * push / a)
        if total == 0.0:
            high = m
            m = 0.5 * (low + high)
            continue
        size = total ** (1.0 / p)
        target = step * size ** (2.0 - p)
        excess = target - m
        if abs(excess) <= 1e-14 * m:
            break
        if excess > 0.0:
            low = m
        else:
            high = m
        fall = step * (2.0 - p) * size ** (2.0 - 2.0 * p) * slope - 1.0
        m -= excess / fall
        if not low < m < high:
            m = 0.5 * (low + high)
    for f in range(len(norms)):
        if inside[f]:
            norms[f] = _power(norms[f], m / p, p)
