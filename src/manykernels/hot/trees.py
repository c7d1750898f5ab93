"""Trees over the words of a sentence: the best tree, and marginals of all trees.

Node 0 is the root and nodes 1 ... n are the words; scores[h, m] belongs to the arc from
head h to modifier m. Column 0 and the diagonal are never read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.hot.jit import njit

FORBIDDEN = -np.inf

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
            if h == m or not value > FORBIDDEN:
                into[m, h] = FORBIDDEN
            else:
                into[m, h] = value
                low = min(low, value)
                high = max(high, value)
            arcs[m, h] = m * size + h
    if single_root and high > FORBIDDEN:
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
            into[x, v] = FORBIDDEN
    for k in range(length):
        into[keep, cycle[k]] = FORBIDDEN
    ids[keep] = new_id


class TreeWork(NamedTuple):
    """Arrays for one sentence of at most `size` nodes."""

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
def tree_work(size):
    """Empty arrays for trees of so many nodes."""
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
def find_tree(scores, n, single_root, work, heads):
    """heads[m] for m = 1 ... n of the best tree, in O(n^2); False without a tree.

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
            top = FORBIDDEN
            for h in range(size):
                if into[v, h] > top:
                    top = into[v, h]
                    u = h
            if top == FORBIDDEN:
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
    """heads (sentences, n_max) of the best trees, and where one exists.

    scores (sentences, n_max + 1, n_max + 1) are read up to each length.
    """
    n_sentences, size = scores.shape[0], scores.shape[1]
    heads = np.zeros((n_sentences, size - 1), np.int64)
    exists = np.ones(n_sentences, np.bool_)
    work = tree_work(size)
    row = np.zeros(size, np.int64)
    for i in range(n_sentences):
        n = lengths[i]
        exists[i] = find_tree(scores[i], n, single_root, work, row)
        for m in range(1, n + 1):
            heads[i, m - 1] = row[m]
    return heads, exists


# --- marginals ---------------------------------------------------------------


@njit(cache=True, nogil=True)
def _exp(difference):
    """exp, but never zero unless the arc is forbidden."""
    # exp of less than -700 is not a normal number.
    return np.exp(max(difference, -700.0)) if difference > FORBIDDEN else 0.0


@njit(cache=True, nogil=True)
def _weights(scores, n, single_root, a):
    """a[h, m] = exp(score) up to factors whose logarithms are summed and returned.

    Each word has one head, so a factor per word changes no marginal; with one child
    of the root, neither does a factor of all its arcs.
    """
    shift = 0.0
    first = 1 if single_root and n > 1 else 0
    for m in range(1, n + 1):
        top = FORBIDDEN
        for h in range(first, n + 1):
            if h != m:
                top = max(top, scores[h, m])
        if top == FORBIDDEN:
            return FORBIDDEN
        shift += top
        for h in range(n + 1):
            a[h, m] = 0.0
            if h != m and (h > 0 or first == 0):
                a[h, m] = _exp(scores[h, m] - top)
        if first == 1:
            a[0, m] = scores[0, m] - top
    if first == 1:
        top = FORBIDDEN
        for m in range(1, n + 1):
            top = max(top, a[0, m])
        if top == FORBIDDEN:
            return FORBIDDEN
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
    arcs are infinitely light: they enter p only without others.
    """
    log_sum = 0.0
    place = 0
    for k in range(n, 0, -1):
        first = 1 if single_root and k > 1 else 0
        pivot = 0.0
        for j in range(first, k):
            pivot += a[j, k]
        if pivot <= 0.0:
            return FORBIDDEN
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
            if 0.0 < top < 1e-150:  # products of two such numbers would be zero
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

    a, shares and marginals have n + 1 rows and columns, through has
    (n + 1) n (n - 1) / 3 entries.
    """
    shift = _weights(scores, n, single_root, a)
    if shift == FORBIDDEN:
        return FORBIDDEN
    log_sum = _eliminate(a, n, single_root, shares, through)
    if log_sum == FORBIDDEN:
        return FORBIDDEN
    _unfold(n, single_root, shares, through, marginals)
    for h in range(n + 1):
        for m in range(1, n + 1):
            marginals[h, m] = min(max(marginals[h, m], 0.0), 1.0)
    return shift + log_sum
