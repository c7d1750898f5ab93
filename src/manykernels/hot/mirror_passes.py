"""Passes of online learners with the multiclass hinge loss over a cache of scores.

The scores of every row under every block are cached, so a row that is already right
costs look-ups only, and an update adds one kernel row to the scores of two classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.jit import njit

# A scale below this is folded into the arrays, long before float32 overflows.
FOLDED_SCALE = 1e-10


class MirrorState(NamedTuple):
    """theta_f = scale * sum_i coef_i phi_f(x_i), with what the loop keeps of it.

    `scores[k, f, i]` are unscaled; w_f = block_scale[f] * theta_f.
    `scalars` holds scale, the step counter t, the self-tuned s and ||theta||_{2,q}.
    """

    coef: NDArray[np.float64]  # (rows, outputs), unscaled
    scores: NDArray[np.floating]  # (outputs, blocks, rows), unscaled
    square_norms: NDArray[np.float64]  # (blocks,), unscaled
    block_scale: NDArray[np.floating]  # (blocks,)
    scalars: NDArray[np.float64]  # scale, t, s, norm


class MirrorRule(NamedTuple):
    """What distinguishes the methods that share the pass.

    online: constant step `eta`, no shrinking, no projection (OBSCURE stage 1); with
    `enough` no step is longer than the row's own margin needs, as in passive-aggressive
    learning, which is right for a start that has converged.
    Otherwise step q / (reg t + s_t) with projection on ||w|| <= radius; s_t is
    self-tuned (OBSCURE stage 2) or zero (Pegasos).
    """

    q: float
    reg: float
    eta: float = 0.0
    radius: float = np.inf
    online: bool = False
    self_tuned: bool = False
    enough: bool = False


@njit(cache=True, fastmath=True)
def _refresh_block_scale(square_norms, powers, block_scale, q):
    """block_scale_f = (||theta_f|| / ||theta||)^(q-2) / q; returns ||theta||_{2,q}.

    Ratios of squared norms are at most one, so nothing overflows for huge q; a power
    is the expensive part and is taken once a block.
    """
    largest = 0.0
    for f in range(len(square_norms)):
        square_norms[f] = max(square_norms[f], 0.0)
        largest = max(largest, square_norms[f])
    if largest == 0.0:
        block_scale[:] = 0
        return 0.0
    for f in range(len(square_norms)):
        powers[f] = (square_norms[f] / largest) ** (0.5 * q)
    # A loop of its own: next to a store, the compiler would choose the order of the
    # sum by where the arrays lie, and runs would differ in the last bit.
    total = 0.0
    for f in range(len(square_norms)):
        total += powers[f]
    common = total ** ((2.0 - q) / q) / q
    for f in range(len(square_norms)):
        if powers[f] > 0.0:
            block_scale[f] = common * powers[f] * largest / square_norms[f]
        else:
            block_scale[f] = 0
    return np.sqrt(largest) * total ** (1.0 / q)


@njit(cache=True)
def _shrink(scalars, rule, margin_norm):
    """Self-tuned step of OBSCURE's stage 2 (lines 8 to 11); returns eta."""
    scalars[1] += 1.0
    t, s, norm = scalars[1], scalars[2], scalars[3]
    if rule.self_tuned:
        d = rule.reg * t + s
        slope = rule.reg / rule.q * norm + margin_norm
        root = np.sqrt(d * d + rule.q * slope * slope / (rule.radius * rule.radius))
        s += 0.5 * (root - d)
        scalars[2] = s
    eta = rule.q / (rule.reg * t + s)
    shrink = 1.0 - rule.reg * eta / rule.q
    if shrink < 1e-12:  # the first step of Pegasos: 1 - 1 up to rounding
        shrink = 0.0
    scalars[0] *= shrink
    scalars[3] *= shrink
    return eta


@njit(cache=True)
def _restart(state):
    """Theta was multiplied by zero (the first step of Pegasos): forget it."""
    state.coef[:] = 0.0
    state.scores[:] = 0
    state.square_norms[:] = 0.0
    state.block_scale[:] = 0
    state.scalars[0] = 1.0
    state.scalars[3] = 0.0


@njit(cache=True)
def _fold_scale(state):
    """Multiply the scale into the arrays: theta stays what it is."""
    scale = state.scalars[0]
    for row in state.coef:
        row *= scale
    for k in range(state.scores.shape[0]):
        for f in range(state.scores.shape[1]):
            for i in range(state.scores.shape[2]):
                state.scores[k, f, i] *= scale
    for f in range(len(state.square_norms)):
        state.square_norms[f] *= scale * scale
    state.scalars[0] = 1.0


@njit(cache=True, fastmath=True)
def _margin_step(block_scale, own_values, margin):
    """The step after which a row has the margin 1, at the present kernel weights."""
    curvature = 0.0
    for f in range(len(block_scale)):
        curvature += block_scale[f] * own_values[f]
    if curvature <= 0.0:
        return np.inf
    return (1.0 - margin) / (2.0 * curvature)


@njit(cache=True, fastmath=True)
def _strongest_wrong(scores, block_scale, own, i, totals):
    """The wrong class with the highest score, and how far the own one is ahead."""
    n_outputs, n_blocks = scores.shape[0], scores.shape[1]
    for k in range(n_outputs):
        total = totals.dtype.type(0)
        for f in range(n_blocks):
            total += block_scale[f] * scores[k, f, i]
        totals[k] = total
    wrong = 1 if own == 0 else 0
    for k in range(n_outputs):
        if k != own and totals[k] > totals[wrong]:
            wrong = k
    return wrong, totals[own] - totals[wrong]


@njit(cache=True, fastmath=True)
def _add_row(coef, scores, square_norms, row, i, own, wrong, step):
    """theta += step (phi(x_i, own) - phi(x_i, wrong)), with its scores and norms."""
    n_blocks, n_rows = scores.shape[1], scores.shape[2]
    for f in range(n_blocks):
        lead = scores[own, f, i] - scores[wrong, f, i]
        square_norms[f] += 2.0 * step * lead + 2.0 * step * step * row[f, i]
    coef[i, own] += step
    coef[i, wrong] -= step
    change = scores.dtype.type(step)
    own_scores = scores[own].reshape(n_blocks * n_rows)
    wrong_scores = scores[wrong].reshape(n_blocks * n_rows)
    values = row.reshape(n_blocks * n_rows)
    for j in range(n_blocks * n_rows):
        delta = change * values[j]
        own_scores[j] += delta
        wrong_scores[j] -= delta


@njit(cache=True, fastmath=True, nogil=True)
def mirror_pass(rows, slots, state, rule, target, importance, pair_norms, order, begin):
    """Visit the rows in `order` from position `begin`.

    Returns (position, updates). A position short of the end means that the kernel
    row of order[position] is needed and its slot is empty: fill it and call again.
    rows[slots[i], f, j] = K_f(i, j); pair_norms[i] = ||phi(x_i, y) - phi(x_i, k)||_q.
    """
    coef, scores, square_norms, block_scale, scalars = state
    totals = np.empty(scores.shape[0], scores.dtype)
    powers = np.empty(scores.shape[1])
    updates = 0
    for position in range(begin, len(order)):
        i = order[position]
        own = target[i]
        wrong, margin = _strongest_wrong(scores, block_scale, own, i, totals)
        violated = scalars[0] * margin < 1.0
        if violated and slots[i] < 0:
            return position, updates
        if rule.online:
            eta = rule.eta
        else:
            eta = _shrink(scalars, rule, pair_norms[i] * importance[i] * violated)
            if scalars[0] <= 0.0:
                _restart(state)
            elif scalars[0] < FOLDED_SCALE:
                _fold_scale(state)
        if not violated:
            continue
        updates += 1
        step = eta * importance[i] / scalars[0]
        row = rows[slots[i]]
        if rule.enough:
            step = min(step, _margin_step(block_scale, row[:, i], margin))
        _add_row(coef, scores, square_norms, row, i, own, wrong, step)
        norm = scalars[0] * _refresh_block_scale(
            square_norms, powers, block_scale, rule.q
        )
        if not rule.online and norm > rule.q * rule.radius:
            scalars[0] *= rule.q * rule.radius / norm
            norm = rule.q * rule.radius
        scalars[3] = norm
    return len(order), updates


@njit(cache=True, fastmath=True, nogil=True)
def hinge_sums(scores, scale, coef, target, bound):
    """Sum of bound_i * loss_i, sum of coef_{i,y_i}, largest coef_{i,y_i} / bound_i.

    scale * scores (outputs, rows) are the model's scores; the other two sums are
    of its dual side.
    """
    n_outputs, n_rows = scores.shape
    loss = 0.0
    linear = 0.0
    largest = 0.0
    for i in range(n_rows):
        own = target[i]
        strongest = scores[1 if own == 0 else 0, i]  # of the wrong outputs
        for k in range(n_outputs):
            if k != own:
                strongest = max(strongest, scores[k, i])
        loss += bound[i] * max(0.0, 1.0 - scale * (scores[own, i] - strongest))
        linear += coef[i, own]
        largest = max(largest, coef[i, own] / bound[i])
    return loss, linear, largest


# --- OM-2 and UFO-MKL: block_scale is the factor with w_f = block_scale_f theta_f, and
# scalars[1] counts the rows visited -------------------------------------------------


@njit(cache=True)
def _shrunk_scale(square_norms, shift, q, factor, norms, block_scale):
    """block_scale_f = factor (v_f / ||theta_f||) (v_f / ||v||_q)^(q-2).

    v_f = max(||theta_f|| - shift, 0); returns ||theta||_{2,q} where shift is zero.
    """
    largest = 0.0
    for f in range(len(square_norms)):
        square_norms[f] = max(square_norms[f], 0.0)
        norms[f] = np.sqrt(square_norms[f])
        largest = max(largest, norms[f] - shift)
    if largest <= 0.0:
        block_scale[:] = 0
        return 0.0
    total = 0.0
    for f in range(len(norms)):
        total += (max(norms[f] - shift, 0.0) / largest) ** q
    common = factor * total ** ((2.0 - q) / q)
    for f in range(len(norms)):
        rest = max(norms[f] - shift, 0.0)
        block_scale[f] = 0
        if rest > 0.0:
            block_scale[f] = common * (rest / norms[f]) * (rest / largest) ** (q - 2.0)
    return largest * total ** (1.0 / q)


@njit(cache=True, nogil=True)
def om2_pass(rows, slots, state, q, target, importance, pair_norms, order, begin):
    """Steps min(1, 1 - 2 lead / ||z_i||^2) where the margin is at most 1.

    Returns (position, updates); a position short of the end asks for a kernel row, as
    in `mirror_pass`. pair_norms[i] = ||z_i||_{2,q}.
    """
    coef, scores, square_norms, block_scale, scalars = state
    totals = np.empty(scores.shape[0], scores.dtype)
    norms = np.empty(scores.shape[1])
    updates = 0
    for position in range(begin, len(order)):
        i = order[position]
        wrong, lead = _strongest_wrong(scores, block_scale, target[i], i, totals)
        size = pair_norms[i] * pair_norms[i]
        if lead <= 1.0 and size > 0.0:
            step = importance[i] * min(1.0, 1.0 - 2.0 * lead / size)
            if step > 0.0:
                if slots[i] < 0:
                    return position, updates
                row = rows[slots[i]]
                _add_row(coef, scores, square_norms, row, i, target[i], wrong, step)
                scalars[3] = _shrunk_scale(
                    square_norms, 0.0, q, 1.0 / q, norms, block_scale
                )
                updates += 1
        scalars[1] += 1.0
    return len(order), updates


@njit(cache=True, nogil=True)
def ufo_pass(rows, slots, state, q, reg, alpha, target, importance, order, begin):
    """Dual averaging: theta is the sum of the sub-gradients, w their mirror image.

    Returns (position, updates); a position short of the end asks for a kernel row, as
    in `mirror_pass`.
    """
    coef, scores, square_norms, block_scale, scalars = state
    totals = np.empty(scores.shape[0], scores.dtype)
    norms = np.empty(scores.shape[1])
    updates = 0
    for position in range(begin, len(order)):
        i = order[position]
        wrong, lead = _strongest_wrong(scores, block_scale, target[i], i, totals)
        if lead < 1.0:
            if slots[i] < 0:
                return position, updates
            row = rows[slots[i]]
            own = target[i]
            _add_row(coef, scores, square_norms, row, i, own, wrong, importance[i])
            updates += 1
        scalars[1] += 1.0
        seen = scalars[1]
        factor = 1.0 / (reg * seen)
        _shrunk_scale(square_norms, alpha * seen, q, factor, norms, block_scale)
    return len(order), updates
