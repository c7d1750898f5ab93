"""Scores of arcs: features, and their weights from tables of hashed places.

A feature of an arc is a hashed combination of what its head, its modifier and their
surroundings show. Templates with a third word are those of `hot/tree_search.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.hot.jit import njit
from manykernels.hot.trees import FORBIDDEN

# Rows of a sentence: MARGIN before the root, the root, the words, MARGIN after them.
MARGIN = 2
N_FIELDS = 6
NO_PAIR, DIRECTION, DISTANCE = 0, 1, 2
NO_THIRD, GRANDPARENT, SIBLING = 0, 1, 2  # the third word of a template
MOST_PLACES = 64  # of one arc in one table: a value between its ends is one bit of 64
BIN_EDGES = (1, 2, 3, 4, 5, 7, 10, 15, 25)  # last distance of each bin but the last


class Corpus(NamedTuple):
    """Sentences one after the other."""

    tokens: np.ndarray  # (rows, N_FIELDS) int32, with root and margins
    starts: np.ndarray  # (sentences + 1,) first row of each sentence
    heads: np.ndarray  # (rows,) int32, head of the word in that row


class Templates(NamedTuple):
    """Arcs that are scored, what their features join, where the weights lie."""

    head_atoms: (
        np.ndarray
    )  # (head sides, k) (offset + MARGIN) * N_FIELDS + field, or -1
    modifier_atoms: np.ndarray  # (modifier sides, k) likewise
    head_side: np.ndarray  # (templates,)
    modifier_side: np.ndarray  # (templates,)
    pair: np.ndarray  # (templates,) NO_PAIR, DIRECTION or DISTANCE
    between: np.ndarray  # (templates,) field of the words between, or -1
    start: np.ndarray  # (templates + 1,) first weight of each template
    shift: np.ndarray  # (templates,) uint32, 32 - log2(weights of the template)
    reach: np.ndarray  # (tags, tags, 2) int32, longest arc from left, from right
    reach_field: int  # field with the tags of `reach`
    third_atoms: np.ndarray  # (third sides, k) likewise, of a third word
    third_side: np.ndarray  # (templates,)
    third: np.ndarray  # (templates,) NO_THIRD, GRANDPARENT or SIBLING


class ArcWork(NamedTuple):
    """Codes of one sentence; a feature's place comes from the sum of its codes."""

    head: np.ndarray  # (head sides, size) uint32
    modifier: np.ndarray  # (modifier sides, size) uint32
    pair: np.ndarray  # (3, 2 size) uint32, by m - h + size
    inner: np.ndarray  # (N_FIELDS, size, size) uint64, values between h and m
    tag: np.ndarray  # (64,) uint32
    arc_head: np.ndarray  # (size^2,) uint32, the arcs that are scored
    arc_modifier: np.ndarray  # (size^2,) uint32
    arc_pair: np.ndarray  # (size^2,) uint32, place in `pair`
    arc_place: np.ndarray  # (size^2,) uint32, place in the table at hand
    arc_score: np.ndarray  # (size^2,) float32
    n_inner: np.ndarray  # (N_FIELDS,) pairs of an arc and a value between its ends
    inner_arc: np.ndarray  # (N_FIELDS, pairs) uint32
    inner_value: np.ndarray  # (N_FIELDS, pairs) uint32
    inner_place: np.ndarray  # (pairs,) uint32
    scores: np.ndarray  # (size, size) float32, minus infinity for all other arcs
    third: np.ndarray  # (third sides, size + 1) uint32, the last for no word
    turn: np.ndarray  # (3,) uint32, the third word left of, between, right of the two


@njit(cache=True, nogil=True)
def _mixed(x):
    """A 32-bit finaliser: every bit of the input moves half of those of the output."""
    x = np.uint32(x)
    x ^= x >> np.uint32(16)
    x = np.uint32(x * np.uint32(0x7FEB352D))
    x ^= x >> np.uint32(15)
    x = np.uint32(x * np.uint32(0x846CA68B))
    x ^= x >> np.uint32(16)
    return x


@njit(cache=True, nogil=True)
def place_of(code, shift):
    """Place in a table; the steps keep equal parts of two sums from clashing always."""
    code = np.uint32(code)
    code ^= code >> np.uint32(15)
    code = np.uint32(code * np.uint32(0x2C1B3C6D))
    return code >> shift


@njit(cache=True, nogil=True)
def _distance_bin(gap):
    for k in range(len(BIN_EDGES)):
        if gap <= BIN_EDGES[k]:
            return k
    return len(BIN_EDGES)


@njit(cache=True, nogil=True)
def arc_work(templates, size):
    """Arrays for sentences of so many nodes, and codes that all of them share."""
    n_inner = 1
    for t in range(len(templates.between)):
        if templates.between[t] >= 0:
            n_inner = size * size * min(size, MOST_PLACES)
    work = ArcWork(
        np.empty((len(templates.head_atoms), size), np.uint32),
        np.empty((len(templates.modifier_atoms), size), np.uint32),
        np.zeros((3, 2 * size), np.uint32),
        np.zeros((N_FIELDS, size, size), np.uint64),
        np.empty(64, np.uint32),
        np.empty(size * size, np.uint32),
        np.empty(size * size, np.uint32),
        np.empty(size * size, np.uint32),
        np.empty(size * size, np.uint32),
        np.empty(size * size, np.float32),
        np.zeros(N_FIELDS, np.int64),
        np.empty((N_FIELDS, n_inner), np.uint32),
        np.empty((N_FIELDS, n_inner), np.uint32),
        np.empty(n_inner, np.uint32),
        np.empty((size, size), np.float32),
        np.empty((len(templates.third_atoms), size + 1), np.uint32),
        np.empty(3, np.uint32),
    )
    for k in range(3):
        work.turn[k] = _mixed(0x7C41 + k)
    for k in range(len(templates.third_atoms)):
        work.third[k, size] = _mixed(0x3F00 + k)
    for k in range(64):  # one code per bit of `inner`
        work.tag[k] = _mixed(k + 0x51ED27)
    for place in range(2 * size):
        gap = place - size
        side = 1 if gap > 0 else 0
        work.pair[DIRECTION, place] = _mixed(0x9E37 + side)
        bins = 2 * _distance_bin(abs(gap)) + side
        work.pair[DISTANCE, place] = _mixed(0xD157 + bins)
    return work


@njit(cache=True, nogil=True)
def _side_codes(tokens, first, n, atoms, salt, codes):
    """codes[s, i]: what node i shows to side s, in 32 bits."""
    for s in range(len(atoms)):
        for i in range(n + 1):
            code = _mixed(salt + s)
            for k in range(atoms.shape[1]):
                atom = atoms[s, k]
                if atom < 0:
                    break
                row = first + i + atom // N_FIELDS
                value = tokens[row, atom % N_FIELDS]
                code = _mixed(code ^ np.uint32(value * 64 + atom))
            codes[s, i] = code


@njit(cache=True, nogil=True)
def _values_between(tokens, first, n, field, inner):
    """inner[h, m]: one bit for each value that a word strictly between them has."""
    for h in range(n + 1):
        bits = np.uint64(0)
        for m in range(h + 1, n + 1):
            inner[h, m] = bits
            inner[m, h] = bits
            value = tokens[first + MARGIN + m, field]
            bits |= np.uint64(1) << np.uint64(value & 63)


@njit(cache=True, nogil=True)
def _list_arcs(tokens, first, n, templates, work):
    """Arcs from the root, between neighbors, and not longer than their tags allow."""
    size = work.pair.shape[1] // 2
    count = 0
    for h in range(n + 1):
        own = tokens[first + MARGIN + h, templates.reach_field]
        for m in range(1, n + 1):
            gap = abs(m - h)
            if gap == 0:
                continue
            if h > 0 and gap > 1:
                other = tokens[first + MARGIN + m, templates.reach_field]
                if gap > templates.reach[own, other, 1 if m > h else 0]:
                    continue
            work.arc_head[count] = h
            work.arc_modifier[count] = m
            work.arc_pair[count] = m - h + size
            count += 1
    return count


@njit(cache=True, nogil=True)
def _list_inner(field, work, count):
    """The values between the ends of every arc, one pair after the other."""
    present = np.uint64(0)
    for a in range(count):
        present |= work.inner[field, work.arc_head[a], work.arc_modifier[a]]
    values = work.arc_place
    n_values = 0
    for k in range(64):
        if present >> np.uint64(k) & np.uint64(1):
            values[n_values] = k
            n_values += 1
    n_inner = 0
    for a in range(count):
        bits = work.inner[field, work.arc_head[a], work.arc_modifier[a]]
        for k in range(n_values):
            if bits >> np.uint64(values[k]) & np.uint64(1):
                work.inner_arc[field, n_inner] = a
                work.inner_value[field, n_inner] = values[k]
                n_inner += 1
    work.n_inner[field] = n_inner


@njit(cache=True, nogil=True)
def is_among(value, values):
    """Whether an array has the value."""
    for k in range(len(values)):
        if values[k] == value:
            return True
    return False


@njit(cache=True, nogil=True)
def encode(tokens, first, n, templates, work):
    """Codes and arcs of a sentence; returns the number of arcs."""
    _side_codes(tokens, first, n, templates.head_atoms, 0x1000, work.head)
    _side_codes(tokens, first, n, templates.modifier_atoms, 0x2000, work.modifier)
    _side_codes(tokens, first, n, templates.third_atoms, 0x3000, work.third)
    count = _list_arcs(tokens, first, n, templates, work)
    for field in range(N_FIELDS):
        if is_among(field, templates.between):
            _values_between(tokens, first, n, field, work.inner[field])
            _list_inner(field, work, count)
    return count


@njit(cache=True, nogil=True)
def _add_scores(table, scale, shift, head, modifier, pair, work, count):
    """arc_score += scale * table[place of the arc's feature].

    Reading memory takes the time. All places are computed before the first read, so
    that many reads are under way at once.
    """
    heads, modifiers, pairs = work.arc_head, work.arc_modifier, work.arc_pair
    places, scores = work.arc_place, work.arc_score
    for a in range(count):
        code = head[heads[a]] + modifier[modifiers[a]] + pair[pairs[a]]
        places[a] = place_of(code, shift)
    for a in range(count):
        scores[a] += scale * table[places[a]]


@njit(cache=True, nogil=True)
def _add_between(table, scale, shift, head, modifier, pair, field, work, count):
    """Likewise with one feature for each value between head and modifier."""
    heads, modifiers, pairs = work.arc_head, work.arc_modifier, work.arc_pair
    codes, places, scores = work.arc_place, work.inner_place, work.arc_score
    arcs, values = work.inner_arc[field], work.inner_value[field]
    n_inner = work.n_inner[field]
    for a in range(count):
        code = head[heads[a]] + modifier[modifiers[a]] + pair[pairs[a]]
        codes[a] = np.uint32(code)
    for k in range(n_inner):
        places[k] = place_of(codes[arcs[k]] + work.tag[values[k]], shift)
    for k in range(n_inner):
        scores[arcs[k]] += scale * table[places[k]]


@njit(cache=True, nogil=True)
def score_arcs(templates, weights, scales, work, n, count):
    """work.scores of a sentence that is encoded; templates of scale 0 are skipped."""
    for a in range(count):
        work.arc_score[a] = 0.0
    for t in range(len(templates.pair)):
        if scales[t] == 0.0 or templates.third[t] != NO_THIRD:
            continue
        table = weights[templates.start[t] : templates.start[t + 1]]
        head = work.head[templates.head_side[t]]
        modifier = work.modifier[templates.modifier_side[t]]
        pair = work.pair[templates.pair[t]]
        scale, shift = np.float32(scales[t]), templates.shift[t]
        field = templates.between[t]
        if field < 0:
            _add_scores(table, scale, shift, head, modifier, pair, work, count)
        else:
            _add_between(table, scale, shift, head, modifier, pair, field, work, count)
    for h in range(n + 1):
        for m in range(n + 1):
            work.scores[h, m] = FORBIDDEN
    for a in range(count):
        work.scores[work.arc_head[a], work.arc_modifier[a]] = work.arc_score[a]


@njit(cache=True, nogil=True)
def longest_sentence(starts):
    """Words of the longest of the sentences."""
    longest = 0
    for i in range(len(starts) - 1):
        longest = max(longest, starts[i + 1] - starts[i] - 2 * MARGIN - 1)
    return longest


@njit(cache=True, nogil=True)
def arc_scores(corpus, templates, weights, scales, i):
    """scores (n + 1, n + 1) float32 of sentence i."""
    first = corpus.starts[i]
    n = corpus.starts[i + 1] - first - 2 * MARGIN - 1
    work = arc_work(templates, n + 1)
    count = encode(corpus.tokens, first, n, templates, work)
    score_arcs(templates, weights, scales, work, n, count)
    return work.scores
