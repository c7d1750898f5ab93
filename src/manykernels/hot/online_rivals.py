"""One pass of OM-2 and of UFO-MKL, on the score cache of `manykernels.hot.mirror`.

theta_f = sum_i coef_i phi_f(x_i), `scores[k, f, i]` its scores, and block_scale_f the
factor with w_f = block_scale_f theta_f; scalars[1] counts the rows seen.
"""

from __future__ import annotations

import numpy as np

from manykernels.hot.lazy import njit


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
