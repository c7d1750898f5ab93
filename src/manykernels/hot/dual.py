"""Dual ascent on one combined kernel: the multiclass hinge loss, and residual losses.

For the hinge loss:

maximize sum_i a_{i,y_i} - 1/2 sum_ij K_ij <a_i, a_j>
subject to a_ik <= bound_i * 1[k = y_i], sum_k a_ik = 0.
"""

from __future__ import annotations

import numpy as np

from manykernels.hot.jit import njit

NEGLIGIBLE_STEP = 1e-13  # relative to a row's bound: less is rounding, not progress
NEGLIGIBLE_CHANGE = 1e-15  # of the largest coefficient: the same for residual losses
GAIN_SHARE = 0.5  # of the last sweep's mean gain of a row: who gains less waits
COLUMNS_PER_PASS = 2048  # of all outputs at a time: these stay in cache


@njit(cache=True, fastmath=True)
def _water_level(excess, total):
    """The level b with sum_k min(0, excess_k - b) = -total.

    From above, by the mean over the entries below the last level (Michelot 1986): the
    set only shrinks, and few entries are below the first level.
    """
    level = excess[0]
    for k in range(1, len(excess)):
        level = min(level, excess[k])
    level += total
    count = len(excess) + 1
    while True:
        before, count, below = count, 0, total
        for k in range(len(excess)):
            if excess[k] < level:
                below += excess[k]
                count += 1
        # Rounding may lose the total, and so every entry, or bring an entry back.
        if count == 0 or count >= before:
            return level
        level = below / count


@njit(cache=True, fastmath=True)
def _same_level(excess, coef, own, total):
    """Whether the entries below the level are those off their bound now; the level.

    Most rows keep their set from sweep to sweep, and to confirm one takes less than to
    find one.
    """
    count, below = 0, total
    for k in range(len(excess)):
        if coef[k] < (total if k == own else 0.0):
            below += excess[k]
            count += 1
    level = below / max(count, 1)
    same = count > 0
    for k in range(len(excess)):
        off = coef[k] < (total if k == own else 0.0)
        same &= (excess[k] < level) == off
    return same, level


@njit(cache=True, fastmath=True, nogil=True)
def dual_sweeps(gram, target, bound, coef, scores, drift, orders, goal):
    """Solve each row's own problem exactly, row by row, until the gap is small.

    coef (rows, outputs) changes in place. scores (outputs, rows) = (gram @ coef).T
    at the start; drift, zero at the start, takes their change. The drift stays small,
    so it may be float32, which halves the memory traffic, while the scores stay
    float64. One sweep per row of `orders`; stops early once the relative duality gap
    of this problem is at most `goal`. Returns (sweeps, updates).

    A step costs as much as a row of the kernel is long, whatever it gains, and most of
    the gain is in few rows. Those that would gain little wait until gains are smaller.
    """
    n_outputs, n_rows = scores.shape
    excess = np.empty(n_outputs)
    margins = np.empty(n_rows)
    starts = scores.T.copy()  # a row's own, side by side
    updates = 0
    least = 0.0  # gain that is worth a step
    for sweep in range(len(orders)):
        gains = 0.0
        for i in orders[sweep]:
            curvature = gram[i, i]
            own = target[i]
            if curvature <= 0.0:
                # The row is invisible to the kernel: no score can change, so the
                # linear term alone decides.
                coef[i] = 0.0
                coef[i, own] = bound[i]
                coef[i, 1 if own == 0 else 0] = -bound[i]
                continue
            # The row's optimum projects coef - gradient / curvature on its domain.
            inverse = 1.0 / curvature
            start, mine = starts[i], coef[i]
            for k in range(n_outputs):
                excess[k] = mine[k] - (start[k] + drift[k, i] + 1.0) * inverse
            excess[own] += inverse - bound[i]
            same, level = _same_level(excess, mine, own, bound[i])
            if not same:
                level = _water_level(excess, bound[i])
            gain = 0.0
            for k in range(n_outputs):
                upper = bound[i] if k == own else 0.0
                excess[k] = upper + min(0.0, excess[k] - level)  # the optimum
                gain += curvature * (excess[k] - mine[k]) ** 2
            gains += gain
            if gain < least:
                continue
            negligible = NEGLIGIBLE_STEP * min(bound[i], inverse)
            for k in range(n_outputs):
                change = excess[k] - mine[k]
                if abs(change) <= negligible:
                    continue
                mine[k] = excess[k]
                updates += 1
                row = gram[i]
                moving = drift[k]
                step = drift.dtype.type(change)
                for j in range(n_rows):
                    moving[j] += step * row[j]
        least = GAIN_SHARE * gains / n_rows
        linear, quadratic = frozen_values(target, coef, scores, drift, margins)
        _, primal = best_multiple(margins, bound, quadratic, 1e-3 * goal)
        if primal - linear + 0.5 * quadratic <= goal * primal:
            return sweep + 1, updates
    return len(orders), updates


@njit(cache=True, fastmath=True)
def _violation(own, bound, coef, scores):
    """How far a row is from optimal: zero where no coefficient wants to move.

    The slopes s_k - 1[k = y] of coefficients below their bound are the largest ones.
    """
    highest, lowest = -1e300, 1e300  # fastmath knows no infinity
    for k in range(len(coef)):
        slope = scores[k] - (1.0 if k == own else 0.0)
        highest = max(highest, slope)
        if coef[k] < (bound if k == own else 0.0):
            lowest = min(lowest, slope)
    return highest - lowest if lowest < 1e300 else 0.0


@njit(cache=True, fastmath=True, nogil=True)
def violations(target, bound, coef, scores):
    """Of every row, for scores and coef of shape (rows, outputs)."""
    found = np.empty(len(target))
    for i in range(len(target)):
        found[i] = _violation(target[i], bound[i], coef[i], scores[i])
    return found


@njit(cache=True, fastmath=True, nogil=True)
def block_steps(gram, target, bound, coef, scores, floor, sweeps):
    """Exact steps of the rows whose violation is at least `floor`, one after the other.

    coef and scores, both (rows, outputs), change in place; returns the steps.
    """
    n_rows, n_outputs = coef.shape
    excess = np.empty(n_outputs)
    updates = 0
    for _ in range(sweeps):
        for i in range(n_rows):
            own, curvature = target[i], gram[i, i]
            if _violation(own, bound[i], coef[i], scores[i]) < floor:
                continue
            if curvature <= 0.0:  # invisible to the kernel: see `dual_sweeps`
                coef[i] = 0.0
                coef[i, own] = bound[i]
                coef[i, 1 if own == 0 else 0] = -bound[i]
                continue
            inverse = 1.0 / curvature
            for k in range(n_outputs):
                excess[k] = coef[i, k] - (scores[i, k] + 1.0) * inverse
            excess[own] += inverse - bound[i]
            level = _water_level(excess, bound[i])
            updates += 1
            for k in range(n_outputs):
                upper = bound[i] if k == own else 0.0
                value = upper + min(0.0, excess[k] - level)
                change = value - coef[i, k]
                if change != 0.0:
                    coef[i, k] = value
                    for j in range(n_rows):
                        scores[j, k] += change * gram[i, j]
    return updates


@njit(cache=True, fastmath=True, nogil=True)
def frozen_values(target, coef, scores, drift, margins):
    """Sum of a_{i,y_i} and the quadratic form; the margins go to the last argument.

    The current scores are scores + drift. The dual value is linear - 1/2 quadratic,
    and `best_multiple` has the primal one.
    """
    n_outputs, n_rows = scores.shape
    linear = 0.0
    quadratic = 0.0
    for i in range(n_rows):
        own = target[i]
        linear += coef[i, own]
        strongest = -1e300  # wrong output; fastmath knows no infinity
        for k in range(n_outputs):
            score = scores[k, i] + drift[k, i]
            quadratic += coef[i, k] * score
            if k != own:
                strongest = max(strongest, score)
        margins[i] = scores[own, i] + drift[own, i] - strongest
    return linear, quadratic


@njit(cache=True, fastmath=True, nogil=True)
def best_multiple(margins, bound, quadratic, precision):
    """min over t in [0, 2] of t^2 / 2 quadratic + sum_i bound_i [1 - t margin_i]_+.

    Returns the best t and that value. A slightly longer model costs a little norm and
    meets margins that dual ascent misses by little and for long: the primal value of
    t * model is close to the optimum many sweeps before that of the model. The best t
    is found to the `precision`, or with 0.0 to the last bit.
    """
    low, high = 0.0, 2.0
    for _ in range(53):  # halvings, to the last bit
        if high - low <= precision:
            break
        multiple = 0.5 * (low + high)
        slope = multiple * quadratic
        for i in range(len(margins)):
            if multiple * margins[i] < 1.0:
                slope -= bound[i] * margins[i]
        if slope > 0.0:
            high = multiple
        else:
            low = multiple
    multiple = 0.5 * (low + high)
    loss_scaled = 0.0
    loss = 0.0
    for i in range(len(margins)):
        loss_scaled += bound[i] * max(0.0, 1.0 - multiple * margins[i])
        loss += bound[i] * max(0.0, 1.0 - margins[i])
    value = 0.5 * multiple * multiple * quadratic + loss_scaled
    as_it_is = 0.5 * quadratic + loss
    return (multiple, value) if value < as_it_is else (1.0, as_it_is)


@njit(cache=True, nogil=True)
def gather_square(values, rows, columns, out, start, stop):
    """out[a, b] = values[rows[a], columns[b]] for a in start..stop."""
    for a in range(start, stop):
        source = values[rows[a]]
        target = out[a]
        for b in range(len(columns)):
            target[b] = source[columns[b]]


@njit(cache=True, fastmath=True, nogil=True)
def add_products(values, places, coef, out, start, stop):
    """out[k, j] += sum_a coef[a, k] values[places[a], j] for j in start..stop.

    In float64.

    Most coefficients are zero: that is less work than a product of dense matrices.
    """
    for left in range(start, stop, COLUMNS_PER_PASS):
        right = min(left + COLUMNS_PER_PASS, stop)
        for a in range(len(coef)):
            row = values[places[a], left:right]
            for k in range(coef.shape[1]):
                c = coef[a, k]
                if c != 0.0:
                    target = out[k, left:right]
                    for j in range(right - left):
                        target[j] += c * row[j]


@njit(cache=True, nogil=True)
def shuffled(draws):
    """A permutation of the columns' numbers for each row of random 32-bit numbers."""
    orders = np.empty(draws.shape, np.int64)
    for row in range(len(draws)):
        order = orders[row]
        for j in range(len(order)):
            # Place j goes to a random place up to j, and what was there to the end.
            place = np.int64(
                (np.uint64(draws[row, j]) * np.uint64(j + 1)) >> np.uint64(32)
            )
            order[j] = order[place]
            order[place] = j
    return orders


# --- losses of the residual -------------------------------------------------------


@njit(cache=True, fastmath=True, nogil=True)
def residual_sweeps(gram, residual, coef, tube, soft, limit, floor, orders, goal):
    """Solve each coefficient's own problem exactly, one by one, until all are solved.

    For every row i and output k the dual is
    a y - tube |a| - soft_i a^2 / 2 - (quadratic form) / 2 with floor_i <= a <= limit_i
    (floor_i <= 0): in closed form a step along the residual, a soft threshold and a
    clip. coef (outputs, rows) and residual (outputs, rows), y minus the scores, change
    in place. Stops early once no coefficient moves by more than `goal` of the largest.
    Returns the number of changes.
    """
    n_outputs, n_rows = coef.shape
    updates = 0
    for sweep in range(len(orders)):
        largest = 0.0
        farthest = 0.0
        for i in orders[sweep]:
            row = gram[i]
            curvature = row[i] + soft[i]
            for k in range(n_outputs):
                pull = residual[k, i] - soft[i] * coef[k, i]
                value = _row_optimum(
                    coef[k, i], pull, curvature, tube, limit[i], floor[i]
                )
                change = value - coef[k, i]
                largest = max(largest, abs(value))
                if abs(change) <= NEGLIGIBLE_CHANGE * largest:
                    continue
                farthest = max(farthest, abs(change))
                coef[k, i] = value
                updates += 1
                moving = residual[k]
                for j in range(n_rows):
                    moving[j] -= change * row[j]
        if farthest <= goal * largest:
            break
    return updates


@njit(cache=True, fastmath=True)
def _row_optimum(coef, pull, curvature, tube, limit, floor):
    """argmax over [floor, limit]; `pull` is the slope at coef without the tube."""
    if curvature <= 0.0:
        # Invisible to the kernel: the linear term alone decides.
        if abs(pull) <= tube:
            return 0.0
        return limit if pull > 0.0 else floor
    free = curvature * coef + pull
    if free > tube:
        return min((free - tube) / curvature, limit)
    if free < -tube:
        return max((free + tube) / curvature, floor)
    return 0.0
