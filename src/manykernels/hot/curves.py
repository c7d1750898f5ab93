"""Kernel values from inner products, in one pass over a tile instead of six."""

from __future__ import annotations

import numpy as np

from manykernels.hot.jit import njit

# Rounding may be done in other places, but infinities and the order of sums stay.
SAFE_MATH = {"contract", "nsz"}
# exp(x) = 2^n exp(r), |r| <= log(2) / 2; log(2) in two parts, of which n times the
# first is exact. Terms to the sixth power leave 1e-7: two in the last digit.
INVERSE_LOG2 = np.float32(1.44269504)
LOG2_HIGH = np.float32(0.693359375)
LOG2_LOW = np.float32(-2.12194440e-4)
EXP_SERIES = tuple(
    np.float32(1.0 / x) for x in (720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0)
)
LEAST_POWER = np.float32(-127.0)  # power of two whose float has no bits: zero


@njit(cache=True, nogil=True, fastmath=SAFE_MATH)
def _exponential(row, powers):
    """row = exp(min(row, 0)) in place; `powers` is for the powers of two."""
    for j in range(len(row)):
        x = min(row[j], np.float32(0.0))
        n = max(np.floor(x * INVERSE_LOG2 + np.float32(0.5)), LEAST_POWER)
        r = x - n * LOG2_HIGH - n * LOG2_LOW
        total = EXP_SERIES[0]
        for term in EXP_SERIES[1:]:
            total = total * r + term
        powers[j] = (np.int32(n) + np.int32(127)) << np.int32(23)
        row[j] = total
    scale = powers.view(np.float32)
    for j in range(len(row)):
        row[j] = row[j] * scale[j] if powers[j] > 0 else np.float32(0.0)


@njit(cache=True, nogil=True, fastmath=SAFE_MATH)
def _power(row, base, degree):
    """row = row ** degree in place, from the degree's highest bit to its lowest."""
    base[:] = row
    bit = 1
    while 2 * bit <= degree:
        bit *= 2
    while bit > 1:
        bit //= 2
        for j in range(len(row)):
            row[j] *= row[j]
        if degree & bit:
            for j in range(len(row)):
                row[j] *= base[j]


@njit(cache=True, nogil=True, fastmath=SAFE_MATH)
def add_values(dot, slope, left, right, degree, left_scale, right_scale, out):
    """out[i, j] += left_scale_i right_scale_j f(slope dot_ij + left_i + right_j).

    f is a power, or for degree 0 the exponential of a number that is at most zero. All
    arrays are float32. A row's intermediate results stay in the first-level cache.
    """
    n_columns = dot.shape[1]
    row, base = np.empty(n_columns, np.float32), np.empty(n_columns, np.float32)
    powers = np.empty(n_columns, np.int32)
    for i in range(dot.shape[0]):
        for j in range(n_columns):
            row[j] = slope * dot[i, j] + (left[i] + right[j])
        if degree == 0:
            _exponential(row, powers)
        elif degree > 1:
            _power(row, base, degree)
        target = out[i]
        factor = left_scale[i]
        for j in range(n_columns):
            target[j] += factor * right_scale[j] * row[j]
