"""Steps of SMO-MKL: one dual coefficient at a time, all kernels at once.

maximize sum_i a_i - 1/2 ||n||_q^2 with n_f^2 = 2 sum_ij a_i a_j y_i y_j K_f(i, j)
subject to 0 <= a_i <= bound_i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.jit import njit

NEGLIGIBLE_SMO_STEP = 1e-13  # relative to a row's bound: smaller ones are rounding


class SMOState(NamedTuple):
    """The coefficients and what every step needs of them."""

    alpha: NDArray[np.float64]  # (rows,)
    partial: NDArray[np.float64]  # (blocks, rows): K_f (alpha * signs)
    squares: NDArray[np.float64]  # (blocks,): n_f^2


@njit(cache=True)
def block_weights(squares, q, weights):
    """weights_f = (n_f / ||n||_q)^(q-2); equal ones where all blocks are zero."""
    largest = 0.0
    for f in range(len(squares)):
        largest = max(largest, squares[f])
    if largest == 0.0:
        weights[:] = 1.0
        return
    total = 0.0
    for f in range(len(squares)):
        total += (max(squares[f], 0.0) / largest) ** (0.5 * q)
    common = total ** ((2.0 - q) / q)
    for f in range(len(squares)):
        ratio = max(squares[f], 0.0) / largest
        weights[f] = common * ratio ** (0.5 * q - 1.0)


@njit(cache=True)
def _slope(step, squares, leads, own, q, moved, weights):
    """Derivative of the dual value when one coefficient grows by `step`."""
    for f in range(len(squares)):
        moved[f] = squares[f] + 4.0 * step * leads[f] + 2.0 * step * step * own[f]
    block_weights(moved, q, weights)
    slope = 1.0
    for f in range(len(squares)):
        slope -= weights[f] * (2.0 * leads[f] + 2.0 * step * own[f])
    return slope


@njit(cache=True)
def _best_step(low, high, squares, leads, own, q, moved, weights):
    """The step in [low, high] where the falling slope is zero: a bracketed secant."""
    at_low = _slope(low, squares, leads, own, q, moved, weights)
    if at_low <= 0.0:
        return low
    at_high = _slope(high, squares, leads, own, q, moved, weights)
    if at_high >= 0.0:
        return high
    precision = NEGLIGIBLE_SMO_STEP * max(abs(low), abs(high))
    last = 0
    for _ in range(60):
        step = low + (high - low) * at_low / (at_low - at_high)
        if high - low <= precision or step <= low or step >= high:
            break
        value = _slope(step, squares, leads, own, q, moved, weights)
        if value > 0.0:
            low, at_low = step, value
            if last > 0:
                at_high *= 0.5
            last = 1
        elif value < 0.0:
            high, at_high = step, value
            if last < 0:
                at_low *= 0.5
            last = -1
        else:
            return step
    return low + (high - low) * at_low / (at_low - at_high)


@njit(cache=True, fastmath=True)
def _choose(alpha, partial, signs, bound, diagonals, weights, gradient):
    """The row whose step promises most to second order; -1 if none can gain."""
    n_blocks, n_rows = partial.shape
    gradient[:] = 0.0
    for f in range(n_blocks):
        weight = weights[f]
        row = partial[f]
        for i in range(n_rows):
            gradient[i] += weight * row[i]
    chosen, promised = -1, 0.0
    for i in range(n_rows):
        slope = 1.0 - 2.0 * signs[i] * gradient[i]
        room = bound[i] - alpha[i] if slope > 0.0 else alpha[i]
        if room <= NEGLIGIBLE_SMO_STEP * bound[i]:
            continue
        curvature = 0.0
        for f in range(n_blocks):
            curvature += 2.0 * weights[f] * diagonals[i, f]
        size = abs(slope)
        step = room if size >= curvature * room else size / curvature
        promise = step * (size - 0.5 * curvature * step)
        if promise > promised:
            chosen, promised = i, promise
    return chosen


@njit(cache=True, nogil=True)
def smo_steps(rows, slots, state, signs, bound, diagonals, q, n_steps):
    """Take `n_steps` steps, or fewer where no coefficient can gain.

    Returns (steps, row). A row >= 0 means that its kernel row is needed and its slot is
    empty: fill it and call again; -1 that all steps are done, -2 that none was left.
    """
    alpha, partial, squares = state
    n_blocks, n_rows = partial.shape
    weights = np.empty(n_blocks)
    moved = np.empty(n_blocks)
    leads = np.empty(n_blocks)
    gradient = np.empty(n_rows)
    for done in range(n_steps):
        block_weights(squares, q, weights)
        i = _choose(alpha, partial, signs, bound, diagonals, weights, gradient)
        if i < 0:
            return done, -2
        if slots[i] < 0:
            return done, i
        for f in range(n_blocks):
            leads[f] = signs[i] * partial[f, i]
        own = diagonals[i]
        step = _best_step(
            -alpha[i], bound[i] - alpha[i], squares, leads, own, q, moved, weights
        )
        row = rows[slots[i]]
        alpha[i] += step
        for f in range(n_blocks):
            squares[f] += 4.0 * step * leads[f] + 2.0 * step * step * own[f]
            squares[f] = max(squares[f], 0.0)
            change = step * signs[i]
            for j in range(n_rows):
                partial[f, j] += change * row[f, j]
    return n_steps, -1
