"""Trees over the words of a sentence: best tree, marginals, arc scores, training.

Node 0 is the root and nodes 1 ... n are the words; scores[h, m] belongs to the arc from
head h to modifier m. Column 0 and the diagonal are never read.

The file is long because its loops call each other: Numba's cache on disk looks at one
file only (see `hot/prox.py` for the one exception).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.hot.lazy import njit
from manykernels.hot.prox import prox_steps

NOTHING = -np.inf

# --- best tree ---------------------------------------------------------------


@njit(cache=True, nogil=True)
def _load(scores, n, single_root, into, arcs):
    """into[m, h] = scores[h, m], the root handicapped if it may have one child only.

    A handicap above any difference between two trees makes the best tree use as few
    arcs from the root as it can, which is one wherever one suffices.
    """
    size = n + 1
    low, high = np.inf, -np.inf
    for h in range(size):
        for m in range(1, size):
            value = scores[h, m]
            if h == m or not value > NOTHING:
                into[m, h] = NOTHING
            else:
                into[m, h] = value
                low = min(low, value)
                high = max(high, value)
            arcs[m, h] = m * size + h
    if single_root and high > NOTHING:
        handicap = n * (high - low) + 1.0
        for m in range(1, size):
            into[m, 0] -= handicap


@njit(cache=True, nogil=True)
def _contract(into, arcs, cycle, length, best, size, new_id, ids, parent):
    """Make one node of a cycle, in the place of its first node."""
    keep = cycle[0]
    for k in range(length):
        v = cycle[k]
        parent[ids[v]] = new_id
        for u in range(size):
            into[v, u] -= best[v]
    for k in range(1, length):
        v = cycle[k]
        for u in range(size):
            if into[v, u] > into[keep, u]:
                into[keep, u] = into[v, u]
                arcs[keep, u] = arcs[v, u]
        for x in range(1, size):
            if into[x, v] > into[x, keep]:
                into[x, keep] = into[x, v]
                arcs[x, keep] = arcs[x, v]
            into[x, v] = NOTHING
    for k in range(length):
        into[keep, cycle[k]] = NOTHING
    ids[keep] = new_id


class TreeWork(NamedTuple):
    """Room for one sentence of at most `size` nodes."""

    into: np.ndarray  # (size, size) best score of an arc into m from h
    arcs: np.ndarray  # (size, size) the original arc behind it, m * size + h
    best: np.ndarray  # (size,)
    state: np.ndarray  # (size,) 0 new, 1 on the path, 2 reached from the root
    path: np.ndarray  # (size,)
    cycle: np.ndarray  # (size,)
    owner: np.ndarray  # (size,) the node that stands for a contracted one
    ids: np.ndarray  # (size,)
    parent: np.ndarray  # (2 size,)
    chosen: np.ndarray  # (2 size,) arc into every node, contracted ones included


@njit(cache=True, nogil=True)
def _tree_work(size):
    return TreeWork(
        np.empty((size, size)),
        np.empty((size, size), np.int64),
        np.empty(size),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(2 * size, np.int64),
        np.empty(2 * size, np.int64),
    )


@njit(cache=True, nogil=True)
def _find(owner, v):
    while owner[v] != v:
        owner[v] = owner[owner[v]]
        v = owner[v]
    return v


@njit(cache=True, nogil=True)
def _take_cycle(path, length, first, cycle):
    """Copy the end of a path from the node `first` on, backwards; its length."""
    count = 0
    while True:
        cycle[count] = path[length - 1 - count]
        count += 1
        if cycle[count - 1] == first:
            return count


@njit(cache=True, nogil=True)
def _best_tree(scores, n, single_root, work, heads):
    """heads[m] for m = 1 ... n of the best tree, in O(n^2); False if there is none.

    A path of best arcs is followed backwards until it meets the root's part; a cycle
    on the way becomes one node (Chu-Liu-Edmonds, in Tarjan's order).
    """
    size = n + 1
    into, arcs, best = work.into, work.arcs, work.best
    state, path, cycle, owner = work.state, work.path, work.cycle, work.owner
    ids, parent, chosen = work.ids, work.parent, work.chosen
    _load(scores, n, single_root, into, arcs)
    for v in range(size):
        state[v], owner[v], ids[v] = 0, v, v
    for v in range(2 * size):
        parent[v] = -1
    state[0] = 2
    n_ids = size
    for start in range(1, size):
        v = _find(owner, start)
        length = 0
        while state[v] != 2:
            state[v] = 1
            path[length] = v
            length += 1
            u = 0
            top = NOTHING
            for h in range(size):
                if into[v, h] > top:
                    top = into[v, h]
                    u = h
            if top == NOTHING:
                return False
            best[v] = top
            chosen[ids[v]] = arcs[v, u]
            if state[u] != 1:
                v = u
                continue
            count = _take_cycle(path, length, u, cycle)
            length -= count
            _contract(into, arcs, cycle, count, best, size, n_ids, ids, parent)
            n_ids += 1
            for k in range(1, count):
                owner[cycle[k]] = cycle[0]
            v = cycle[0]
        for k in range(length):
            state[path[k]] = 2
    for node in range(n_ids - 1, size - 1, -1):
        arc = chosen[node]
        x = arc // size
        while parent[x] != node:
            x = parent[x]
        chosen[x] = arc
    for m in range(1, size):
        heads[m] = chosen[m] % size
    return True


@njit(cache=True, nogil=True)
def best_trees(scores, lengths, single_root):
    """heads (sentences, n_max) of the best trees; 0 words long where there is none.

    scores (sentences, n_max + 1, n_max + 1) are read up to each length.
    """
    n_sentences, size = scores.shape[0], scores.shape[1]
    heads = np.zeros((n_sentences, size - 1), np.int64)
    found = np.ones(n_sentences, np.bool_)
    work = _tree_work(size)
    row = np.zeros(size, np.int64)
    for i in range(n_sentences):
        n = lengths[i]
        found[i] = _best_tree(scores[i], n, single_root, work, row)
        for m in range(1, n + 1):
            heads[i, m - 1] = row[m]
    return heads, found


# --- marginals ---------------------------------------------------------------

TINY = 1e-150
DEEPEST = -700.0  # exp of less is no ordinary number


@njit(cache=True, nogil=True)
def _exp(difference):
    """exp, but never zero unless the arc is forbidden."""
    return np.exp(max(difference, DEEPEST)) if difference > NOTHING else 0.0


@njit(cache=True, nogil=True)
def _weights(scores, n, single_root, a):
    """a[h, m] = exp(score) up to factors whose logarithms are summed and returned.

    Each word has one head, so a factor per word changes no marginal; with one child
    of the root, neither does a factor of all its arcs.
    """
    shift = 0.0
    first = 1 if single_root and n > 1 else 0
    for m in range(1, n + 1):
        top = NOTHING
        for h in range(first, n + 1):
            if h != m:
                top = max(top, scores[h, m])
        if top == NOTHING:
            return NOTHING
        shift += top
        for h in range(n + 1):
            a[h, m] = 0.0
            if h != m and (h > 0 or first == 0):
                a[h, m] = _exp(scores[h, m] - top)
        if first == 1:
            a[0, m] = scores[0, m] - top
    if first == 1:
        top = NOTHING
        for m in range(1, n + 1):
            top = max(top, a[0, m])
        if top == NOTHING:
            return NOTHING
        shift += top
        for m in range(1, n + 1):
            a[0, m] = _exp(a[0, m] - top)
    return shift


@njit(cache=True, nogil=True)
def _eliminate(a, n, single_root, shares, through):
    """Take the words out, the last one first; the logarithm of the sum over trees.

    Every arc j -> k -> i through the word k becomes a part of j -> i:
    a[j, i] += a[j, k] a[k, i] / p,  p = sum_j a[j, k].  Nothing is ever subtracted, so
    nothing cancels, however unequal the scores are. With one child of the root, its
    arcs are infinitely light: they enter p only where there are no others.
    """
    log_sum = 0.0
    place = 0
    for k in range(n, 0, -1):
        first = 1 if single_root and k > 1 else 0
        pivot = 0.0
        for j in range(first, k):
            pivot += a[j, k]
        if pivot <= 0.0:
            return NOTHING
        log_sum += np.log(pivot)
        for j in range(k):
            shares[j, k] = a[j, k] / pivot
        for i in range(1, k):
            top = 0.0
            for j in range(k):
                if j == i:
                    continue
                detour = shares[j, k] * a[k, i]
                total = a[j, i] + detour
                through[place + (i - 1) * k + j] = detour / total if detour > 0 else 0.0
                a[j, i] = total
                if j >= first:
                    top = max(top, total)
            if 0.0 < top < TINY:
                for j in range(k):
                    a[j, i] /= top
                log_sum += np.log(top)
        place += k * (k - 1)
    return log_sum


@njit(cache=True, nogil=True)
def _unfold(n, single_root, shares, through, marginals):
    """Marginals of all arcs from those without word k, for k = 1 ... n."""
    for h in range(n + 1):
        for m in range(n + 1):
            marginals[h, m] = 0.0
    place = 0
    for k in range(1, n + 1):
        place += k * (k - 1)
    for k in range(1, n + 1):
        place -= k * (k - 1)
        children = 0.0
        for i in range(1, k):
            for j in range(k):
                if j == i:
                    continue
                part = through[place + (i - 1) * k + j] * marginals[j, i]
                marginals[j, i] -= part
                marginals[j, k] += part
                marginals[k, i] += part
                children += part
        first = 1 if single_root and k > 1 else 0
        for j in range(first, k):
            marginals[j, k] += shares[j, k] * (1.0 - children)


@njit(cache=True, nogil=True)
def tree_marginals(scores, n, single_root, a, shares, through, marginals):
    """Log-partition of all trees; marginals[h, m] = probability of the arc.

    a, shares and marginals have n + 1 rows and columns, through has room for
    (n + 1) n (n - 1) / 3 numbers.
    """
    shift = _weights(scores, n, single_root, a)
    if shift == NOTHING:
        return NOTHING
    log_sum = _eliminate(a, n, single_root, shares, through)
    if log_sum == NOTHING:
        return NOTHING
    _unfold(n, single_root, shares, through, marginals)
    for h in range(n + 1):
        for m in range(1, n + 1):
            marginals[h, m] = min(max(marginals[h, m], 0.0), 1.0)
    return shift + log_sum


# --- arc scores --------------------------------------------------------------

# Rows of a sentence: MARGIN before the root, the root, the words, MARGIN after them.
MARGIN = 2
N_FIELDS = 4
NO_PAIR, DIRECTION, DISTANCE = 0, 1, 2
BIN_EDGES = (1, 2, 3, 4, 5, 7, 10, 15, 25)  # last distance of each bin but the last


class Corpus(NamedTuple):
    """Sentences one after the other."""

    tokens: np.ndarray  # (rows, N_FIELDS) int32, with root and margins
    starts: np.ndarray  # (sentences + 1,) first row of each sentence
    heads: np.ndarray  # (rows,) int32, head of the word in that row


class Templates(NamedTuple):
    """Which arcs are looked at, what their features join, where the weights lie."""

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


class ArcWork(NamedTuple):
    """Codes of one sentence; a feature's place comes from the sum of its codes."""

    head: np.ndarray  # (head sides, size) uint32
    modifier: np.ndarray  # (modifier sides, size) uint32
    pair: np.ndarray  # (3, 2 size) uint32, by m - h + size
    seen: np.ndarray  # (N_FIELDS, size, size) uint64, values between h and m
    tag: np.ndarray  # (64,) uint32
    arc_head: np.ndarray  # (size^2,) uint32, the arcs that are looked at
    arc_modifier: np.ndarray  # (size^2,) uint32
    arc_pair: np.ndarray  # (size^2,) uint32, place in `pair`
    arc_place: np.ndarray  # (size^2,) uint32, place in the table at hand
    arc_score: np.ndarray  # (size^2,) float32
    n_inner: np.ndarray  # (N_FIELDS,) pairs of an arc and a value between its ends
    inner_arc: np.ndarray  # (N_FIELDS, pairs) uint32
    inner_value: np.ndarray  # (N_FIELDS, pairs) uint32
    inner_place: np.ndarray  # (pairs,) uint32
    scores: np.ndarray  # (size, size) float32, minus infinity for all other arcs


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
def _place(code, shift):
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
def _arc_work(templates, size):
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
    )
    for k in range(64):  # one code per bit of `seen`
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
def _values_between(tokens, first, n, field, seen):
    """seen[h, m]: one bit for each value that a word strictly between them has."""
    for h in range(n + 1):
        bits = np.uint64(0)
        for m in range(h + 1, n + 1):
            seen[h, m] = bits
            seen[m, h] = bits
            value = tokens[first + MARGIN + m, field]
            bits |= np.uint64(1) << np.uint64(value & 63)


@njit(cache=True, nogil=True)
def _list_arcs(tokens, first, n, templates, work):
    """Arcs from the root, between neighbors, and no longer than any seen before."""
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
        present |= work.seen[field, work.arc_head[a], work.arc_modifier[a]]
    values = work.arc_place
    n_values = 0
    for k in range(64):
        if present >> np.uint64(k) & np.uint64(1):
            values[n_values] = k
            n_values += 1
    n_inner = 0
    for a in range(count):
        bits = work.seen[field, work.arc_head[a], work.arc_modifier[a]]
        for k in range(n_values):
            if bits >> np.uint64(values[k]) & np.uint64(1):
                work.inner_arc[field, n_inner] = a
                work.inner_value[field, n_inner] = values[k]
                n_inner += 1
    work.n_inner[field] = n_inner


@njit(cache=True, nogil=True)
def _is_among(value, values):
    for k in range(len(values)):
        if values[k] == value:
            return True
    return False


@njit(cache=True, nogil=True)
def _encode(tokens, first, n, templates, work):
    """Codes and arcs of a sentence; returns the number of arcs."""
    _side_codes(tokens, first, n, templates.head_atoms, 0x1000, work.head)
    _side_codes(tokens, first, n, templates.modifier_atoms, 0x2000, work.modifier)
    count = _list_arcs(tokens, first, n, templates, work)
    for field in range(N_FIELDS):
        if _is_among(field, templates.between):
            _values_between(tokens, first, n, field, work.seen[field])
            _list_inner(field, work, count)
    return count


@njit(cache=True, nogil=True)
def _add_scores(table, scale, shift, head, modifier, pair, work, count):
    """arc_score += scale * table[place of the arc's feature].

    Memory is what takes the time. All places are known before the first look-up, so
    that many look-ups are under way at once.
    """
    heads, modifiers, pairs = work.arc_head, work.arc_modifier, work.arc_pair
    places, scores = work.arc_place, work.arc_score
    for a in range(count):
        code = head[heads[a]] + modifier[modifiers[a]] + pair[pairs[a]]
        places[a] = _place(code, shift)
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
        places[k] = _place(codes[arcs[k]] + work.tag[values[k]], shift)
    for k in range(n_inner):
        scores[arcs[k]] += scale * table[places[k]]


@njit(cache=True, nogil=True)
def _score_arcs(templates, weights, scales, work, n, count):
    """work.scores of a sentence that is encoded; templates of scale 0 are skipped."""
    for a in range(count):
        work.arc_score[a] = 0.0
    for t in range(len(templates.pair)):
        if scales[t] == 0.0:
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
            work.scores[h, m] = NOTHING
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
    work = _arc_work(templates, n + 1)
    count = _encode(corpus.tokens, first, n, templates, work)
    _score_arcs(templates, weights, scales, work, n, count)
    return work.scores


@njit(cache=True, nogil=True)
def parse_corpus(corpus, templates, weights, scales, single_root, start, stop, heads):
    """heads[row] of the best tree for the words of sentences start ... stop - 1."""
    size = longest_sentence(corpus.starts[start : stop + 1]) + 1
    work = _arc_work(templates, size)
    tree = _tree_work(size)
    found = np.zeros(size, np.int64)
    for i in range(start, stop):
        first = corpus.starts[i]
        n = corpus.starts[i + 1] - first - 2 * MARGIN - 1
        count = _encode(corpus.tokens, first, n, templates, work)
        _score_arcs(templates, weights, scales, work, n, count)
        _best_tree(work.scores, n, single_root, tree, found)
        for m in range(1, n + 1):
            heads[first + MARGIN + m] = found[m]


# --- training ----------------------------------------------------------------

# A scale below this is put into its vector, which is in single precision.
SMALLEST_SCALE = 1e-3
# Arcs that a CRF step leaves alone: marginals this close to the truth.
NEGLIGIBLE = 1e-3
MOST_PLACES = 64  # of one arc in one table: a value between its ends is one bit of 64


class Tables(NamedTuple):
    """w_t = scale_t * vector_t, and what the average over rounds needs.

    With dual averaging, the vector is the sum of all gradients and stays when its scale
    falls to zero; otherwise scales are positive, and a template at zero has no vector.

    The sum of w_t over all rounds is passed_t * vector_t - offset_t, where passed_t
    sums the scales of the rounds since the last flush of template t.
    """

    vector: np.ndarray  # (weights,) float32
    offset: np.ndarray  # (weights,) float32
    scale: np.ndarray  # (templates,)
    passed: np.ndarray  # (templates,)
    square: np.ndarray  # (templates,) ||vector_t||^2
    touched: np.ndarray  # (templates, k) places written since the last flush to zero
    n_touched: np.ndarray  # (templates,) more than k: too many to remember


class Rule(NamedTuple):
    """What a round does."""

    passive_aggressive: bool
    dual_averaging: bool
    single_root: bool
    step: float  # of a round, for features of unit length in all templates together
    reg: float


class Updates(NamedTuple):
    """Arcs of one sentence and the change of their weights, before the step."""

    head: np.ndarray
    modifier: np.ndarray
    change: np.ndarray


@njit(cache=True, nogil=True)
def _flush(tables, begin, end, t):
    """Bring the average up to date: vector_t := w_t, and passed_t := 0."""
    scale = np.float32(tables.scale[t])
    passed = np.float32(tables.passed[t])
    for k in range(begin, end):
        tables.offset[k] -= passed * tables.vector[k]
        tables.vector[k] *= scale
    tables.square[t] *= tables.scale[t] ** 2
    tables.scale[t] = 1.0
    tables.passed[t] = 0.0


@njit(cache=True, nogil=True)
def _clear(tables, begin, end, t):
    """w_t := 0; only the places that were written are visited, if they are known."""
    passed = np.float32(tables.passed[t])
    known = tables.n_touched[t] <= tables.touched.shape[1]
    count = tables.n_touched[t] if known else end - begin
    for j in range(count):
        k = begin + (tables.touched[t, j] if known else j)
        # A place may be listed twice: it is zero when it comes again.
        tables.offset[k] -= passed * tables.vector[k]
        tables.vector[k] = 0.0
    tables.square[t] = 0.0
    tables.scale[t] = 1.0
    tables.passed[t] = 0.0
    tables.n_touched[t] = 0


@njit(cache=True, nogil=True)
def flush_all(templates, tables):
    """Flush every template, and compute its norm anew."""
    for t in range(len(templates.pair)):
        begin, end = templates.start[t], templates.start[t + 1]
        _flush(tables, begin, end, t)
        total = 0.0
        for k in range(begin, end):
            total += np.float64(tables.vector[k]) ** 2
        tables.square[t] = total


@njit(cache=True, nogil=True)
def last_weights(templates, tables):
    """The weights after the last round."""
    weights = np.empty_like(tables.vector)
    for t in range(len(templates.pair)):
        scale = np.float32(tables.scale[t])
        for k in range(templates.start[t], templates.start[t + 1]):
            weights[k] = scale * tables.vector[k]
    return weights


@njit(cache=True, nogil=True)
def mean_weights(templates, tables, rounds):
    """The mean over all rounds, but zero for templates that ended at zero."""
    weights = np.zeros_like(tables.vector)
    for t in range(len(templates.pair)):
        if tables.scale[t] * tables.square[t] == 0.0:
            continue
        passed = np.float32(tables.passed[t])
        for k in range(templates.start[t], templates.start[t + 1]):
            total = passed * tables.vector[k] - tables.offset[k]
            weights[k] = total / np.float32(rounds)
    return weights


@njit(cache=True, nogil=True)
def shrink_factors(norms, terms, step, factors):
    """factors = prox(norms) / norms, the norms of templates at zero being zero."""
    for t in range(len(norms)):
        factors[t] = norms[t]
    prox_steps(factors, terms, step)
    for t in range(len(norms)):
        factors[t] = factors[t] / norms[t] if norms[t] > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _shrink(templates, tables, rule, terms, gain, norms, factors):
    """The proximal step on all templates."""
    n_templates = len(templates.pair)
    for t in range(n_templates):
        norms[t] = tables.scale[t] * np.sqrt(max(tables.square[t], 0.0)) / gain
    shrink_factors(norms, terms, rule.step * rule.reg, factors)
    for t in range(n_templates):
        begin, end = templates.start[t], templates.start[t + 1]
        if factors[t] == 0.0:
            if tables.n_touched[t] > 0:
                _clear(tables, begin, end, t)
            continue
        tables.scale[t] *= factors[t]
        if tables.scale[t] < SMALLEST_SCALE:
            _flush(tables, begin, end, t)


@njit(cache=True, nogil=True)
def _rescale(tables, rule, terms, gain, passes, n_sentences, norms, factors):
    """Dual averaging: w = argmin t reg penalty(w) + ||w - a z||^2 / (2 a), a = step_t.

    z is minus the sum of all gradients, and step_t = step / sqrt(passes). What one
    round adds to a template is noise; the sum is compared with all that the penalty
    has asked for so far, so that templates without a signal come out at zero.
    """
    step = rule.step / np.sqrt(passes)
    for t in range(len(norms)):
        norms[t] = step * np.sqrt(max(tables.square[t], 0.0)) / gain
    due = step * rule.reg * passes * n_sentences
    shrink_factors(norms, terms, due, factors)
    for t in range(len(norms)):
        tables.scale[t] = step * factors[t]


@njit(cache=True, nogil=True)
def _feature_codes(templates, work, t, h, m):
    size = work.pair.shape[1] // 2
    return (
        work.head[templates.head_side[t], h]
        + work.modifier[templates.modifier_side[t], m]
        + work.pair[templates.pair[t], m - h + size]
    )


@njit(cache=True, nogil=True)
def _places(templates, work, t, h, m, places):
    """Places of an arc's features in the table of template t; returns their number."""
    code = _feature_codes(templates, work, t, h, m)
    shift = templates.shift[t]
    field = templates.between[t]
    if field < 0:
        places[0] = _place(code, shift)
        return 1
    count = 0
    bits = work.seen[field, h, m]
    k = 0
    while bits:
        if bits & np.uint64(1):
            places[count] = _place(code + work.tag[k], shift)
            count += 1
        bits >>= np.uint64(1)
        k += 1
    return count


@njit(cache=True, nogil=True)
def _square_length(templates, work, updates, count, counts, places):
    """||sum of change * features||^2; `counts` is all zero before and after."""
    total = 0.0
    for t in range(len(templates.pair)):
        for j in range(count):
            found = _places(
                templates, work, t, updates.head[j], updates.modifier[j], places
            )
            for k in range(found):
                counts[places[k]] += np.float32(updates.change[j])
        for j in range(count):
            found = _places(
                templates, work, t, updates.head[j], updates.modifier[j], places
            )
            for k in range(found):
                total += np.float64(counts[places[k]]) ** 2
                counts[places[k]] = 0.0
    return total


@njit(cache=True, nogil=True)
def _update(templates, tables, work, updates, count, step, dual_averaging, places):
    """w += step * sum of change * features, with the norms kept exact.

    With dual averaging the vectors are moved, whatever their scales are.
    """
    capacity = tables.touched.shape[1]
    for t in range(len(templates.pair)):
        begin = templates.start[t]
        factor = step if dual_averaging else step / tables.scale[t]
        passed = tables.passed[t]
        square = tables.square[t]
        for j in range(count):
            change = np.float32(factor * updates.change[j])
            late = np.float32(passed * factor * updates.change[j])
            found = _places(
                templates, work, t, updates.head[j], updates.modifier[j], places
            )
            for k in range(found):
                place = begin + places[k]
                before = np.float64(tables.vector[place])
                tables.vector[place] += change
                tables.offset[place] += late
                after = np.float64(tables.vector[place])
                square += after * after - before * before
                if tables.n_touched[t] < capacity:
                    tables.touched[t, tables.n_touched[t]] = places[k]
                tables.n_touched[t] = min(tables.n_touched[t] + 1, capacity + 1)
        tables.square[t] = square


@njit(cache=True, nogil=True)
def _hinge_updates(scores, n, heads, single_root, tree, found, updates):
    """Loss of the cost-augmented best tree, and the arcs in which it is wrong."""
    for m in range(1, n + 1):
        gold = heads[m]
        for h in range(n + 1):
            if h != gold:
                scores[h, m] += np.float32(1.0)
    _best_tree(scores, n, single_root, tree, found)
    loss = 0.0
    count = 0
    for m in range(1, n + 1):
        gold = heads[m]
        if found[m] == gold:
            continue
        loss += np.float64(scores[found[m], m]) - np.float64(scores[gold, m])
        updates.head[count], updates.head[count + 1] = gold, found[m]
        updates.modifier[count], updates.modifier[count + 1] = m, m
        updates.change[count], updates.change[count + 1] = 1.0, -1.0
        count += 2
    return loss, count, count // 2


@njit(cache=True, nogil=True)
def _crf_updates(scores, n, heads, single_root, sums, updates):
    """Minus the log-probability of the tree; truth minus marginal for each arc."""
    a, shares, through, marginals = sums
    log_sum = tree_marginals(scores, n, single_root, a, shares, through, marginals)
    count = 0
    wrong = 0
    for m in range(1, n + 1):
        gold = heads[m]
        log_sum -= scores[gold, m]
        wrong += marginals[gold, m] < 0.5
        for h in range(n + 1):
            change = (1.0 if h == gold else 0.0) - marginals[h, m]
            if abs(change) > NEGLIGIBLE:
                updates.head[count] = h
                updates.modifier[count] = m
                updates.change[count] = change
                count += 1
    return max(log_sum, 0.0), count, wrong


class EpochWork(NamedTuple):
    """Room for an epoch."""

    arcs: ArcWork
    tree: TreeWork
    found: np.ndarray  # (size,) heads
    updates: Updates
    places: np.ndarray  # (MOST_PLACES,)
    counts: np.ndarray  # (weights of the largest template,) all zero between uses
    norms: np.ndarray  # (templates,)
    factors: np.ndarray  # (templates,)
    scales: np.ndarray  # (templates,) 0 for templates that need no look


@njit(cache=True, nogil=True)
def _epoch_work(templates, size, most_updates, passive_aggressive):
    n_templates = len(templates.pair)
    largest = 1
    if passive_aggressive:
        for t in range(n_templates):
            largest = max(largest, templates.start[t + 1] - templates.start[t])
    return EpochWork(
        _arc_work(templates, size),
        _tree_work(size),
        np.zeros(size, np.int64),
        Updates(
            np.empty(most_updates, np.int64),
            np.empty(most_updates, np.int64),
            np.empty(most_updates),
        ),
        np.empty(MOST_PLACES, np.int64),
        np.zeros(largest, np.float32),
        np.empty(n_templates),
        np.empty(n_templates),
        np.empty(n_templates),
    )


@njit(cache=True, nogil=True)
def _take_step(templates, tables, rule, gain, loss, count, work):
    """The gradient step, as long as the rule or the sentence's loss allows."""
    step = gain * gain * (1.0 if rule.dual_averaging else rule.step)
    if rule.passive_aggressive:
        square = _square_length(
            templates, work.arcs, work.updates, count, work.counts, work.places
        )
        step = min(step, loss / square) if square > 0.0 else 0.0
    dual = rule.dual_averaging
    arcs, updates, places = work.arcs, work.updates, work.places
    _update(templates, tables, arcs, updates, count, step, dual, places)


@njit(cache=True, nogil=True)
def train_epoch(corpus, templates, tables, rule, terms, order, passes, sums):
    """One round per sentence of `order`: decode, step, shrink, add to the average.

    `passes` over the corpus were made before, which dual averaging has to know; `sums`
    is room for the marginals of the CRF loss, or None for the hinge, whose code is then
    compiled alone. Returns the summed loss, and the number of words that got another
    head.
    """
    size = longest_sentence(corpus.starts) + 1
    n_templates, n_sentences = len(templates.pair), len(corpus.starts) - 1
    most_updates = 2 * size if sums is None else size * size
    work = _epoch_work(templates, size, most_updates, rule.passive_aggressive)
    scores, updates, scales = work.arcs.scores, work.updates, work.scales
    norms, factors = work.norms, work.factors
    gain = 1.0 / np.sqrt(n_templates)
    total_loss, total_wrong = 0.0, 0
    for i in order:
        first = corpus.starts[i]
        n = corpus.starts[i + 1] - first - 2 * MARGIN - 1
        heads = corpus.heads[first + MARGIN : first + MARGIN + n + 1]
        for t in range(n_templates):
            scales[t] = tables.scale[t] if tables.n_touched[t] > 0 else 0.0
        n_arcs = _encode(corpus.tokens, first, n, templates, work.arcs)
        _score_arcs(templates, tables.vector, scales, work.arcs, n, n_arcs)
        if sums is None:
            loss, count, wrong = _hinge_updates(
                scores, n, heads, rule.single_root, work.tree, work.found, updates
            )
        else:
            loss, count, wrong = _crf_updates(
                scores, n, heads, rule.single_root, sums, updates
            )
        total_loss += loss
        total_wrong += wrong
        if count > 0:
            _take_step(templates, tables, rule, gain, loss, count, work)
        passes += 1.0 / n_sentences
        if rule.dual_averaging:
            _rescale(tables, rule, terms, gain, passes, n_sentences, norms, factors)
        elif len(terms.kinds) > 0:
            _shrink(templates, tables, rule, terms, gain, norms, factors)
        for t in range(n_templates):
            tables.passed[t] += tables.scale[t]
    return total_loss, total_wrong
