"""Relations of arcs: a linear classifier on indicator features, learned online.

The features of arc i are rows ids[starts[i] : starts[i + 1]] of a table with one column
per relation; a row that is not in the table has the number -1.
"""

from __future__ import annotations

import numpy as np

from manykernels.hot.jit import njit


@njit(cache=True, nogil=True)
def _score(weights, ids, begin, end, scores):
    """scores[k] = sum of the weights of relation k; the number of n_known features."""
    n_labels = weights.shape[1]
    for k in range(n_labels):
        scores[k] = 0.0
    n_known = 0
    for j in range(begin, end):
        if ids[j] >= 0:
            n_known += 1
            for k in range(n_labels):
                scores[k] += weights[ids[j], k]
    return n_known


@njit(cache=True, nogil=True)
def _best(scores):
    best = 0
    for k in range(1, len(scores)):
        if scores[k] > scores[best]:
            best = k
    return best


@njit(cache=True, nogil=True)
def learn_labels(weights, offset, starts, ids, target, order, step, rounds):
    """A passive-aggressive step for every arc of `order`; the number of wrong ones.

    After r rounds in all the mean of the weights is weights - offset / r.
    """
    scores = np.empty(weights.shape[1], np.float32)
    wrong = 0
    for i in order:
        begin, end, true = starts[i], starts[i + 1], target[i]
        n_known = _score(weights, ids, begin, end, scores)
        wrong += _best(scores) != true
        right = scores[true]
        scores[true] = -np.inf
        other = _best(scores)
        loss = 1.0 - right + scores[other]
        if loss > 0.0 and n_known > 0:
            size = np.float32(min(step / n_known, loss / (2.0 * n_known)))
            late = np.float32(rounds * size)
            for j in range(begin, end):
                if ids[j] >= 0:
                    weights[ids[j], true] += size
                    weights[ids[j], other] -= size
                    offset[ids[j], true] += late
                    offset[ids[j], other] -= late
        rounds += 1
    return wrong


@njit(cache=True, nogil=True)
def best_labels(weights, starts, ids):
    """The relation with the largest score, for every arc."""
    scores = np.empty(weights.shape[1], np.float32)
    labels = np.zeros(len(starts) - 1, np.int64)
    for i in range(len(labels)):
        _score(weights, ids, starts[i], starts[i + 1], scores)
        labels[i] = _best(scores)
    return labels
