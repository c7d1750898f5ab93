"""Chains: best labels, marginals, and one pass of the online proximal method.

A chain of L positions with M labels scores sum_t unary[t, y_t] plus
sum_t transitions[t, y_{t-1}, y_t]; where one table serves all positions, transitions
has that one alone. Inner loops run over the label that is contiguous in memory and
carry no index, so that the compiler can use wide registers.

The file is long because its loops call each other: Numba's cache on disk looks at one
file only (see `hot/prox.py` for the one exception).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.jit import njit
from manykernels.hot.prox import ENTRIES, prox_step, prox_steps

# Sums of exponentials below this are computed again without their common factor.
UNDERFLOW = 1e-200
# A block's scale below this is folded into its arrays, long before float32 overflows.
SMALLEST_BLOCK_SCALE = 1e-5


# --- decoding -----------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _own_tables(tables, begin, end):
    """Those of one chain: the one that serves all, or one per position."""
    return tables[begin:end] if len(tables) > 1 else tables


@njit(cache=True, nogil=True, error_model="numpy")
def best_path(unary, transitions, length, best, labels):
    """labels = argmax over y of the score; returns the score.

    best[t, k] is the score of the best beginning that ends with label k at t. Only
    values go forward; the label before is found again on the way back, for one label
    per position instead of all.
    """
    n_labels, moving = unary.shape[1], len(transitions) > 1
    for k in range(n_labels):
        best[0, k] = unary[0, k]
    for t in range(1, length):
        at = t if moving else 0
        for k in range(n_labels):
            best[t, k] = best[t - 1, 0] + transitions[at, 0, k]
        j = 1
        while j + 3 < n_labels:
            a, b = best[t - 1, j], best[t - 1, j + 1]
            c, d = best[t - 1, j + 2], best[t - 1, j + 3]
            for k in range(n_labels):
                va, vb = a + transitions[at, j, k], b + transitions[at, j + 1, k]
                vc = c + transitions[at, j + 2, k]
                vd = d + transitions[at, j + 3, k]
                vab = va if va > vb else vb
                vcd = vc if vc > vd else vd
                high = vab if vab > vcd else vcd
                old = best[t, k]
                best[t, k] = high if high > old else old
            j += 4
        while j < n_labels:
            a = best[t - 1, j]
            for k in range(n_labels):
                va, old = a + transitions[at, j, k], best[t, k]
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
        at = t if moving else 0
        top = 0
        high = best[t - 1, 0] + transitions[at, 0, k]
        for j in range(1, n_labels):
            value = best[t - 1, j] + transitions[at, j, k]
            if value > high:
                high = value
                top = j
        labels[t - 1] = top
    return best[last, labels[last]]


@njit(cache=True, nogil=True, error_model="numpy")
def _longest(starts):
    longest = 1
    for n in range(len(starts) - 1):
        longest = max(longest, starts[n + 1] - starts[n])
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def best_paths(unary, transitions, starts, labels, scores):
    """Decode many chains; chain n has the positions starts[n]:starts[n + 1]."""
    best = np.empty((_longest(starts), unary.shape[1]), unary.dtype)
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        own = _own_tables(transitions, a, b)
        scores[n] = best_path(unary[a:b], own, b - a, best, labels[a:b])


@njit(cache=True, nogil=True, error_model="numpy")
def path_score(unary, transitions, length, labels):
    """The score of given labels."""
    moving = len(transitions) > 1
    total = unary[0, labels[0]]
    for t in range(1, length):
        at = t if moving else 0
        total += unary[t, labels[t]] + transitions[at, labels[t - 1], labels[t]]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def path_scores(unary, transitions, starts, labels, scores):
    """Scores of given labels of many chains."""
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        own = _own_tables(transitions, a, b)
        scores[n] = path_score(unary[a:b], own, b - a, labels[a:b])


@njit(cache=True, nogil=True, error_model="numpy")
def k_best_paths(unary, transitions, labels, scores):
    """The k label sequences of the highest scores of one chain, best first.

    labels is (k, length) and scores is (k,); minus infinity beyond the last.
    best[t, k, r] is the score of the r-th best beginning that ends with label k at t:
    rank by rank the highest of what the labels before have not yet given.
    """
    n_best, (length, n_labels) = len(scores), unary.shape
    best = np.full((length, n_labels, n_best), -np.inf)
    before = np.zeros((length, n_labels, n_best, 2), np.int64)  # label and rank
    used = np.empty(n_labels, np.int64)
    for k in range(n_labels):
        best[0, k, 0] = unary[0, k]
    for t in range(1, length):
        at = t if len(transitions) > 1 else 0
        for k in range(n_labels):
            used[:] = 0
            for r in range(n_best):
                top = _next_best(best[t - 1], used, transitions[at, :, k])
                if top < 0:
                    break
                given = best[t - 1, top, used[top]]
                best[t, k, r] = given + transitions[at, top, k] + unary[t, k]
                before[t, k, r, 0], before[t, k, r, 1] = top, used[top]
                used[top] += 1
    used[:] = 0
    ends = np.zeros(n_labels)
    for r in range(n_best):
        scores[r] = -np.inf
        k = _next_best(best[length - 1], used, ends)
        if k < 0:
            continue
        rank = used[k]
        used[k] += 1
        scores[r] = best[length - 1, k, rank]
        for t in range(length - 1, -1, -1):
            labels[r, t] = k
            k, rank = before[t, k, rank, 0], before[t, k, rank, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _next_best(best, used, extra):
    """The label j of the highest best[j, used[j]] + extra[j]; -1 if none is left."""
    top, high = -1, -np.inf
    for j in range(len(used)):
        if used[j] < best.shape[1] and best[j, used[j]] + extra[j] > high:
            top, high = j, best[j, used[j]] + extra[j]
    return top


# --- marginals ----------------------------------------------------------------


class SumSpace(NamedTuple):
    """Arrays for forward and backward sums of the longest chain."""

    forward: NDArray[np.float64]  # (length, labels), logarithms
    backward: NDArray[np.float64]
    factors: NDArray[np.float64]  # (labels, labels): exp(transitions - highest)
    turned: NDArray[np.float64]  # its transpose
    mixed: NDArray[np.float64]  # (labels,)
    shares: NDArray[np.float64]  # (labels,)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_space(length, n_labels):
    """Empty arrays for chains of at most this length."""
    return SumSpace(
        np.empty((length, n_labels)),
        np.empty((length, n_labels)),
        np.empty((n_labels, n_labels)),
        np.empty((n_labels, n_labels)),
        np.empty(n_labels),
        np.empty(n_labels),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _exponentials(transitions, at, space):
    """Fill the factors of one table; returns its highest transition."""
    n_labels = transitions.shape[1]
    highest = transitions[at, 0, 0]
    for j in range(n_labels):
        for k in range(n_labels):
            highest = max(highest, transitions[at, j, k])
    if highest == -np.inf:
        highest = 0.0
    for j in range(n_labels):
        for k in range(n_labels):
            space.factors[j, k] = np.exp(transitions[at, j, k] - highest)
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
def _forward(unary, transitions, length, space, highest):
    """log sum over y of exp(score); fills the forward sums.

    The factors must be those of the table, where one serves all positions.
    """
    n_labels, moving, at = unary.shape[1], len(transitions) > 1, 0
    forward = space.forward
    for k in range(n_labels):
        forward[0, k] = unary[0, k]
    for t in range(1, length):
        if moving:
            at = t
            highest = _exponentials(transitions, at, space)
        _log_mix(
            forward[t - 1],
            space.factors,
            highest,
            transitions[at],
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

    Pairs are counted at each position where transitions differ, and else all together.
    Returns log sum over y of exp(score), of which both are the gradient.
    """
    n_labels, moving, at = unary.shape[1], len(transitions) > 1, 0
    forward, backward = space.forward, space.backward
    highest = _exponentials(transitions, at, space)
    total = _forward(unary, transitions, length, space, highest)
    for k in range(n_labels):
        backward[length - 1, k] = 0.0
    ahead = np.empty(n_labels)
    for t in range(length - 1, 0, -1):
        if moving:
            at = t
            highest = _exponentials(transitions, at, space)
        for k in range(n_labels):
            ahead[k] = unary[t, k] + backward[t, k]
        _log_mix(
            ahead,
            space.turned,
            highest,
            transitions[at],
            True,
            space.mixed,
            space.shares,
            backward[t - 1],
        )
        before = forward[t - 1]
        _add_pairs(before, ahead, transitions[at], highest, total, space, pairs[at])
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
    if exponent > 600.0:  # exp overflows a little later
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
    """Marginals of many chains; `pairs` has as many tables as `transitions`."""
    space = sum_space(_longest(starts), unary.shape[1])
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        own, counts = _own_tables(transitions, a, b), _own_tables(pairs, a, b)
        totals[n] = chain_marginals(unary[a:b], own, b - a, space, chances[a:b], counts)


@njit(cache=True, nogil=True, error_model="numpy")
def log_sums(unary, transitions, starts, totals):
    """Log sums of many chains."""
    space = sum_space(_longest(starts), unary.shape[1])
    highest = _exponentials(transitions, 0, space)
    for n in range(len(starts) - 1):
        a, b = starts[n], starts[n + 1]
        own = _own_tables(transitions, a, b)
        totals[n] = _forward(unary[a:b], own, b - a, space, highest)


# --- one pass of the online proximal method ------------------------------------------
#
# Parts of a pass take the few arrays or small groups of arrays that they need: every
# array that goes into a function is counted in and out again, which is felt where a
# chain has one position. For the same reason the larger parts are written into the
# caller ("inline"); each of them is called in one or two places only.


class KernelBlocks(NamedTuple):
    """Blocks known through kernel values: dense kernels first, then sparse ones."""

    block: NDArray[np.int64]  # which block of the model each of them is
    stack: NDArray[np.floating]  # (positions, dense kernels, positions)
    sparse_start: NDArray[np.int64]  # (sparse kernels, positions + 1)
    sparse_index: NDArray[np.int32]
    sparse_value: NDArray[np.floating]
    scores: NDArray[np.floating]  # (labels, kernels, positions), of v_f
    coef: NDArray[np.float64]  # (kernels, positions, labels), of v_f
    lag: NDArray[np.float64]
    total: NDArray[np.float64]


class FeatureBlocks(NamedTuple):
    """Blocks of explicit features, which share one table of weights.

    Those of label pairs ("edges") have M * M outputs, pair (j, k) at j * M + k.
    """

    block: NDArray[np.int64]
    start: NDArray[np.int64]  # (feature blocks, positions + 1)
    rows: NDArray[np.int32]  # of the table
    value: NDArray[np.float64]
    table_start: NDArray[np.int64]  # (feature blocks + 1,)
    table: NDArray[np.float64]  # (feature rows, outputs), of v_f
    lag: NDArray[np.float64]
    total: NDArray[np.float64]


class PairBlock(NamedTuple):
    """The last block: scores of neighboring labels, the same at all positions."""

    table: NDArray[np.float64]  # (labels, labels), of v_f
    lag: NDArray[np.float64]
    total: NDArray[np.float64]


class BlockNorms(NamedTuple):
    """Numbers of every block of the model; label pairs are the last."""

    scale: NDArray[np.float64]
    squares: NDArray[np.float64]  # ||v_f||^2
    clock: NDArray[np.float64]  # sum of the scales since the last flush
    # Of the visit at hand:
    moves: NDArray[np.float64]  # the step in units of v_f
    before: NDArray[np.float64]  # ||w_f|| after the gradient step
    norms: NDArray[np.float64]  # ||w_f|| after the proximal steps
    was_zero: NDArray[np.bool_]  # before the gradient step


class ChainState(NamedTuple):
    """w_f = scale_f v_f; all arrays but `norms` and `before` are of v.

    `lag` and `total` hold the average: the sum of all w_f so far is
    total + clock_f v_f - lag.
    """

    kernels: KernelBlocks
    features: FeatureBlocks
    edges: FeatureBlocks
    pairs: PairBlock
    blocks: BlockNorms


class PassRule(NamedTuple):
    """What a pass does at each chain."""

    crf: bool
    averaged: bool
    uses_pairs: bool
    coarse: float  # smaller parts of a CRF gradient are rounded to 0 or this
    sums: bool  # dual averaging: v_f is minus the sum of all gradients


class Push(NamedTuple):
    """Minus the gradient of a chain's loss in scores of labels, or of label pairs."""

    scores: NDArray[np.float64]  # (length, outputs)
    labels: NDArray[np.int64]  # (length, outputs): those with a push come first
    counts: NDArray[np.int64]  # (length,): their number
    products: NDArray[np.float64]  # (length, length): <scores_s, scores_t>


@njit(cache=True, nogil=True, error_model="numpy")
def _no_push(length, n_outputs, n_products):
    return Push(
        np.zeros((length, n_outputs)),
        np.empty((length, n_outputs), np.int64),
        np.zeros(length, np.int64),
        np.empty((n_products, n_products)),
    )


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
def _score_kernels(block, scores, scale, squares, begin, length, unary):
    """unary = scores of the kernel blocks that are not zero."""
    for t in range(length):
        for k in range(unary.shape[1]):
            unary[t, k] = 0.0
    for f in range(len(block)):
        factor = scale[block[f]]
        if squares[block[f]] > 0.0 and factor > 0.0:
            _add_kernel_scores(scores, f, factor, begin, length, unary)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _score_features(features, scale, squares, begin, length, unary):
    """Scores (unary or of pairs) += those of the feature blocks that are not zero."""
    block, table, start = features.block, features.table, features.start
    index, value = features.rows, features.value
    for f in range(len(block)):
        factor = scale[block[f]]
        if squares[block[f]] > 0.0 and factor > 0.0:
            _add_feature_scores(
                table, start[f], index, value, factor, begin, length, unary
            )


@njit(cache=True, nogil=True, error_model="numpy")
def _score_pairs(pairs, scale, transitions, push):
    """Scores of label pairs in every table; their push begins at zero."""
    for at in range(len(transitions)):
        for j in range(len(pairs)):
            for k in range(len(pairs)):
                transitions[at, j, k] = scale * pairs[j, k]
                push[at, j, k] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _true_score(unary, transitions, truth, pair_push):
    """The score of the true labels, whose pairs are counted in `pair_push`."""
    moving = len(transitions) > 1
    true = unary[0, truth[0]]
    for t in range(1, len(truth)):
        at, before, own = t if moving else 0, truth[t - 1], truth[t]
        true += unary[t, own] + transitions[at, before, own]
        pair_push[at, before, own] += 1.0
    return true


@njit(cache=True, nogil=True, error_model="numpy")
def _hinge_push(unary, transitions, truth, cost, best, found, push, pair_push):
    """push = true minus most violating labels; returns the loss."""
    length, moving = len(truth), len(transitions) > 1
    true = _true_score(unary, transitions, truth, pair_push)
    for t in range(length):
        own = truth[t]
        for k in range(unary.shape[1]):
            unary[t, k] += cost[own, k]
            push[t, k] = 0.0
    high = best_path(unary, transitions, length, best, found)
    for t in range(length):
        push[t, truth[t]] += 1.0
        push[t, found[t]] -= 1.0
        if t > 0:
            pair_push[t if moving else 0, found[t - 1], found[t]] -= 1.0
    return high - true


@njit(cache=True, nogil=True, error_model="numpy")
def _crf_push(unary, transitions, truth, space, draws, coarse, push, pair_push):
    """push = true labels minus probabilities; returns the loss.

    A part smaller than `coarse` becomes `coarse` with probability |part| / coarse and
    zero otherwise: unbiased, and few labels are touched.
    """
    n_labels, length = unary.shape[1], len(truth)
    total = chain_marginals(unary, transitions, length, space, push, pair_push)
    for at in range(len(pair_push)):
        for j in range(n_labels):
            for k in range(n_labels):
                pair_push[at, j, k] = -pair_push[at, j, k]
    for t in range(length):
        own = truth[t]
        for k in range(n_labels):
            part = -push[t, k]
            if k == own:
                part += 1.0
            size = abs(part)
            if size < coarse:
                size = coarse if draws[t, k] * coarse < size else 0.0
                part = size if part > 0.0 else -size
            push[t, k] = part
    return total - _true_score(unary, transitions, truth, pair_push)


@njit(cache=True, nogil=True, error_model="numpy")
def _list_pushes(push, length, labels, counts):
    """labels[t, :counts[t]] are those with a push; returns whether there is any."""
    found = False
    for t in range(length):
        n = 0
        for k in range(push.shape[1]):
            if push[t, k] != 0.0:
                labels[t, n] = k
                n += 1
        counts[t] = n
        found = found or n > 0
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply_pushes(push, length, counts, products):
    """products[s, t] = <push_s, push_t>, which norms of kernel blocks need."""
    for t in range(length):
        for s in range(t + 1):
            total = 0.0
            if counts[s] > 0 and counts[t] > 0:
                for k in range(push.shape[1]):
                    total += push[s, k] * push[t, k]
            products[s, t] = total
            products[t, s] = total


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
def _lead(scores, f, begin, length, push, labels, counts):
    """<v_f, delta> of a kernel block."""
    total = 0.0
    for t in range(length):
        for n in range(counts[t]):
            k = labels[t, n]
            total += push[t, k] * scores[k, f, begin + t]
    return total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _step_kernels(kernels, blocks, push, begin, length):
    """Norms of kernel blocks after the gradient step v_f += move * delta.

    The blocks themselves are written by `_write_kernels`, if the proximal steps leave
    anything of them.
    """
    stack, products, squares = kernels.stack, push.products, blocks.squares
    index, value = kernels.sparse_index, kernels.sparse_value
    n_dense = stack.shape[1]
    for f in range(len(kernels.block)):
        block = kernels.block[f]
        # ||delta||^2 = sum over s, t of K(s, t) <push_s, push_t>
        square = 0.0
        for s in range(length):
            for t in range(length):
                if products[s, t] != 0.0:
                    i, j = begin + s, begin + t
                    if f < n_dense:
                        square += products[s, t] * np.float64(stack[i, f, j])
                    else:
                        start = kernels.sparse_start[f - n_dense]
                        entry = _sparse_value(start, index, value, i, j)
                        square += products[s, t] * entry
        growth = blocks.moves[block] * square
        if not blocks.was_zero[block]:
            lead = _lead(
                kernels.scores, f, begin, length, push.scores, push.labels, push.counts
            )
            growth += 2.0 * lead
        squares[block] = max(squares[block] + blocks.moves[block] * growth, 0.0)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _add_row(scores, k, f, stack, i, column, change):
    for j in range(scores.shape[2]):
        scores[k, f, j] += change * stack[i, column, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_sparse_row(scores, k, f, start, index, value, i, change):
    for z in range(start[i], start[i + 1]):
        scores[k, f, index[z]] += change * value[z]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _write_kernels(kernels, blocks, push, rule, begin, length):
    """The gradient step on coefficients, their average and the cached scores.

    Blocks that the proximal steps sent to zero are left alone: one that was zero
    before has nothing to write, another is cleared when its scale is.
    """
    scores, coef, stack = kernels.scores, kernels.coef, kernels.stack
    labels, counts = push.labels, push.counts
    n_dense = stack.shape[1]
    for f in range(len(kernels.block)):
        block = kernels.block[f]
        if blocks.norms[block] == 0.0 and not rule.sums:
            if blocks.was_zero[block]:
                blocks.squares[block] = 0.0
            continue
        for t in range(length):
            i = begin + t
            for n in range(counts[t]):
                k = labels[t, n]
                change = blocks.moves[block] * push.scores[t, k]
                coef[f, i, k] += change
                if rule.averaged:
                    kernels.lag[f, i, k] += blocks.clock[block] * change
                small = scores.dtype.type(change)
                if f < n_dense:
                    _add_row(scores, k, f, stack, i, f, small)
                else:
                    start = kernels.sparse_start[f - n_dense]
                    index, value = kernels.sparse_index, kernels.sparse_value
                    _add_sparse_row(scores, k, f, start, index, value, i, small)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _step_features(features, blocks, push, averaged, begin, length):
    """The gradient step v_f += move * delta on blocks of explicit features."""
    table, lag, starts = features.table, features.lag, features.start
    rows, value = features.rows, features.value
    for f in range(len(features.block)):
        block = features.block[f]
        move, clock, growth = blocks.moves[block], blocks.clock[block], 0.0
        for t in range(length):
            for z in range(starts[f, begin + t], starts[f, begin + t + 1]):
                row, size = rows[z], move * value[z]
                for n in range(push.counts[t]):
                    k = push.labels[t, n]
                    change = size * push.scores[t, k]
                    old = table[row, k]
                    table[row, k] = old + change
                    if averaged:
                        lag[row, k] += clock * change
                    growth += change * (2.0 * old + change)
        blocks.squares[block] = max(blocks.squares[block] + growth, 0.0)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _step_pairs(pairs, blocks, push, averaged):
    """The gradient step on the block of label pairs, wherever they are."""
    move, clock, growth = blocks.moves[-1], blocks.clock[-1], 0.0
    for j in range(len(pairs.table)):
        for k in range(len(pairs.table)):
            change = 0.0
            for at in range(len(push)):
                change += move * push[at, j, k]
            if change != 0.0:
                growth += change * (2.0 * pairs.table[j, k] + change)
                pairs.table[j, k] += change
                if averaged:
                    pairs.lag[j, k] += clock * change
    blocks.squares[-1] = max(blocks.squares[-1] + growth, 0.0)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _forget_features(features, blocks, averaged, begin, length):
    """Undo the first update of blocks that the proximal steps send back to zero.

    Only the touched rows are written; their average gains what the clock says, zero.
    """
    table, lag, starts = features.table, features.lag, features.start
    for f in range(len(features.block)):
        block = features.block[f]
        gone = blocks.norms[block] == 0.0 and blocks.was_zero[block]
        if gone and blocks.squares[block] > 0.0:
            for z in range(starts[f, begin], starts[f, begin + length]):
                row = features.rows[z]
                for k in range(table.shape[1]):
                    if averaged:
                        lag[row, k] -= blocks.clock[block] * table[row, k]
                    table[row, k] = 0.0
            blocks.squares[block] = 0.0


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
def _soften_features(features, blocks, inside, step, averaged):
    """The entry-wise proximal step on blocks of explicit features."""
    for f in range(len(features.block)):
        block = features.block[f]
        if inside[block] and blocks.norms[block] > 0.0:
            blocks.squares[block] = _soften(
                features.table,
                features.lag,
                features.table_start[f],
                features.table_start[f + 1],
                step / blocks.scale[block],
                blocks.clock[block],
                averaged,
            )


@njit(cache=True, nogil=True, error_model="numpy")
def _soften_blocks(state, inside, step, averaged):
    """The entry-wise proximal step on explicit blocks and label pairs."""
    pairs, blocks = state.pairs, state.blocks
    scale, squares, norms = blocks.scale, blocks.squares, blocks.norms
    # Earlier terms have to be in the scales before entries are compared.
    for block in range(len(norms)):
        if norms[block] > 0.0:
            scale[block] *= norms[block] / blocks.before[block]
    _soften_features(state.features, blocks, inside, step, averaged)
    _soften_features(state.edges, blocks, inside, step, averaged)
    if inside[-1] and norms[-1] > 0.0:
        squares[-1] = _soften(
            pairs.table,
            pairs.lag,
            0,
            len(pairs.table),
            step / scale[-1],
            blocks.clock[-1],
            averaged,
        )
    for block in range(len(norms)):
        if norms[block] > 0.0:
            blocks.before[block] = scale[block] * np.sqrt(squares[block])
            norms[block] = blocks.before[block]


@njit(cache=True, nogil=True, error_model="numpy")
def _prox_with_entries(state, terms, step, averaged):
    """The proximal steps of all terms, of which some are on entries."""
    for j in range(len(terms.kinds)):
        if terms.kinds[j] == ENTRIES:
            own, inside = step * terms.weights[j], terms.members[j]
            _soften_blocks(state, inside, own, averaged)
        else:
            prox_step(state.blocks.norms, terms, j, step)


@njit(cache=True, nogil=True, error_model="numpy")
def _norms_before(scale, squares, before, norms):
    """||w_f|| after the gradient step, twice."""
    for block in range(len(norms)):
        before[block] = scale[block] * np.sqrt(squares[block])
        norms[block] = before[block]


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
def _rescale_features(features, averaged, block, clock, factor):
    for f in range(len(features.block)):
        if features.block[f] == block:
            a, b = features.table_start[f], features.table_start[f + 1]
            lag, total = features.lag[a:b], features.total[a:b]
            _rescale(features.table[a:b], lag, total, clock, factor, averaged)


@njit(cache=True, nogil=True, error_model="numpy")
def rescale_block(state, averaged, block, factor):
    """v_f *= factor, with the average flushed first; a factor of zero clears it."""
    kernels, pairs = state.kernels, state.pairs
    clock = state.blocks.clock[block]
    for f in range(len(kernels.block)):
        if kernels.block[f] == block:
            at = f if averaged else 0
            lag, total = kernels.lag[at], kernels.total[at]
            _rescale(kernels.coef[f], lag, total, clock, factor, averaged)
            if factor != 1.0:
                _rescale_scores(kernels.scores, f, factor)
    _rescale_features(state.features, averaged, block, clock, factor)
    _rescale_features(state.edges, averaged, block, clock, factor)
    if block == len(state.blocks.scale) - 1:
        _rescale(pairs.table, pairs.lag, pairs.total, clock, factor, averaged)
    state.blocks.clock[block] = 0.0
    state.blocks.squares[block] *= factor * factor


@njit(cache=True, nogil=True, error_model="numpy")
def _close_blocks(scale, squares, before, norms, was_zero):
    """scale_f *= norms_f / before_f; returns whether `_rescale_blocks` has to follow.

    It has to where a block came to zero, or a scale so small that v_f would overflow.
    """
    follow = False
    for block in range(len(norms)):
        if norms[block] > 0.0:
            scale[block] *= norms[block] / before[block]
            follow = follow or scale[block] < SMALLEST_BLOCK_SCALE
        elif was_zero[block] and squares[block] == 0.0:
            scale[block] = 1.0
        else:
            follow = True
    return follow


@njit(cache=True, nogil=True, error_model="numpy")
def _rescale_blocks(state, averaged):
    """Clear the blocks that came to zero; put small scales into v_f itself."""
    blocks = state.blocks
    for block in range(len(blocks.norms)):
        if blocks.norms[block] > 0.0:
            factor = blocks.scale[block]
            if factor >= SMALLEST_BLOCK_SCALE:
                continue
        elif blocks.was_zero[block] and blocks.squares[block] == 0.0:
            continue
        else:
            factor = 0.0
        rescale_block(state, averaged, block, factor)
        blocks.scale[block] = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_blocks(scale, squares, clock, moves, was_zero, step, rule):
    """What the gradient step has to know of every block; sums have steps of 1."""
    for block in range(len(scale)):
        if rule.averaged:
            clock[block] += scale[block]
        was_zero[block] = squares[block] == 0.0
        moves[block] = step if rule.sums else step / scale[block]


@njit(cache=True, nogil=True, error_model="numpy")
def _close_sums(scale, before, norms):
    """The same for sums of gradients, which stay when their scale falls to zero."""
    for block in range(len(norms)):
        if before[block] > 0.0:
            scale[block] *= norms[block] / before[block]


@njit(cache=True, nogil=True, error_model="numpy")
def spom_pass(
    starts,
    target,
    importance,
    state,
    rule,
    terms,
    order,
    steps,
    dues,
    cost,
    draws,
    space,
):
    """One visit of every chain in `order`: gradient step, proximal steps.

    steps[n] is the step at the n-th visit and dues[n] the factor of the regularizer in
    its proximal step; `space` holds the sums of the CRF loss, or None for the
    hinge, whose code is then compiled alone. With rule.sums (dual averaging) v_f sums
    up all gradients, and the proximal step begins at steps[n] v_f every time. Returns
    (updates, sum of the losses before each step).
    """
    kernels, features, edges, pairs, blocks = state
    block, scores, table = kernels.block, kernels.scores, pairs.table
    scale, squares, clock, moves, before, norms, was_zero = blocks
    averaged, n_labels = rule.averaged, len(table)
    has_entries, has_edges = (terms.kinds == ENTRIES).any(), len(edges.block) > 0
    longest = _longest(starts)
    unary, best = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    found = np.empty(longest, np.int64)
    push = _no_push(longest, n_labels, longest)
    n_tables = longest if has_edges else 1
    pair_push = _no_push(n_tables, n_labels * n_labels, 0)
    all_tables = np.zeros((n_tables, n_labels, n_labels))
    all_pushes = pair_push.scores.reshape(all_tables.shape)
    flat = all_tables.reshape(pair_push.scores.shape)
    updates, losses = 0, 0.0
    for n in range(len(order)):
        chain = order[n]
        begin = starts[chain]
        length = starts[chain + 1] - begin
        transitions = all_tables[: min(length, n_tables)]
        own_pairs = all_pushes[: min(length, n_tables)]
        _score_kernels(block, scores, scale, squares, begin, length, unary)
        _score_features(features, scale, squares, begin, length, unary)
        if rule.uses_pairs or has_edges:
            _score_pairs(table, scale[-1], transitions, own_pairs)
        if has_edges:
            _score_features(edges, scale, squares, begin, length, flat)
        truth = target[begin : begin + length]
        if space is None:
            loss = _hinge_push(
                unary, transitions, truth, cost, best, found, push.scores, own_pairs
            )
        else:
            drawn, coarse = draws[begin : begin + length], rule.coarse
            loss = _crf_push(
                unary, transitions, truth, space, drawn, coarse, push.scores, own_pairs
            )
        losses += importance[chain] * loss
        wrong = _list_pushes(push.scores, length, push.labels, push.counts)
        updates += wrong
        step = importance[chain] * (1.0 if rule.sums else steps[n])
        _begin_blocks(scale, squares, clock, moves, was_zero, step, rule)
        if wrong:
            if len(block) > 0:
                _multiply_pushes(push.scores, length, push.counts, push.products)
            _step_kernels(kernels, blocks, push, begin, length)
            _step_features(features, blocks, push, averaged, begin, length)
            if has_edges:
                own, labels, counts, _ = pair_push
                _list_pushes(own, length, labels, counts)
                _step_features(edges, blocks, pair_push, averaged, begin, length)
            if rule.uses_pairs:
                _step_pairs(pairs, blocks, own_pairs, averaged)
        if rule.sums:
            scale[:] = steps[n]
        _norms_before(scale, squares, before, norms)
        if has_entries:
            _prox_with_entries(state, terms, dues[n], averaged)
        else:
            prox_steps(norms, terms, dues[n])
        if wrong:
            _write_kernels(kernels, blocks, push, rule, begin, length)
        if rule.sums:
            _close_sums(scale, before, norms)
            continue
        if wrong:
            _forget_features(features, blocks, averaged, begin, length)
            _forget_features(edges, blocks, averaged, begin, length)
        if _close_blocks(scale, squares, before, norms, was_zero):
            _rescale_blocks(state, averaged)
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
