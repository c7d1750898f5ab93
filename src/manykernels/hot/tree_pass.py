"""Online learning of arc weights: one round per sentence, all rounds in one call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.hot.arcs import (
    GRANDPARENT,
    MARGIN,
    MOST_PLACES,
    NO_THIRD,
    SIBLING,
    ArcWork,
    arc_work,
    encode,
    longest_sentence,
    place_of,
    score_arcs,
)
from manykernels.hot.jit import njit
from manykernels.hot.prox import prox_steps
from manykernels.hot.tree_search import (
    ClimbWork,
    ScaledWeights,
    climb_work,
    grandparent,
    improve_tree,
    inner_sibling,
    tree_score,
    turn_of,
)
from manykernels.hot.trees import TreeWork, find_tree, tree_marginals, tree_work

# A scale below this is put into its vector, which is in single precision.
SMALLEST_TEMPLATE_SCALE = 1e-3
# Arcs that a CRF step leaves alone: marginals this close to the truth.
NEGLIGIBLE_MARGINAL = 1e-3


class TemplateTables(NamedTuple):
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


class TreeRule(NamedTuple):
    """What a round does."""

    passive_aggressive: bool
    dual_averaging: bool
    single_root: bool


class ArcUpdates(NamedTuple):
    """Arcs of one sentence and the change of their weights, before the step."""

    head: np.ndarray
    modifier: np.ndarray
    third: np.ndarray  # (3, updates) by the kind of a template
    change: np.ndarray
    limit: np.ndarray  # (3,) how many of them concern templates of a kind


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
    """w_t := 0; only the places that were written are visited, if they are listed."""
    passed = np.float32(tables.passed[t])
    listed = tables.n_touched[t] <= tables.touched.shape[1]
    count = tables.n_touched[t] if listed else end - begin
    for j in range(count):
        k = begin + (tables.touched[t, j] if listed else j)
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
def _shrink(templates, tables, terms, gain, due, norms, factors):
    """The proximal step on all templates."""
    n_templates = len(templates.pair)
    for t in range(n_templates):
        norms[t] = tables.scale[t] * np.sqrt(max(tables.square[t], 0.0)) / gain
    shrink_factors(norms, terms, due, factors)
    for t in range(n_templates):
        begin, end = templates.start[t], templates.start[t + 1]
        if factors[t] == 0.0:
            if tables.n_touched[t] > 0:
                _clear(tables, begin, end, t)
            continue
        tables.scale[t] *= factors[t]
        if tables.scale[t] < SMALLEST_TEMPLATE_SCALE:
            _flush(tables, begin, end, t)


@njit(cache=True, nogil=True)
def _rescale(tables, terms, gain, step, due, norms, factors):
    """Dual averaging: w = argmin t reg penalty(w) + ||w - a z||^2 / (2 a), a = step.

    z is minus the sum of all gradients. What one round adds to a template is noise; the
    sum is compared with all that the penalty has asked for in t rounds, so that
    templates without a signal come out at zero.
    """
    for t in range(len(norms)):
        norms[t] = step * np.sqrt(max(tables.square[t], 0.0)) / gain
    shrink_factors(norms, terms, due, factors)
    for t in range(len(norms)):
        tables.scale[t] = step * factors[t]


class TouchedFeatures(NamedTuple):
    """Places of what the updates touch in one template's table, and the changes."""

    place: np.ndarray  # (updates * MOST_PLACES,)
    change: np.ndarray  # (updates * MOST_PLACES,)


@njit(cache=True, nogil=True)
def _list_features(templates, work, updates, t, features):
    """The features of all updates in template t; returns their number.

    Calls with many arrays are not free, so there is one per template, not per arc.
    """
    head = work.head[templates.head_side[t]]
    modifier = work.modifier[templates.modifier_side[t]]
    pair = work.pair[templates.pair[t]]
    third = work.third[templates.third_side[t]]
    size = work.pair.shape[1] // 2
    shift, field, kind = templates.shift[t], templates.between[t], templates.third[t]
    place, changes = features.place, features.change
    count = 0
    for j in range(updates.limit[kind]):
        h, m, change = updates.head[j], updates.modifier[j], updates.change[j]
        code = head[h] + modifier[m] + pair[m - h + size]
        if kind != NO_THIRD:
            x = updates.third[kind, j]
            code += third[x] + work.turn[turn_of(h, m, x)]
        if field < 0:
            place[count], changes[count] = place_of(code, shift), change
            count += 1
            continue
        bits = work.inner[field, h, m]
        k = 0
        while bits:
            if bits & np.uint64(1):
                place[count] = place_of(code + work.tag[k], shift)
                changes[count] = change
                count += 1
            bits >>= np.uint64(1)
            k += 1
    return count


@njit(cache=True, nogil=True)
def _square_length(templates, work, updates, counts, features):
    """||sum of change * features||^2; `counts` is all zero before and after."""
    total = 0.0
    place, change = features.place, features.change
    for t in range(len(templates.pair)):
        count = _list_features(templates, work, updates, t, features)
        for k in range(count):
            counts[place[k]] += np.float32(change[k])
        for k in range(count):
            total += np.float64(counts[place[k]]) ** 2
            counts[place[k]] = 0.0
    return total


@njit(cache=True, nogil=True)
def _update(templates, tables, work, updates, step, dual_averaging, features):
    """w += step * sum of change * features, with the norms kept exact.

    With dual averaging the vectors are moved, whatever their scales are.
    """
    capacity = tables.touched.shape[1]
    vector, offset, touched = tables.vector, tables.offset, tables.touched
    for t in range(len(templates.pair)):
        count = _list_features(templates, work, updates, t, features)
        begin = templates.start[t]
        factor = step if dual_averaging else step / tables.scale[t]
        passed = tables.passed[t]
        square = tables.square[t]
        for k in range(count):
            place = begin + features.place[k]
            before = np.float64(vector[place])
            vector[place] += np.float32(factor * features.change[k])
            offset[place] += np.float32(passed * factor * features.change[k])
            after = np.float64(vector[place])
            square += after * after - before * before
            if tables.n_touched[t] < capacity:
                touched[t, tables.n_touched[t]] = features.place[k]
            tables.n_touched[t] = min(tables.n_touched[t] + 1, capacity + 1)
        tables.square[t] = square


@njit(cache=True, nogil=True)
def _add_cost(scores, n, heads):
    """One for every arc that is not in the tree."""
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != heads[m]:
                scores[h, m] += np.float32(1.0)


@njit(cache=True, nogil=True)
def _hinge_updates(scores, n, heads, found, updates):
    """Loss of the decoded tree, and the arcs in which it is wrong."""
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
    updates.limit[:] = count
    return loss, count // 2


@njit(cache=True, nogil=True)
def _set_thirds(updates, j, heads, m, missing):
    h = heads[m]
    updates.third[GRANDPARENT, j] = grandparent(heads, h, missing)
    updates.third[SIBLING, j] = inner_sibling(heads, h, m, missing)


@njit(cache=True, nogil=True)
def _third_updates(model, work, n, heads, found):
    """Third words of the updates, and of arcs that differ in nothing else; the loss."""
    arcs, climb, updates = work.arcs, work.climb, work.updates
    missing = arcs.third.shape[1] - 1
    count = updates.limit[NO_THIRD]
    for j in range(0, count, 2):
        m = updates.modifier[j]
        _set_thirds(updates, j, heads, m, missing)
        _set_thirds(updates, j + 1, found, m, missing)
    for m in range(1, n + 1):
        if found[m] != heads[m]:
            continue
        _set_thirds(updates, count, heads, m, missing)
        _set_thirds(updates, count + 1, found, m, missing)
        same = True
        for kind in (GRANDPARENT, SIBLING):
            same = same and updates.third[kind, count] == updates.third[kind, count + 1]
        if not same:
            for k in range(2):
                updates.head[count + k] = heads[m]
                updates.modifier[count + k] = m
                updates.change[count + k] = 1.0 - 2.0 * k
            count += 2
    updates.limit[GRANDPARENT] = count
    updates.limit[SIBLING] = count
    best = tree_score(model, arcs, climb, n, found)
    return np.float64(best) - np.float64(tree_score(model, arcs, climb, n, heads))


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
            if abs(change) > NEGLIGIBLE_MARGINAL:
                updates.head[count] = h
                updates.modifier[count] = m
                updates.change[count] = change
                count += 1
    updates.limit[NO_THIRD] = count
    return max(log_sum, 0.0), wrong


class EpochWork(NamedTuple):
    """Arrays for an epoch."""

    arcs: ArcWork
    climb: ClimbWork
    tree: TreeWork
    found: np.ndarray  # (size,) heads
    updates: ArcUpdates
    features: TouchedFeatures
    counts: np.ndarray  # (weights of the largest template,) all zero between uses
    norms: np.ndarray  # (templates,)
    factors: np.ndarray  # (templates,)
    scales: np.ndarray  # (templates,) 0 for templates that are skipped


@njit(cache=True, nogil=True)
def _epoch_work(templates, size, most_updates, passive_aggressive):
    n_templates = len(templates.pair)
    largest = 1
    if passive_aggressive:
        for t in range(n_templates):
            largest = max(largest, templates.start[t + 1] - templates.start[t])
    climb = climb_work(templates, size)
    return EpochWork(
        arc_work(templates, size),
        climb,
        tree_work(size),
        np.zeros(size, np.int64),
        ArcUpdates(
            np.empty(most_updates, np.int64),
            np.empty(most_updates, np.int64),
            np.empty((3, most_updates if len(climb.templates) > 0 else 0), np.int64),
            np.empty(most_updates),
            np.zeros(3, np.int64),
        ),
        TouchedFeatures(
            np.empty(most_updates * MOST_PLACES, np.int64),
            np.empty(most_updates * MOST_PLACES),
        ),
        np.zeros(largest, np.float32),
        np.empty(n_templates),
        np.empty(n_templates),
        np.empty(n_templates),
    )


@njit(cache=True, nogil=True)
def _take_step(templates, tables, rule, gain, step, loss, work):
    """The gradient step, as long as the rule or the sentence's loss allows."""
    step = gain * gain * (1.0 if rule.dual_averaging else step)
    if rule.passive_aggressive:
        square = _square_length(
            templates, work.arcs, work.updates, work.counts, work.features
        )
        step = min(step, loss / square) if square > 0.0 else 0.0
    dual = rule.dual_averaging
    arcs, updates, features = work.arcs, work.updates, work.features
    _update(templates, tables, arcs, updates, step, dual, features)


@njit(cache=True, nogil=True)
def tree_pass(corpus, templates, tables, rule, terms, order, steps, dues, sums):
    """One round per sentence of `order`: decode, step, shrink, add to the average.

    steps[r] is the step of round r, for features of unit length in all templates
    together, and dues[r] the factor of the penalty in its proximal step. `sums` is
    space for the marginals of the CRF loss, or None for the hinge, whose code is then
    compiled alone. Returns the summed loss, and the number of words that got another
    head.
    """
    size = longest_sentence(corpus.starts) + 1
    n_templates = len(templates.pair)
    most_updates = 2 * size if sums is None else size * size
    work = _epoch_work(templates, size, most_updates, rule.passive_aggressive)
    scores, updates, scales = work.arcs.scores, work.updates, work.scales
    norms, factors = work.norms, work.factors
    gain = 1.0 / np.sqrt(n_templates)
    model = ScaledWeights(templates, tables.vector, scales)
    total_loss, total_wrong = 0.0, 0
    for r in range(len(order)):
        i = order[r]
        first = corpus.starts[i]
        n = corpus.starts[i + 1] - first - 2 * MARGIN - 1
        heads = corpus.heads[first + MARGIN : first + MARGIN + n + 1]
        for t in range(n_templates):
            scales[t] = tables.scale[t] if tables.n_touched[t] > 0 else 0.0
        n_arcs = encode(corpus.tokens, first, n, templates, work.arcs)
        score_arcs(templates, tables.vector, scales, work.arcs, n, n_arcs)
        if sums is None:
            found = work.found
            _add_cost(scores, n, heads)
            find_tree(scores, n, rule.single_root, work.tree, found)
            if len(work.climb.templates) > 0:
                improve_tree(model, work.arcs, work.climb, n, rule.single_root, found)
            loss, wrong = _hinge_updates(scores, n, heads, found, updates)
            if len(work.climb.templates) > 0 and wrong > 0:
                full = _third_updates(model, work, n, heads, found)
                if full > 0.0:
                    loss = full
                else:
                    # The search has missed the true tree: let the arcs lead to it.
                    find_tree(scores, n, rule.single_root, work.tree, found)
                    loss, wrong = _hinge_updates(scores, n, heads, found, updates)
                    updates.limit[GRANDPARENT] = 0
                    updates.limit[SIBLING] = 0
        else:
            loss, wrong = _crf_updates(
                scores, n, heads, rule.single_root, sums, updates
            )
        total_loss += max(loss, 0.0)
        total_wrong += wrong
        if loss > 0.0:
            _take_step(templates, tables, rule, gain, steps[r], loss, work)
        if rule.dual_averaging:
            _rescale(tables, terms, gain, steps[r], dues[r], norms, factors)
        elif len(terms.kinds) > 0:
            _shrink(templates, tables, terms, gain, dues[r], norms, factors)
        for t in range(n_templates):
            tables.passed[t] += tables.scale[t]
    return total_loss, total_wrong
