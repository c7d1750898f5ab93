"""What one pass over rows adds up: losses, their gradient, conjugates, curvature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manykernels.base.arrays import Array, Values
from manykernels.distributed.rows import Block, Rows
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


@dataclass(frozen=True)
class Correction:
    """<slope, w - center> + level, which is added to the losses of held rows.

    They agree with those of all rows at the center then, in value and gradient.
    """

    center: Array
    slope: Array
    level: float

    def added_to(self, sums: Sums, w: Array) -> Sums:
        """The sums with it; of the dual points' multiples only the first stays one."""
        pulled = float(np.vdot(self.slope, self.center))
        linear = float(np.vdot(self.slope, w)) - pulled + self.level
        conjugates = np.where(
            SCALES == 1.0, sums.conjugates + pulled - self.level, np.inf
        )
        return Sums(sums.loss + linear, sums.gradient + self.slope, conjugates)


def pass_over(rows: Rows, loss: Loss, w: Array) -> Sums:
    """The sums over one shard."""
    total = no_sums(w)
    for block in rows.blocks():
        total = add_sums([total, block_sums(block, loss, w)])
    return total


def no_sums(w: Array) -> Sums:
    """Of no rows."""
    return Sums(0.0, np.zeros_like(w), np.zeros(len(SCALES)))


def block_sums(block: Block, loss: Loss, w: Array) -> Sums:
    """The sums over some rows, in float64 whatever the features are."""
    phi, target, bound = block
    precise = phi.astype(np.float64)
    scores = precise @ w
    slope = loss.gradient(scores, target)
    conjugates = [bound @ loss.conjugate(-scale * slope, target) for scale in SCALES]
    return Sums(
        float(bound @ loss.value(scores, target)),
        precise.T @ (bound[:, None] * slope),
        np.array(conjugates, np.float64),
    )


def add_sums(parts: Sequence[Sums]) -> Sums:
    """The sums of some shards together."""
    return Sums(
        float(sum(part.loss for part in parts)),
        np.sum([part.gradient for part in parts], axis=0),
        np.sum([part.conjugates for part in parts], axis=0),
    )


def add_arrays(parts: Sequence[Array]) -> Array:
    """Arrays of one shape."""
    return np.sum(parts, axis=0)


def scores_at(rows: Rows, w: Array) -> Values:
    """Phi w in the precision of the features."""
    parts = [phi @ w.astype(phi.dtype) for phi, *_ in rows.blocks()]
    return np.concatenate(parts) if parts else np.zeros((0, w.shape[1]))


def bend_over(rows: Rows, scores: Values, loss: Loss, moves: Array) -> Array:
    """Phi' (b loss'' (Phi move)) for moves of shape (moves, columns, outputs)."""
    n_moves, n_columns, n_outputs = moves.shape
    side = moves.transpose(1, 0, 2).reshape(n_columns, -1).astype(scores.dtype)
    found = np.zeros_like(side, np.float64)
    start = 0
    for phi, target, bound in rows.blocks():
        here = scores[start : start + len(phi)].astype(np.float64)
        start += len(phi)
        shift = (phi @ side).reshape(len(phi), n_moves, n_outputs).transpose(1, 0, 2)
        bent = bound[:, None] * loss.curvature(here, target)(shift)
        flat = bent.transpose(1, 0, 2).reshape(len(phi), -1)
        found += phi.T @ flat.astype(phi.dtype)
    return found.reshape(n_columns, n_moves, n_outputs).transpose(1, 0, 2)
