"""Chains: best labels, marginals, and one pass of the online proximal method.

A chain of L positions with M labels scores sum_t unary[t, y_t] plus
sum_t transitions[y_{t-1}, y_t]. Inner loops run over the label that is contiguous in
memory and carry no index, so that the compiler can use wide registers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Sums of exponentials below this are computed again without their common factor.
UNDERFLOW = 1e-200
# exp of this is still a number, with room for a sum.
LARGEST_EXPONENT = 600.0
# A block's scale below this is folded into its arrays, long before float32 overflows.
SMALLEST_SCALE = 1e-5
NEWTON_STEPS = 100

ENTRIES, GROUP_LASSO, SPARSE_MKL, SQUARED_L2 = 0, 1, 2, 3
POWER, JOINT, SQUARED_P, ELASTIC_NET = 4, 5, 6, 7


# --- decoding -----------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def best_path(unary, transitions, length, best, labels):
    """labels = argmax over y of the score; returns the score.

    best[t, k] is the score of the best beginning that ends with label k at t. Only
    values go forward; the label before is found again on the way back, for one label
    per position instead of all.
    """
    n_labels = unary.shape[1]
    for k in range(n_labels):
        best[0, k] = unary[0, k]
    for t in range(1, length):
        for k in range(n_labels):
            best[t, k] = best[t - 1, 0] + transitions[0, k]
        j = 1
        while j + 3 < n_labels:
            a, b = best[t - 1, j], best[t - 1, j + 1]
            c, d = best[t - 1, j + 2], best[t - 1, j + 3]
            for k in range(n_labels):
                va, vb = a + transitions[j, k], b + transitions[j + 1, k]
                vc, vd = c + transitions[j + 2, k], d + transitions[j + 3, k]
                vab = va if va > vb else vb
                vcd = vc if vc > vd else vd
                high = vab if vab > vcd else vcd
                old = best[t, k]
                best[t, k] = high if high > old else old
            j += 4
        while j < n_labels:
            a = best[t - 1, j]
            for k in range(n_labels):
                va, old = a + transitions[j, k], best[t, k]
                best[t, k] = va if va > old else old
            j += 1
        for k in range(n_labels):
            best[t, k] += unary[t, k]
    last = length - 1
    top = 0
    for k in range(1, n_labels):
        if best[last, k] > best[last, top]:
            top = k
    labels[last] = top
    for t in range(last, 0, -1):
        k = labels[t]
        top = 0
        high = best[t - 1, 0] + transitions[0, k]
        for j in range(1, n_labels):
            value = best[t - 1, j] + transitions[j, k]
            if value > high:
                high = value
                top = j
        labels[t - 1] = top
    return best[last, labels[last]]


@njit(cache=True, nogil=True, error_model="numpy")
def best_paths(unary, transitions, starts, labels, scores):
    """Decode many chains; chain n has the positions starts[n]:starts[n + 1]."""
    longest = 0
    for n in range(len(starts) - 1):
        longest = max(longest, starts[n + 1] - starts[n])
    best = np.empty((longest, unary.shape[1]), unary.dtype)
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        scores[n] = best_path(unary[a:b], transitions, b - a, best, labels[a:b])


@njit(cache=True, nogil=True, error_model="numpy")
def path_score(unary, transitions, length, labels):
    """The score of given labels."""
    total = unary[0, labels[0]]
    for t in range(1, length):
        total += unary[t, labels[t]] + transitions[labels[t - 1], labels[t]]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def path_scores(unary, transitions, starts, labels, scores):
    """Scores of given labels of many chains."""
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        scores[n] = path_score(unary[a:b], transitions, b - a, labels[a:b])


# --- marginals ----------------------------------------------------------------


class SumSpace(NamedTuple):
    """Room for forward and backward sums of the longest chain."""

    forward: NDArray[np.float64]  # (length, labels), logarithms
    backward: NDArray[np.float64]
    factors: NDArray[np.float64]  # (labels, labels): exp(transitions - highest)
    turned: NDArray[np.float64]  # its transpose
    mixed: NDArray[np.float64]  # (labels,)
    shares: NDArray[np.float64]  # (labels,)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_space(length, n_labels):
    """Empty room for chains of at most this length."""
    return SumSpace(
        np.empty((length, n_labels)),
        np.empty((length, n_labels)),
        np.empty((n_labels, n_labels)),
        np.empty((n_labels, n_labels)),
        np.empty(n_labels),
        np.empty(n_labels),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _exponentials(transitions, space):
    """Fill the factors; returns the highest transition."""
    n_labels = len(transitions)
    highest = transitions[0, 0]
    for j in range(n_labels):
        for k in range(n_labels):
            highest = max(highest, transitions[j, k])
    if highest == -np.inf:
        highest = 0.0
    for j in range(n_labels):
        for k in range(n_labels):
            space.factors[j, k] = np.exp(transitions[j, k] - highest)
            space.turned[k, j] = space.factors[j, k]
    return highest


@njit(cache=True, nogil=True, error_model="numpy")
def _log_mix(logs, factors, highest, transitions, turned, mixed, shares, out):
    """out_k = log sum_j exp(logs_j + transitions_jk), or transposed if `turned`."""
    n_labels = len(logs)
    top = logs[0]
    for j in range(1, n_labels):
        top = max(top, logs[j])
    if top == -np.inf:
        for k in range(n_labels):
            out[k] = -np.inf
        return
    for j in range(n_labels):
        shares[j] = np.exp(logs[j] - top)
        mixed[j] = 0.0
    for j in range(n_labels):
        share = shares[j]
        for k in range(n_labels):
            mixed[k] += share * factors[j, k]
    for k in range(n_labels):
        if mixed[k] > UNDERFLOW:
            out[k] = np.log(mixed[k]) + top + highest
        else:
            out[k] = _exact_log_mix(logs, transitions, turned, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _exact_log_mix(logs, transitions, turned, k):
    """The same for one label, with its own largest term as the common factor."""
    n_labels = len(logs)
    top = -np.inf
    for j in range(n_labels):
        value = logs[j] + (transitions[k, j] if turned else transitions[j, k])
        top = max(top, value)
    if top == -np.inf:
        return top
    total = 0.0
    for j in range(n_labels):
        value = logs[j] + (transitions[k, j] if turned else transitions[j, k])
        total += np.exp(value - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum(unary, transitions, length, space):
    """log sum over y of exp(score); fills the forward sums."""
    return _forward(
        unary, transitions, length, space, _exponentials(transitions, space)
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(unary, transitions, length, space, highest):
    n_labels = unary.shape[1]
    forward = space.forward
    for k in range(n_labels):
        forward[0, k] = unary[0, k]
    for t in range(1, length):
        _log_mix(
            forward[t - 1],
            space.factors,
            highest,
            transitions,
            False,
            space.mixed,
            space.shares,
            forward[t],
        )
        for k in range(n_labels):
            forward[t, k] += unary[t, k]
    return _log_total(forward[length - 1])


@njit(cache=True, nogil=True, error_model="numpy")
def _log_total(logs):
    top = logs[0]
    for k in range(1, len(logs)):
        top = max(top, logs[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(len(logs)):
        total += np.exp(logs[k] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def chain_marginals(unary, transitions, length, space, chances, pairs):
    """Probabilities of labels, and expected counts of label pairs (added to `pairs`).

    Returns log sum over y of exp(score), of which both are the gradient.
    """
    n_labels = unary.shape[1]
    forward, backward = space.forward, space.backward
    highest = _exponentials(transitions, space)
    total = _forward(unary, transitions, length, space, highest)
    for k in range(n_labels):
        backward[length - 1, k] = 0.0
    ahead = np.empty(n_labels)
    for t in range(length - 1, 0, -1):
        for k in range(n_labels):
            ahead[k] = unary[t, k] + backward[t, k]
        _log_mix(
            ahead,
            space.turned,
            highest,
            transitions,
            True,
            space.mixed,
            space.shares,
            backward[t - 1],
        )
        _add_pairs(forward[t - 1], ahead, transitions, highest, total, space, pairs)
    for t in range(length):
        for k in range(n_labels):
            chances[t, k] = np.exp(forward[t, k] + backward[t, k] - total)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _add_pairs(before, ahead, transitions, highest, total, space, pairs):
    """pairs_jk += exp(before_j + transitions_jk + ahead_k - total).

    `space.shares` still holds exp(ahead - its largest value).
    """
    n_labels = len(before)
    first, second = before[0], ahead[0]
    for k in range(1, n_labels):
        first, second = max(first, before[k]), max(second, ahead[k])
    exponent = first + second + highest - total
    if exponent > LARGEST_EXPONENT:
        for j in range(n_labels):
            for k in range(n_labels):
                pairs[j, k] += np.exp(before[j] + transitions[j, k] + ahead[k] - total)
        return
    common = np.exp(exponent)
    for j in range(n_labels):
        lead = common * np.exp(before[j] - first)
        for k in range(n_labels):
            pairs[j, k] += lead * space.factors[j, k] * space.shares[k]


@njit(cache=True, nogil=True, error_model="numpy")
def many_marginals(unary, transitions, starts, chances, pairs, totals):
    """Marginals of many chains; `pairs` sums up over all of them."""
    longest = 0
    for n in range(len(starts) - 1):
        longest = max(longest, starts[n + 1] - starts[n])
    space = sum_space(longest, unary.shape[1])
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        totals[n] = chain_marginals(
            unary[a:b], transitions, b - a, space, chances[a:b], pairs
        )


@njit(cache=True, nogil=True, error_model="numpy")
def log_sums(unary, transitions, starts, totals):
    """Log sums of many chains."""
    longest = 0
    for n in range(len(starts) - 1):
        longest = max(longest, starts[n + 1] - starts[n])
    space = sum_space(longest, unary.shape[1])
    highest = _exponentials(transitions, space)
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        totals[n] = _forward(unary[a:b], transitions, b - a, space, highest)


# --- proximal steps on block norms ------------------------------------------------


class TermCodes(NamedTuple):
    """Regularizer terms as arrays; see `manykernels.norms.regularizers.Term`."""

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
    """The a with a + step q a^(q-1) = norm; see `manykernels.norms.prox_power`."""
    if norm <= 0.0 or step < UNDERFLOW:
        return norm
    if q == 1.0:
        return max(norm - step, 0.0)
    slope = step * q
    power = max(q - 1.0, 1.0 / (q - 1.0))
    steep, flat = (slope, 1.0) if q > 2.0 else (1.0, slope)
    x = min(norm / flat, (norm / steep) ** (1.0 / power))
    for _ in range(NEWTON_STEPS):
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
    if high < UNDERFLOW:
        return
    m = high
    for _ in range(NEWTON_STEPS):
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


# --- one pass of the online proximal method ------------------------------------------


class ChainView(NamedTuple):
    """Positions of all chains, and the values of every block at them.

    Kernel blocks are dense (first) or sparse; feature blocks are rows of one table of
    weights. `kernel_block` and `feature_block` say which block of the model it is.
    """

    starts: NDArray[np.int64]  # (chains + 1,)
    target: NDArray[np.int64]  # (positions,)
    stack: NDArray[np.floating]  # (positions, dense kernels, positions)
    sparse_start: NDArray[np.int64]  # (sparse kernels, positions + 1)
    sparse_index: NDArray[np.int32]
    sparse_value: NDArray[np.floating]
    feature_start: NDArray[np.int64]  # (feature blocks, positions + 1)
    feature_index: NDArray[np.int32]  # rows of the table
    feature_value: NDArray[np.float64]
    table_start: NDArray[np.int64]  # (feature blocks + 1,)
    kernel_block: NDArray[np.int64]
    feature_block: NDArray[np.int64]


class ChainState(NamedTuple):
    """w_f = scale_f v_f; all arrays speak of v. The last block is that of label pairs.

    `*_lag` and `*_sum` hold the average: the sum of all w_f so far is
    sum + clock_f v_f - lag, where clock_f sums up the scales since the last flush.
    """

    scores: NDArray[np.floating]  # (labels, kernels, positions)
    coef: NDArray[np.float64]  # (kernels, positions, labels)
    coef_lag: NDArray[np.float64]
    coef_sum: NDArray[np.float64]
    table: NDArray[np.float64]  # (feature rows, labels)
    table_lag: NDArray[np.float64]
    table_sum: NDArray[np.float64]
    pairs: NDArray[np.float64]  # (labels, labels)
    pairs_lag: NDArray[np.float64]
    pairs_sum: NDArray[np.float64]
    scale: NDArray[np.float64]  # (blocks + 1,)
    squares: NDArray[np.float64]  # ||v_f||^2
    clock: NDArray[np.float64]


class PassRule(NamedTuple):
    """What a pass does at each chain."""

    reg: float
    radius: float
    crf: bool
    averaged: bool
    uses_pairs: bool
    coarse: float  # smaller parts of a CRF gradient are rounded to 0 or this


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _add_kernel_scores(scores, f, scale, begin, length, unary):
    for k in range(scores.shape[0]):
        for t in range(length):
            unary[t, k] += scale * scores[k, f, begin + t]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _add_feature_scores(table, start, index, value, scale, begin, length, unary):
    for t in range(length):
        for z in range(start[begin + t], start[begin + t + 1]):
            row, factor = index[z], scale * value[z]
            for k in range(table.shape[1]):
                unary[t, k] += factor * table[row, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _sparse_value(start, index, value, i, j):
    """K(i, j) of a sparse kernel, by bisection."""
    low, high = start[i], start[i + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if index[middle] < j:
            low = middle + 1
        else:
            high = middle
    if low < end and index[low] == j:
        return np.float64(value[low])
    return 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _rescale(values, lag, total, clock, factor, averaged):
    """values *= factor, after the running average has been put into `total`."""
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            if averaged:
                total[i, k] += clock * values[i, k] - lag[i, k]
                lag[i, k] = 0.0
            values[i, k] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def _rescale_scores(scores, f, factor):
    for k in range(scores.shape[0]):
        for i in range(scores.shape[2]):
            scores[k, f, i] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def rescale_block(view, state, averaged, block, factor):
    """v_f *= factor, with the average flushed first; a factor of zero clears it."""
    clock = state.clock[block]
    for f in range(len(view.kernel_block)):
        if view.kernel_block[f] == block:
            at = f if averaged else 0
            _rescale(
                state.coef[f],
                state.coef_lag[at],
                state.coef_sum[at],
                clock,
                factor,
                averaged,
            )
            if factor != 1.0:
                _rescale_scores(state.scores, f, factor)
    for f in range(len(view.feature_block)):
        if view.feature_block[f] == block:
            a, b = view.table_start[f], view.table_start[f + 1]
            _rescale(
                state.table[a:b],
                state.table_lag[a:b],
                state.table_sum[a:b],
                clock,
                factor,
                averaged,
            )
    if block == len(state.scale) - 1:
        _rescale(state.pairs, state.pairs_lag, state.pairs_sum, clock, factor, averaged)
    state.clock[block] = 0.0
    state.squares[block] *= factor * factor


@njit(cache=True, nogil=True, error_model="numpy")
def _soften(values, lag, begin, end, threshold, clock, averaged):
    """The entry-wise proximal step on some rows; returns their squared norm."""
    total = 0.0
    for i in range(begin, end):
        for k in range(values.shape[1]):
            old = values[i, k]
            new = max(abs(old) - threshold, 0.0)
            if old < 0.0:
                new = -new
            values[i, k] = new
            if averaged:
                lag[i, k] += clock * (new - old)
            total += new * new
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _hinge_push(unary, transitions, target, begin, cost, length, best, labels, push):
    """push = true minus most violating labels; returns the loss."""
    n_labels = unary.shape[1]
    true = 0.0
    for t in range(length):
        own = target[begin + t]
        true += unary[t, own]
        if t > 0:
            true += transitions[target[begin + t - 1], own]
        for k in range(n_labels):
            unary[t, k] += cost[own, k]
    high = best_path(unary, transitions, length, best, labels)
    for t in range(length):
        push[t, target[begin + t]] += 1.0
        push[t, labels[t]] -= 1.0
    return high - true


@njit(cache=True, nogil=True, error_model="numpy")
def _crf_push(
    unary, transitions, target, begin, length, space, push, pairs, draws, coarse
):
    """push = true labels minus probabilities; returns the loss.

    A part smaller than `coarse` becomes `coarse` with probability |part| / coarse and
    zero otherwise: unbiased, and few labels are touched.
    """
    n_labels = unary.shape[1]
    total = chain_marginals(unary, transitions, length, space, push, pairs)
    true = 0.0
    for t in range(length):
        own = target[begin + t]
        true += unary[t, own]
        if t > 0:
            true += transitions[target[begin + t - 1], own]
        for k in range(n_labels):
            part = -push[t, k]
            if k == own:
                part += 1.0
            size = abs(part)
            if size < coarse:
                size = coarse if draws[begin + t, k] * coarse < size else 0.0
                part = size if part > 0.0 else -size
            push[t, k] = part
    for j in range(n_labels):
        for k in range(n_labels):
            pairs[j, k] = -pairs[j, k]
    return total - true


@njit(cache=True, nogil=True, error_model="numpy")
def _list_pushes(push, length, labels, counts, products):
    """labels[t, :counts[t]] are those with a push; products[s, t] = <push_s, push_t>.

    Returns whether there is any push.
    """
    found = False
    for t in range(length):
        n = 0
        for k in range(push.shape[1]):
            if push[t, k] != 0.0:
                labels[t, n] = k
                n += 1
        counts[t] = n
        found = found or n > 0
        for s in range(t + 1):
            total = 0.0
            if counts[s] > 0 and n > 0:
                for k in range(push.shape[1]):
                    total += push[s, k] * push[t, k]
            products[s, t] = total
            products[t, s] = total
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _lead(scores, f, begin, length, push, labels, counts):
    """<v_f, delta> of a kernel block."""
    total = 0.0
    for t in range(length):
        for n in range(counts[t]):
            k = labels[t, n]
            total += push[t, k] * scores[k, f, begin + t]
    return total


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _add_row(scores, k, f, stack, i, column, change):
    for j in range(scores.shape[2]):
        scores[k, f, j] += change * stack[i, column, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_sparse_row(scores, k, f, start, index, value, i, change):
    for z in range(start[i], start[i + 1]):
        scores[k, f, index[z]] += change * value[z]


@njit(cache=True, nogil=True, error_model="numpy")
def _push_coef(
    coef, lag, f, begin, length, step, clock, push, labels, counts, averaged
):
    """Coefficients of a kernel block, and their average."""
    for t in range(length):
        for n in range(counts[t]):
            k = labels[t, n]
            coef[f, begin + t, k] += step * push[t, k]
            if averaged:
                lag[f, begin + t, k] += clock * step * push[t, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _push_features(
    table,
    lag,
    start,
    index,
    value,
    begin,
    length,
    step,
    clock,
    push,
    labels,
    counts,
    averaged,
):
    """v_f += step * delta for explicit features; returns the growth of its square."""
    growth = 0.0
    for t in range(length):
        for z in range(start[begin + t], start[begin + t + 1]):
            row, size = index[z], step * value[z]
            for n in range(counts[t]):
                k = labels[t, n]
                change = size * push[t, k]
                old = table[row, k]
                table[row, k] = old + change
                if averaged:
                    lag[row, k] += clock * change
                growth += change * (2.0 * old + change)
    return growth


@njit(cache=True, nogil=True, error_model="numpy")
def _push_pairs(pairs, lag, push, step, clock, averaged):
    """The same for label pairs."""
    growth = 0.0
    for j in range(pairs.shape[0]):
        for k in range(pairs.shape[1]):
            change = step * push[j, k]
            if change != 0.0:
                growth += change * (2.0 * pairs[j, k] + change)
                pairs[j, k] += change
                if averaged:
                    lag[j, k] += clock * change
    return growth


@njit(cache=True, nogil=True, error_model="numpy")
def _forget_rows(table, lag, start, index, begin, length, clock, averaged):
    """Undo the first update of a block that the proximal steps send back to zero.

    Only the touched rows are written; their average gains what the clock says, zero.
    """
    for z in range(start[begin], start[begin + length]):
        row = index[z]
        for k in range(table.shape[1]):
            if averaged:
                lag[row, k] -= clock * table[row, k]
            table[row, k] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def spom_pass(view, state, rule, terms, order, steps, importance, cost, draws, space):
    """One visit of every chain in `order`: gradient step, proximal steps, projection.

    steps[n] is the step at the n-th visit; `space` is room for the sums of the CRF
    loss, or None for the hinge, whose code is then compiled alone. Returns (updates,
    sum of the losses before each step).
    """
    starts, target, stack = view.starts, view.target, view.stack
    sparse_start, sparse_index = view.sparse_start, view.sparse_index
    sparse_value, feature_value = view.sparse_value, view.feature_value
    feature_start, feature_index = view.feature_start, view.feature_index
    kernel_block, feature_block = view.kernel_block, view.feature_block
    scores, coef, table, pairs = state.scores, state.coef, state.table, state.pairs
    scale, squares, clock = state.scale, state.squares, state.clock
    averaged = rule.averaged
    n_labels, n_blocks = pairs.shape[0], len(scale)
    n_kernels, n_dense = len(kernel_block), stack.shape[1]
    last = n_blocks - 1
    longest = 1
    for n in order:
        longest = max(longest, starts[n + 1] - starts[n])
    unary = np.empty((longest, n_labels))
    best = np.empty((longest, n_labels))
    found = np.empty(longest, np.int64)
    push = np.empty((longest, n_labels))
    labels = np.empty((longest, n_labels), np.int64)
    counts = np.zeros(longest, np.int64)
    products = np.empty((longest, longest))
    pair_push = np.zeros((n_labels, n_labels))
    transitions = np.zeros((n_labels, n_labels))
    norms, before, moves = np.empty(n_blocks), np.empty(n_blocks), np.empty(n_blocks)
    was_zero = np.empty(n_blocks, np.bool_)
    updates, losses = 0, 0.0
    for visit in range(len(order)):
        chain = order[visit]
        begin = starts[chain]
        length = starts[chain + 1] - begin
        shrink = steps[visit] * rule.reg
        # Scores.
        for t in range(length):
            for k in range(n_labels):
                unary[t, k] = 0.0
                push[t, k] = 0.0
        for f in range(n_kernels):
            if squares[kernel_block[f]] > 0.0:
                factor = scale[kernel_block[f]]
                _add_kernel_scores(scores, f, factor, begin, length, unary)
        for f in range(len(feature_block)):
            if squares[feature_block[f]] > 0.0:
                _add_feature_scores(
                    table,
                    feature_start[f],
                    feature_index,
                    feature_value,
                    scale[feature_block[f]],
                    begin,
                    length,
                    unary,
                )
        if rule.uses_pairs:
            for j in range(n_labels):
                for k in range(n_labels):
                    transitions[j, k] = scale[last] * pairs[j, k]
                    pair_push[j, k] = 0.0
        # The loss, and minus its gradient in score space.
        if space is None:
            loss = _hinge_push(
                unary, transitions, target, begin, cost, length, best, found, push
            )
            for t in range(1, length):
                pair_push[found[t - 1], found[t]] -= 1.0
        else:
            loss = _crf_push(
                unary,
                transitions,
                target,
                begin,
                length,
                space,
                push,
                pair_push,
                draws,
                rule.coarse,
            )
        for t in range(1, length):
            pair_push[target[begin + t - 1], target[begin + t]] += 1.0
        losses += importance[chain] * loss
        wrong = _list_pushes(push, length, labels, counts, products)
        updates += wrong
        for block in range(n_blocks):
            if averaged:
                clock[block] += scale[block]
            was_zero[block] = squares[block] == 0.0
            moves[block] = steps[visit] * importance[chain] / scale[block]
        # The gradient step. Kernel blocks are written later, if the proximal steps
        # leave anything of them; their norms are known before.
        if wrong:
            for f in range(n_kernels):
                block = kernel_block[f]
                move = moves[block]
                growth = 0.0
                if not was_zero[block]:
                    growth = 2.0 * _lead(scores, f, begin, length, push, labels, counts)
                for s in range(length):
                    for t in range(length):
                        if products[s, t] != 0.0:
                            if f < n_dense:
                                value = np.float64(stack[begin + s, f, begin + t])
                            else:
                                value = _sparse_value(
                                    sparse_start[f - n_dense],
                                    sparse_index,
                                    sparse_value,
                                    begin + s,
                                    begin + t,
                                )
                            growth += move * products[s, t] * value
                squares[block] = max(squares[block] + move * growth, 0.0)
            for f in range(len(feature_block)):
                block = feature_block[f]
                growth = _push_features(
                    table,
                    state.table_lag,
                    feature_start[f],
                    feature_index,
                    feature_value,
                    begin,
                    length,
                    moves[block],
                    clock[block],
                    push,
                    labels,
                    counts,
                    averaged,
                )
                squares[block] = max(squares[block] + growth, 0.0)
            if rule.uses_pairs:
                growth = _push_pairs(
                    pairs,
                    state.pairs_lag,
                    pair_push,
                    moves[last],
                    clock[last],
                    averaged,
                )
                squares[last] = max(squares[last] + growth, 0.0)
        for block in range(n_blocks):
            before[block] = scale[block] * np.sqrt(squares[block])
            norms[block] = before[block]
        # Proximal steps and projection, on norms alone but for entry-wise terms.
        for j in range(len(terms.kinds)):
            if terms.kinds[j] != ENTRIES:
                prox_step(norms, terms, j, shrink)
                continue
            # Earlier terms have to be in the scales before entries are compared.
            for block in range(n_blocks):
                if norms[block] > 0.0:
                    scale[block] *= norms[block] / before[block]
            threshold = shrink * terms.weights[j]
            for f in range(len(feature_block)):
                block = feature_block[f]
                if terms.members[j, block] and norms[block] > 0.0:
                    squares[block] = _soften(
                        table,
                        state.table_lag,
                        view.table_start[f],
                        view.table_start[f + 1],
                        threshold / scale[block],
                        clock[block],
                        averaged,
                    )
            if terms.members[j, last] and norms[last] > 0.0:
                squares[last] = _soften(
                    pairs,
                    state.pairs_lag,
                    0,
                    n_labels,
                    threshold / scale[last],
                    clock[last],
                    averaged,
                )
            for block in range(n_blocks):
                if norms[block] > 0.0:
                    before[block] = scale[block] * np.sqrt(squares[block])
                    norms[block] = before[block]
        total = 0.0
        for block in range(n_blocks):
            total += norms[block] * norms[block]
        if total > rule.radius * rule.radius:
            for block in range(n_blocks):
                norms[block] *= rule.radius / np.sqrt(total)
        # Write kernel blocks that live on.
        for f in range(n_kernels):
            block = kernel_block[f]
            if norms[block] == 0.0 or not wrong:
                continue
            _push_coef(
                coef,
                state.coef_lag,
                f,
                begin,
                length,
                moves[block],
                clock[block],
                push,
                labels,
                counts,
                averaged,
            )
            for t in range(length):
                for n in range(counts[t]):
                    k = labels[t, n]
                    change = scores.dtype.type(moves[block] * push[t, k])
                    if f < n_dense:
                        _add_row(scores, k, f, stack, begin + t, f, change)
                    else:
                        _add_sparse_row(
                            scores,
                            k,
                            f,
                            sparse_start[f - n_dense],
                            sparse_index,
                            sparse_value,
                            begin + t,
                            change,
                        )
        # Clear blocks that do not; those that were zero before have little to clear.
        for f in range(n_kernels):
            if norms[kernel_block[f]] == 0.0 and was_zero[kernel_block[f]]:
                squares[kernel_block[f]] = 0.0
        for f in range(len(feature_block)):
            block = feature_block[f]
            if norms[block] == 0.0 and was_zero[block] and squares[block] > 0.0:
                _forget_rows(
                    table,
                    state.table_lag,
                    feature_start[f],
                    feature_index,
                    begin,
                    length,
                    clock[block],
                    averaged,
                )
                squares[block] = 0.0
        for block in range(n_blocks):
            factor = 0.0
            if norms[block] > 0.0:
                scale[block] *= norms[block] / before[block]
                factor = scale[block]
                if factor >= SMALLEST_SCALE:
                    continue
            elif was_zero[block] and squares[block] == 0.0:
                scale[block] = 1.0
                continue
            rescale_block(view, state, averaged, block, factor)
            scale[block] = 1.0
    return updates, losses


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def kernel_squares(scores, coef, out):
    """||v_f||^2 of every kernel block from coefficients and cached scores."""
    n_labels, n_kernels, n_positions = scores.shape
    for f in range(n_kernels):
        total = 0.0
        for i in range(n_positions):
            for k in range(n_labels):
                value = coef[f, i, k]
                if value != 0.0:
                    total += value * scores[k, f, i]
        out[f] = max(total, 0.0)
