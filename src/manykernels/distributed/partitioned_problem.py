r"""The problem on partitions, in the space of explicit features.

With w_f = d_f z_f the frozen problem :math:`\frac12 \langle z, D z \rangle + L(D z)`,
L the sum of all losses as a function of w, has the form that Newton's method solves on
kernel rows, with the weights D in place of the kernel and columns of Phi in place of
rows: the same code runs on both. What travels is w and sums of its size.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manykernels.base.arrays import Array, Index, Values
from manykernels.device import HOST
from manykernels.distributed.engine import Engine
from manykernels.distributed.preconditioner import PreconditionerSample
from manykernels.distributed.shards import Shard
from manykernels.losses import Loss
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion, Objective

logger = logging.getLogger(__name__)

EQUAL_W_RTOL = 1e-12  # of points that differ by rounding alone


@dataclass(frozen=True)
class CurvatureSample:
    """Rows with features in memory that products with the curvature go over.

    Attributes
    ----------
    shards : list of tasks
        All rows, or a sample where features of all do not fit into memory.
    factor : float
        What their curvature is multiplied with to stand for all rows.
    """

    shards: Sequence[Any]
    factor: float = 1.0


@dataclass(frozen=True)
class PartitionedProblem(Objective):
    """lambda / 2 ||w||_{2,p}^2 + the mean loss, over rows that live in shards.

    Parameters
    ----------
    engine : Engine
    shards : list of tasks
        All rows.
    widths : list of int
        Columns of the features of every kernel.
    n_outputs : int
    loss, norm, C : as in `Problem`
    total_weight : float
    sampled : PreconditionerSample
        Rows in this process.
    curvature : CurvatureSample or None
        Where not all features are in memory.
    passes : list of int
        Over all rows, and over the sample of the curvature, so far.
    """

    engine: Engine
    shards: Sequence[Any]
    widths: Sequence[int]
    n_outputs: int
    loss: Loss
    norm: LpGroupNorm
    C: float
    total_weight: float
    sampled: PreconditionerSample
    curvature: CurvatureSample | None = None
    passes: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def reg(self) -> float:  # type: ignore[override]
        return 1.0 / (self.C * self.total_weight)

    @property
    def n_blocks(self) -> int:
        """One per kernel."""
        return len(self.widths)

    @property
    def spans(self) -> list[slice]:
        """Where the columns of every kernel are."""
        ends = np.cumsum(self.widths).tolist()
        return [slice(e - w, e) for e, w in zip(ends, self.widths, strict=True)]

    def zero(self) -> Expansion:
        """The model that scores everything zero."""
        coef = np.zeros((int(sum(self.widths)), self.n_outputs))
        return Expansion(coef, self.norm.uniform_weights(self.n_blocks))

    def spread(self, weights: Array) -> Array:
        """A number per kernel as one per column of Phi, to multiply with."""
        return np.repeat(weights, self.widths)[:, None]

    def w_of(self, model: Expansion) -> Array:
        """w = D z."""
        return self.spread(model.weights) * model.coef

    def block_norms(self, coef: Array) -> Array:
        """The norm of every kernel's part."""
        squares = np.square(coef).sum(axis=1)
        return np.sqrt([float(squares[span].sum()) for span in self.spans])

    def sums(self, w: Array) -> PassSums:
        """One pass over all rows."""
        began = time.perf_counter()
        shared = self.engine.shared(w)
        tasks = [self.engine.task(pass_over, s, self.loss, shared) for s in self.shards]
        sums: PassSums = self.engine.total(tasks, add_sums)
        self.passes[0] += 1
        logger.info(
            "pass over all rows in %.1f s; so far %d over all, %d over a sample",
            time.perf_counter() - began,
            *self.passes,
        )
        return sums

    def hessian_at(self, w: Array, sampled: bool) -> Callable[[Array], Array]:
        """Second derivatives of all losses at w, or nearly so, as a map of moves."""
        rows, engine = CurvatureSample(self.shards), self.engine
        if sampled and self.curvature is not None:
            rows = self.curvature
        shared = engine.shared(w)
        scores = engine.held([engine.task(scores_at, s, shared) for s in rows.shards])

        def hessian_product(moves: Array) -> Array:
            self.passes[rows is self.curvature] += 1
            stack = engine.shared(moves.reshape(-1, *w.shape))
            tasks = [
                engine.task(hessian_product_over, shard, known, self.loss, stack)
                for shard, known in zip(rows.shards, scores, strict=True)
            ]
            product: Array = rows.factor * engine.total(tasks, add_arrays)
            return product.reshape(moves.shape)

        return hessian_product

    def objective(self, model: Expansion) -> float:
        """The primal value of a model, by one pass."""
        return self.primal_at(self.w_of(model), self.sums(self.w_of(model)).loss)

    def primal_at(self, w: Array, loss: float) -> float:
        """The primal value from the sum of the losses."""
        return self.primal_of(self.reg * loss, self.block_norms(w))

    def dual_at(self, dual: Array, gain: float) -> float:
        """The dual value from minus the sum of the conjugates."""
        return self.reg * (gain - self.norm.dual_value(self.block_norms(dual)))

    def duality_gap(self, model: Expansion, dual_coef: Array | None = None) -> float:
        """Objective minus the dual value of the losses' gradients at `dual_coef`.

        Another w than the model's, at which their dual points serve better.
        """
        w = self.w_of(model) if dual_coef is None else dual_coef
        sums = self.sums(w)
        return self.objective(model) - self.dual_at(-sums.gradient, -sums.conjugate)


class PartitionLosses:
    """L(w) = sum_i b_i loss_i(Phi w) and what belongs to it, by passes over shards."""

    def __init__(self, problem: PartitionedProblem) -> None:
        self.problem = problem
        self.samples_curvature = True
        self._passes: list[tuple[Array, PassSums]] = []

    def at(self, w: Array) -> PassSums:
        """The sums at w; a pass that is known is not made again."""
        size = EQUAL_W_RTOL * float(np.abs(w).max(initial=0.0))
        for known, sums in self._passes:
            if float(np.abs(known - w).max(initial=0.0)) <= size:
                return sums
        sums = self.problem.sums(w)
        self._passes = [*self._passes, (w.copy(), sums)][-4:]
        return sums

    def total(self, w: Array) -> float:
        """L(w)."""
        return self.at(w).loss

    def gradient(self, w: Array) -> Array:
        """The derivative of L."""
        return self.at(w).gradient

    def curvature(self, w: Array) -> Callable[[Array], Array]:
        """The second derivative of L as a map of directions."""
        return self.problem.hessian_at(w, self.samples_curvature)

    def gain(self, dual: Array) -> float:
        """Minus the sum of the conjugates at the dual point of a known pass."""
        return next(
            -sums.conjugate
            for _, sums in self._passes
            if np.array_equal(sums.gradient, -dual)
        )


class WeightKernel:
    """D z: what a frozen kernel is in the space of features."""

    device = HOST
    exact = True  # sums over rows are in float64

    def __init__(self, problem: PartitionedProblem, weights: Array) -> None:
        self.problem = problem
        self.weights = weights
        self.spread = problem.spread(weights)

    def times(self, coef: Array) -> Array:
        """D coef, for one or several moves."""
        return self.spread * coef

    times_each = exact_times = times

    def block_products(self, coef: Array, blocks: Index) -> Array:
        """The part of some kernels alone, shape (blocks, columns, outputs)."""
        out = np.zeros((len(blocks), *coef.shape))
        for k, f in enumerate(blocks):
            span = self.problem.spans[f]
            out[k, span] = coef[span]
        return out

    def block_norms(self, coefs: list[Array]) -> list[Array]:
        """||z_f|| for each of some coefficients."""
        return [self.problem.block_norms(coef) for coef in coefs]

    def put(self, coef: Array) -> Array:
        """Arrays stay as they are."""
        return coef

    get = put


# --- one pass over the rows of a shard ------------------------------------------------


@dataclass(frozen=True)
class PassSums:
    """Of all rows, at one w.

    Attributes
    ----------
    loss : float
        sum_i b_i loss_i.
    gradient : array of shape (columns of Phi, outputs)
        Its derivative, Phi' (b loss'), which is minus the theta of the dual point.
    conjugate : float
        sum_i b_i loss_i* at the dual point.
    """

    loss: float
    gradient: Array
    conjugate: float


def pass_over(shard: Shard, loss: Loss, w: Array) -> PassSums:
    """The sums over one shard, in float64 whatever the features are."""
    value, gradient, conjugate = 0.0, np.zeros_like(w), 0.0
    for phi, target, bound in shard.blocks():
        precise = phi.astype(np.float64)
        scores = precise @ w
        slope = loss.gradient(scores, target)
        value += float(bound @ loss.value(scores, target))
        gradient += precise.T @ (bound[:, None] * slope)
        conjugate += float(bound @ loss.conjugate(-slope, target))
    return PassSums(value, gradient, conjugate)


def add_sums(parts: Sequence[PassSums]) -> PassSums:
    """The sums of some shards together."""
    return PassSums(
        float(sum(part.loss for part in parts)),
        np.sum([part.gradient for part in parts], axis=0),
        float(sum(part.conjugate for part in parts)),
    )


def add_arrays(parts: Sequence[Array]) -> Array:
    """Arrays of one shape."""
    return np.sum(parts, axis=0)


def scores_at(shard: Shard, w: Array) -> Values:
    """Phi w in the precision of the features."""
    parts = [phi @ w.astype(phi.dtype) for phi, *_ in shard.blocks()]
    return np.concatenate(parts) if parts else np.zeros((0, w.shape[1]))


def hessian_product_over(
    shard: Shard, scores: Values, loss: Loss, moves: Array
) -> Array:
    """Phi' (b loss'' (Phi move)) for moves of shape (moves, columns, outputs)."""
    n_moves, n_columns, n_outputs = moves.shape
    side = moves.transpose(1, 0, 2).reshape(n_columns, -1).astype(scores.dtype)
    total = np.zeros_like(side, np.float64)
    start = 0
    for phi, target, bound in shard.blocks():
        n_rows = len(phi)
        known = scores[start : start + n_rows].astype(np.float64)
        start += n_rows
        shift = (phi @ side).reshape(n_rows, n_moves, n_outputs).transpose(1, 0, 2)
        bent = bound[:, None] * loss.curvature(known, target)(shift)
        flat = bent.transpose(1, 0, 2).reshape(n_rows, -1)
        total += phi.T @ flat.astype(phi.dtype)
    return total.reshape(n_columns, n_moves, n_outputs).transpose(1, 0, 2)
