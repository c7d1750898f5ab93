"""The best tree that a search finds where some scores depend on a third word.

Templates may read the head of the head, or the child of the same head next to the
modifier on the way to the head. The best tree under such scores is hard to find, so the
best tree of the arcs alone is improved, one head at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.hot.arcs import (
    GRANDPARENT,
    MARGIN,
    NO_THIRD,
    SIBLING,
    Templates,
    arc_work,
    encode,
    is_among,
    longest_sentence,
    place_of,
    score_arcs,
)
from manykernels.hot.jit import njit
from manykernels.hot.trees import FORBIDDEN, find_tree, tree_work

CANDIDATES = 8  # heads of a word that are tried
SMALLEST_GAIN = np.float32(1e-4)


class ScaledWeights(NamedTuple):
    """Templates and the weights w_t = scale_t * vector_t."""

    templates: Templates
    weights: np.ndarray
    scales: np.ndarray


class ClimbWork(NamedTuple):
    """Arrays for the search; scores of third words are computed once."""

    templates: np.ndarray  # (k,) those with a third word
    candidates: np.ndarray  # (size, CANDIDATES) heads, best first; -1: no more
    cached: np.ndarray  # (2, size, CANDIDATES, size + 1) float32, NaN: not computed yet
    below: np.ndarray  # (size,) whether a word hangs on the word at hand
    children: np.ndarray  # (size,)
    part: np.ndarray  # (parts, 4) kind, head, modifier, third word
    sign: np.ndarray  # (parts,)


@njit(cache=True, nogil=True)
def climb_work(templates, size):
    """Arrays for sentences of so many nodes; tiny without third words."""
    count = 0
    for t in range(len(templates.third)):
        count += templates.third[t] != NO_THIRD
    ids = np.empty(count, np.int64)
    count = 0
    for t in range(len(templates.third)):
        if templates.third[t] != NO_THIRD:
            ids[count] = t
            count += 1
    most = size if count > 0 else 1
    return ClimbWork(
        ids,
        np.empty((most, CANDIDATES), np.int64),
        np.empty((2, most, CANDIDATES, most + 1), np.float32),
        np.empty(most, np.bool_),
        np.empty(most, np.int64),
        np.empty((2 * most + 4, 4), np.int64),
        np.empty(2 * most + 4, np.float32),
    )


@njit(cache=True, nogil=True)
def turn_of(h, m, x):
    """Where the third word stands: left of, between or right of the two."""
    return 0 if x < min(h, m) else (2 if x > max(h, m) else 1)


@njit(cache=True, nogil=True)
def _sum_parts(model, work, climb, count):
    """Sum the first parts of the list; every score is computed once."""
    templates, weights, scales = model.templates, model.weights, model.scales
    size = work.pair.shape[1] // 2
    total = np.float32(0.0)
    for j in range(count):
        kind, h = climb.part[j, 0], climb.part[j, 1]
        m, x = climb.part[j, 2], climb.part[j, 3]
        place = -1
        for k in range(CANDIDATES):
            if climb.candidates[m, k] == h:
                place = k
        value = (
            climb.cached[kind - 1, m, place, x] if place >= 0 else np.float32(np.nan)
        )
        if np.isnan(value):
            value = np.float32(0.0)
            turn = work.turn[turn_of(h, m, x)]
            for t in climb.templates:
                if templates.third[t] != kind or scales[t] == 0.0:
                    continue
                code = (
                    work.head[templates.head_side[t], h]
                    + work.modifier[templates.modifier_side[t], m]
                    + work.pair[templates.pair[t], m - h + size]
                    + work.third[templates.third_side[t], x]
                    + turn
                )
                at = templates.start[t] + place_of(code, templates.shift[t])
                value += np.float32(scales[t]) * weights[at]
            if place >= 0:
                climb.cached[kind - 1, m, place, x] = value
        total += climb.sign[j] * value
    return total


@njit(cache=True, nogil=True)
def _put_part(climb, count, sign, kind, h, m, x):
    climb.part[count, 0], climb.part[count, 1] = kind, h
    climb.part[count, 2], climb.part[count, 3] = m, x
    climb.sign[count] = sign
    return count + 1


@njit(cache=True, nogil=True)
def _list_candidates(scores, n, climb):
    """The best heads of every word by the arcs alone."""
    missing = climb.cached.shape[3] - 1
    for m in range(1, n + 1):
        row = climb.candidates[m]
        for k in range(CANDIDATES):
            row[k] = -1
        for h in range(n + 1):
            if h == m or not scores[h, m] > FORBIDDEN:
                continue
            k = CANDIDATES
            while k > 0 and (row[k - 1] < 0 or scores[row[k - 1], m] < scores[h, m]):
                k -= 1
            if k < CANDIDATES:
                for j in range(CANDIDATES - 1, k, -1):
                    row[j] = row[j - 1]
                row[k] = h
        for kind in range(2):
            for k in range(CANDIDATES):
                for x in range(n + 1):
                    climb.cached[kind, m, k, x] = np.nan
                climb.cached[kind, m, k, missing] = np.nan


@njit(cache=True, nogil=True)
def grandparent(heads, h, missing):
    """The head of the head."""
    return heads[h] if h > 0 else missing


@njit(cache=True, nogil=True)
def inner_sibling(heads, h, m, missing):
    """The child of h next to m on the way from m to h."""
    step = 1 if h > m else -1
    x = m + step
    while x != h:
        if heads[x] == h:
            return x
        x += step
    return missing


@njit(cache=True, nogil=True)
def _outer_sibling(heads, h, m, n):
    """The child of h next to m on the way from h and past m; 0 for none."""
    step = 1 if m > h else -1
    x = m + step
    while 0 < x <= n:
        if heads[x] == h:
            return x
        x += step
    return 0


@njit(cache=True, nogil=True)
def _value_of_head(model, work, climb, n, heads, h, m, n_children):
    """What the tree has from m hanging on h, whether or not it does."""
    missing = work.third.shape[1] - 1
    s = inner_sibling(heads, h, m, missing)
    x = _outer_sibling(heads, h, m, n)
    g = grandparent(heads, h, missing)
    count = _put_part(climb, 0, 1.0, GRANDPARENT, h, m, g)
    count = _put_part(climb, count, 1.0, SIBLING, h, m, s)
    if x > 0:
        count = _put_part(climb, count, 1.0, SIBLING, h, x, m)
        count = _put_part(climb, count, -1.0, SIBLING, h, x, s)
    for k in range(n_children):
        c = climb.children[k]
        count = _put_part(climb, count, 1.0, GRANDPARENT, m, c, h)
    return work.scores[h, m] + _sum_parts(model, work, climb, count)


@njit(cache=True, nogil=True)
def tree_score(model, work, climb, n, heads):
    """The score of a tree."""
    missing = work.third.shape[1] - 1
    total = np.float32(0.0)
    count = 0
    for m in range(1, n + 1):
        h = heads[m]
        g, s = grandparent(heads, h, missing), inner_sibling(heads, h, m, missing)
        total += work.scores[h, m]
        count = _put_part(climb, count, 1.0, GRANDPARENT, h, m, g)
        count = _put_part(climb, count, 1.0, SIBLING, h, m, s)
    return total + _sum_parts(model, work, climb, count)


@njit(cache=True, nogil=True)
def _mark_below(heads, n, m, climb):
    """Mark the words below m, list its children and return their number."""
    count = 0
    for v in range(1, n + 1):
        u = v
        while u != 0 and u != m:
            u = heads[u]
        climb.below[v] = u == m
        if heads[v] == m:
            climb.children[count] = v
            count += 1
    climb.below[0] = False
    return count


@njit(cache=True, nogil=True)
def _move(model, work, climb, n, single_root, heads, m):
    """Hang m where it is worth most; whether that is another place."""
    a = heads[m]
    if single_root and a == 0:
        return False
    n_children = _mark_below(heads, n, m, climb)
    best, value = a, np.float32(FORBIDDEN)
    for k in range(-1, CANDIDATES):
        b = a if k < 0 else climb.candidates[m, k]
        if b < 0:
            break
        if (k >= 0 and b == a) or climb.below[b] or (single_root and b == 0):
            continue
        found = _value_of_head(model, work, climb, n, heads, b, m, n_children)
        if found > value:
            best, value = b, found + (SMALLEST_GAIN if k < 0 else np.float32(0.0))
    heads[m] = best
    return best != a


@njit(cache=True, nogil=True)
def _swap_root(model, work, climb, n, heads):
    """Let another word hang on the root, and the one that does on it."""
    root = 1
    while heads[root] != 0:
        root += 1
    best = np.float32(FORBIDDEN)
    changed = False
    for m in range(n + 1):
        if m == root or (m > 0 and not is_among(0, climb.candidates[m])):
            continue
        if m > 0 and not work.scores[m, root] > FORBIDDEN:
            continue
        a = heads[m]
        if m > 0:  # first comes the tree as it is
            heads[m], heads[root] = 0, m
        value = tree_score(model, work, climb, n, heads)
        if value > best:
            best = value + SMALLEST_GAIN
            changed = m > 0 or changed
            root = m if m > 0 else root
        else:
            heads[m], heads[root] = a, 0
    return changed


@njit(cache=True, nogil=True)
def improve_tree(model, work, climb, n, single_root, heads):
    """Change heads, one at a time, while that makes the tree better."""
    _list_candidates(work.scores, n, climb)
    for _ in range(10):  # bounds the time of a sentence
        changed = False
        for m in range(1, n + 1):
            moved = _move(model, work, climb, n, single_root, heads, m)
            changed = changed or moved
        if single_root and n > 1:
            swapped = _swap_root(model, work, climb, n, heads)
            changed = changed or swapped
        if not changed:
            break


@njit(cache=True, nogil=True)
def parse_corpus(corpus, templates, weights, scales, single_root, heads):
    """heads[row] of the best tree for the words of all sentences."""
    size = longest_sentence(corpus.starts) + 1
    work = arc_work(templates, size)
    tree = tree_work(size)
    climb = climb_work(templates, size)
    found = np.zeros(size, np.int64)
    for i in range(len(corpus.starts) - 1):
        first = corpus.starts[i]
        n = corpus.starts[i + 1] - first - 2 * MARGIN - 1
        count = encode(corpus.tokens, first, n, templates, work)
        score_arcs(templates, weights, scales, work, n, count)
        find_tree(work.scores, n, single_root, tree, found)
        if len(climb.templates) > 0:
            model = ScaledWeights(templates, weights, scales)
            improve_tree(model, work, climb, n, single_root, found)
        for m in range(1, n + 1):
            heads[first + MARGIN + m] = found[m]
