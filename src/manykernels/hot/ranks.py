"""Counts of pairs in order of time, by a tree of sums over ranks."""

from __future__ import annotations

import numpy as np

from manykernels.hot.jit import njit


@njit(cache=True, nogil=True)
def count_pairs(place, low, high, event, group, weight):
    """Weights of pairs whose first row has an event: comparable, right, tied.

    Rows come by falling time, those of one time have the same group. A row is known to
    be later than an event if its time is longer, or the same without an event. Risks
    are given by ranks: row j's own, place_j; ranks below low_i are risks lower than
    that of i, ranks from low_i up to high_i are equal to it.
    """
    n_rows = len(place)
    tree = np.zeros(n_rows + 1)
    later = right = tied = pairs = 0.0
    start = 0
    while start < n_rows:
        end = start
        while end < n_rows and group[end] == group[start]:
            if not event[end]:
                _add(tree, place[end], weight[end])
                later += weight[end]
            end += 1
        for i in range(start, end):
            if event[i]:
                lower = _sum_below(tree, low[i])
                right += weight[i] * lower
                tied += weight[i] * (_sum_below(tree, high[i]) - lower)
                pairs += weight[i] * later
        for i in range(start, end):
            if event[i]:
                _add(tree, place[i], weight[i])
                later += weight[i]
        start = end
    return pairs, right, tied


@njit(cache=True)
def _add(tree, rank, weight):
    """Every node of the tree holds the sum of as many ranks as its lowest bit says."""
    node = rank + 1
    while node < len(tree):
        tree[node] += weight
        node += node & -node


@njit(cache=True)
def _sum_below(tree, rank):
    total = 0.0
    node = rank
    while node > 0:
        total += tree[node]
        node -= node & -node
    return total
