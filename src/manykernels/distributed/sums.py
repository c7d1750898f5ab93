"""What one pass over rows adds up: losses, their gradient, conjugates, curvature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manykernels.base.arrays import Array, Values
from manykernels.distributed.rows import HeldRows, Rows
from manykernels.losses import Loss

# Multiples of a dual point whose conjugates a pass adds up: the best bound on the ray
# is found between them, where the conjugate is below its chord.
SCALES = np.array([0.0, 0.6, 0.9, 0.97, 1.0, 1.03, 1.1, 1.5])


@dataclass(frozen=True)
class Sums:
    """Of all rows, at one w.

    Attributes
    ----------
    loss : float
        sum_i b_i loss_i.
    gradient : array of shape (columns of Phi, outputs)
        Its derivative, Phi' (b loss'), which is minus the theta of the dual point.
    conjugates : array of shape (SCALES,)
        sum_i b_i loss_i* at multiples of the dual point.
    """

    loss: float
    gradient: Array
    conjugates: Array


def pass_over(rows: Rows, loss: Loss, w: Array) -> Sums:
    """The sums over one shard, in float64 whatever the features are."""
    total, gradient = 0.0, np.zeros_like(w)
    conjugates = np.zeros(len(SCALES))
    for phi, target, bound in rows.blocks():
        precise = phi.astype(np.float64)
        scores = precise @ w
        slope = loss.gradient(scores, target)
        total += float(bound @ loss.value(scores, target))
        gradient += precise.T @ (bound[:, None] * slope)
        for k, scale in enumerate(SCALES):
            if np.isfinite(conjugates[k]):
                conjugates[k] += float(bound @ loss.conjugate(-scale * slope, target))
    return Sums(total, gradient, conjugates)


def add_sums(parts: Sequence[Sums]) -> Sums:
    """The sums of some shards together."""
    return Sums(
        float(sum(part.loss for part in parts)),
        np.sum([part.gradient for part in parts], axis=0),
        np.sum([part.conjugates for part in parts], axis=0),
    )


def times_sums(factor: float, sums: Sums) -> Sums:
    """The sums of rows that stand for `factor` as many."""
    return Sums(factor * sums.loss, factor * sums.gradient, factor * sums.conjugates)


def add_arrays(parts: Sequence[Array]) -> Array:
    """Arrays of one shape."""
    return np.sum(parts, axis=0)


def scores_at(rows: HeldRows, w: Array) -> Values:
    """Phi w in the precision of the features."""
    return rows.phi @ w.astype(rows.phi.dtype)


def bend_over(rows: HeldRows, scores: Values, loss: Loss, moves: Array) -> Array:
    """Phi' (b loss'' (Phi move)) for moves of shape (moves, columns, outputs)."""
    n_moves, n_columns, n_outputs = moves.shape
    own = rows.phi.dtype
    side = moves.transpose(1, 0, 2).reshape(n_columns, -1).astype(own)
    found = np.zeros_like(side, np.float64)
    start = 0
    for phi, target, bound in rows.blocks():
        here = scores[start : start + len(phi)].astype(np.float64)
        start += len(phi)
        shift = (phi @ side).reshape(len(phi), n_moves, n_outputs).transpose(1, 0, 2)
        bent = bound[:, None] * loss.curvature(here, target)(shift)
        flat = bent.transpose(1, 0, 2).reshape(len(phi), -1)
        found += phi.T @ flat.astype(own)
    return found.reshape(n_columns, n_moves, n_outputs).transpose(1, 0, 2)
