"""One epoch of stochastic variance reduced gradients, as one compiled call.

For every block, with its own step h, decay rho = 1 - h * reg_f and length:

    w_f <- rho w_f + (1 - rho) pull_f - h phi_f(x_t) (x) delta_t
    delta_t = importance_t (loss'(s_t(w)) - loss'(s_t(w_0)))

so that w_f = a w0_f + (1 - a) pull_f + v_f with a = rho^t: the scores of w0 and pull
are known for all rows, and only v is added up. v is kept as scale * sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.jit import njit

COMPILED_LOSSES = ("log", "smoothed_hinge", "squared_hinge", "squared", "huber")
LOG, SMOOTHED_HINGE, SQUARED_HINGE, SQUARED, HUBER = range(len(COMPILED_LOSSES))
LEAST_SCALE = 1e-100  # smaller scales are multiplied into the sums


class EpochRule(NamedTuple):
    """Steps, decays and lengths of the blocks."""

    step: NDArray[np.float64]
    rho: NDArray[np.float64]
    length: NDArray[np.int64]


class Snapshot(NamedTuple):
    """Scores (blocks, outputs, rows) of w0 and of its pull; loss' (rows, outputs)."""

    scores: NDArray[np.float64]
    pull: NDArray[np.float64]
    gradient: NDArray[np.float64]


class LossTable(NamedTuple):
    """A loss by number, its parameter, and targets in the form it wants."""

    code: int
    parameter: float
    labels: NDArray[np.int64]  # (rows,)
    values: NDArray[np.float64]  # (rows, outputs)


class Sum(NamedTuple):
    """v_f = scale_f * sum_i coef[f, :, i] phi_f(x_i), and a_f; `done` steps."""

    coef: NDArray[np.float64]  # (blocks, outputs, rows)
    scale: NDArray[np.float64]  # (blocks,)
    decay: NDArray[np.float64]  # (blocks,)
    done: NDArray[np.int64]  # (1,)


@njit(cache=True)
def _project(points, ordered):
    """The nearest probabilities to one row of numbers, in place."""
    n = len(points)
    for k in range(n):
        value = points[k]
        place = k
        while place > 0 and ordered[place - 1] < value:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = value
    total = 0.0
    level = 0.0
    for count in range(1, n + 1):
        total += ordered[count - 1]
        if ordered[count - 1] * count > total - 1.0:
            level = (total - 1.0) / count
    for k in range(n):
        points[k] = max(points[k] - level, 0.0)


@njit(cache=True)
def _gradient(loss, i, scores, out, work):
    """out = loss'(scores) for row i."""
    n = len(scores)
    if loss.code == LOG:
        largest = scores[0]
        for k in range(n):
            largest = max(largest, scores[k])
        total = 0.0
        for k in range(n):
            out[k] = np.exp(scores[k] - largest)
            total += out[k]
        for k in range(n):
            out[k] /= total
        out[loss.labels[i]] -= 1.0
    elif loss.code == SMOOTHED_HINGE:
        own = loss.labels[i]
        for k in range(n):
            out[k] = (scores[k] + 1.0) / loss.parameter
        out[own] += 1.0 - 1.0 / loss.parameter
        _project(out, work)
        out[own] -= 1.0
    elif loss.code == SQUARED_HINGE:
        for k in range(n):
            sign = 1.0 if k == loss.labels[i] else -1.0
            out[k] = -sign * max(1.0 - sign * scores[k], 0.0)
    else:
        for k in range(n):
            out[k] = scores[k] - loss.values[i, k]
            if loss.code == HUBER:
                out[k] = min(max(out[k], -loss.parameter), loss.parameter)


@njit(cache=True, fastmath=True)
def _known_scores(snapshot, sums, i, totals):
    """Scores of row i without v."""
    n_blocks = len(sums.decay)
    for k in range(len(totals)):
        total = 0.0
        for f in range(n_blocks):
            a = sums.decay[f]
            total += a * snapshot.scores[f, k, i] + (1.0 - a) * snapshot.pull[f, k, i]
        totals[k] = total


@njit(cache=True)
def _delta(loss, snapshot, importance, i, totals, delta, work):
    """importance_i (loss'(totals) - loss' at the snapshot)."""
    _gradient(loss, i, totals, delta, work)
    for k in range(len(totals)):
        delta[k] = importance[i] * (delta[k] - snapshot.gradient[i, k])


@njit(cache=True)
def _advance(rule, sums, i, delta, moving):
    """Decay the blocks that go on, note delta; moving_f is what multiplies phi_f."""
    t = sums.done[0]
    for f in range(len(moving)):
        moving[f] = 0.0
        if t >= rule.length[f]:
            continue
        sums.decay[f] *= rule.rho[f]
        sums.scale[f] *= rule.rho[f]
        moving[f] = -rule.step[f] / sums.scale[f]
        for k in range(len(delta)):
            sums.coef[f, k, i] += moving[f] * delta[k]
    sums.done[0] = t + 1


@njit(cache=True, fastmath=True, nogil=True)
def kernel_epoch(rows, where, order, rule, snapshot, loss, importance, sums):
    """Steps on the rows `order`; rows[where[j], f] is K_f(order[j], :)."""
    n_blocks, n_outputs, n_rows = sums.coef.shape
    totals = np.empty(n_outputs)
    delta = np.empty(n_outputs)
    work = np.empty(n_outputs)
    moving = np.empty(n_blocks)
    for j in range(len(order)):
        i = order[j]
        _known_scores(snapshot, sums, i, totals)
        for f in range(n_blocks):
            row = rows[where[j], f]
            for k in range(n_outputs):
                coef = sums.coef[f, k]
                part = 0.0
                for b in range(n_rows):
                    part += row[b] * coef[b]
                totals[k] += sums.scale[f] * part
        _delta(loss, snapshot, importance, i, totals, delta, work)
        _advance(rule, sums, i, delta, moving)
        for f in range(n_blocks):
            if sums.scale[f] < LEAST_SCALE:
                sums.coef[f] *= sums.scale[f]
                sums.scale[f] = 1.0


@njit(cache=True, fastmath=True, nogil=True)
def dense_epoch(
    features, spans, owner, weight, order, rule, snapshot, loss, importance, sums, total
):
    """Steps on explicit features; total (outputs, columns) is v before its scale.

    Columns spans[s] to spans[s + 1] belong to block owner[s]; their products count
    weight[s] times.
    """
    n_blocks, n_outputs, _ = sums.coef.shape
    totals = np.empty(n_outputs)
    delta = np.empty(n_outputs)
    work = np.empty(n_outputs)
    moving = np.empty(n_blocks)
    for j in range(len(order)):
        i = order[j]
        row = features[i]
        _known_scores(snapshot, sums, i, totals)
        for s in range(len(owner)):
            factor = weight[s] * sums.scale[owner[s]]
            for k in range(n_outputs):
                part = 0.0
                for c in range(spans[s], spans[s + 1]):
                    part += row[c] * total[k, c]
                totals[k] += factor * part
        _delta(loss, snapshot, importance, i, totals, delta, work)
        _advance(rule, sums, i, delta, moving)
        for s in range(len(owner)):
            for k in range(n_outputs):
                change = moving[owner[s]] * delta[k]
                if change != 0.0:
                    for c in range(spans[s], spans[s + 1]):
                        total[k, c] += change * row[c]
        for f in range(n_blocks):
            if sums.scale[f] < LEAST_SCALE:
                for s in range(len(owner)):
                    if owner[s] == f:
                        total[:, spans[s] : spans[s + 1]] *= sums.scale[f]
                sums.coef[f] *= sums.scale[f]
                sums.scale[f] = 1.0


@njit(cache=True, fastmath=True, nogil=True)
def sparse_epoch(
    data,
    indices,
    indptr,
    span_of,
    owner,
    weight,
    order,
    rule,
    snapshot,
    loss,
    importance,
    sums,
    total,
):
    """The same on CSR features; total has shape (columns, outputs).

    Column c lies in span span_of[c].
    """
    n_blocks, n_outputs, _ = sums.coef.shape
    totals = np.empty(n_outputs)
    delta = np.empty(n_outputs)
    work = np.empty(n_outputs)
    moving = np.empty(n_blocks)
    for j in range(len(order)):
        i = order[j]
        _known_scores(snapshot, sums, i, totals)
        for e in range(indptr[i], indptr[i + 1]):
            s = span_of[indices[e]]
            factor = weight[s] * sums.scale[owner[s]] * data[e]
            for k in range(n_outputs):
                totals[k] += factor * total[indices[e], k]
        _delta(loss, snapshot, importance, i, totals, delta, work)
        _advance(rule, sums, i, delta, moving)
        for e in range(indptr[i], indptr[i + 1]):
            change = moving[owner[span_of[indices[e]]]] * data[e]
            for k in range(n_outputs):
                total[indices[e], k] += change * delta[k]
        for f in range(n_blocks):
            if sums.scale[f] < LEAST_SCALE:
                for c in range(len(span_of)):
                    if owner[span_of[c]] == f:
                        total[c] *= sums.scale[f]
                sums.coef[f] *= sums.scale[f]
                sums.scale[f] = 1.0
