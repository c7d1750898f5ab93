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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.device import NUMPY
from manykernels.distributed.engine import Engine
from manykernels.distributed.focus import Focus
from manykernels.distributed.sums import (
    SCALES,
    Sums,
    add_arrays,
    add_sums,
    bend_over,
    pass_over,
    scores_at,
    times_sums,
)
from manykernels.losses import Loss
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion, Objective

logger = logging.getLogger(__name__)

REMEMBERED = 4  # passes whose sums are kept here
SAME = 1e-12  # relative: points that differ by rounding alone


@dataclass(frozen=True)
class PartitionedProblem(Objective):
    """lambda / 2 ||w||_{2,p}^2 + the mean loss, over rows that live in shards.

    Parameters
    ----------
    engine : Engine
    shards : list of tasks
        All rows.
    held : list of tasks
        Rows with features in memory: all of them, or a sample for the first solution.
    held_factor : float
        What the losses of the held rows are multiplied with to stand for all.
    widths : list of int
        Columns of the features of every kernel.
    n_outputs : int
    loss, norm, C : as in `Problem`
    total_weight : float
    near : HeldRows
        Sampled rows in this process, by which Newton's systems are preconditioned.
    near_factor : float
        The same as `held_factor` for them.
    focus : Focus or None
        Which rows to hold for the curvature in place of the sample.
    factor : float
        The same for the rows of `shards`: 1 where they are all rows.
    whole : bool
        Whether they are.
    """

    engine: Engine
    shards: Sequence[Any]
    held: list[Any]
    held_factor: float
    widths: Sequence[int]
    n_outputs: int
    loss: Loss
    norm: LpGroupNorm
    C: float
    total_weight: float
    near: Any
    near_factor: float
    focus: Focus | None = None
    factor: float = 1.0
    whole: bool = True
    passes: list[int] = field(default_factory=lambda: [0, 0])  # over all, over held

    @property
    def reg(self) -> float:  # type: ignore[override]
        """lambda = 1 / (C W)."""
        return 1.0 / (self.C * self.total_weight)

    @property
    def n_blocks(self) -> int:
        """One per kernel."""
        return len(self.widths)

    @property
    def n_columns(self) -> int:
        """Of the features of all kernels."""
        return int(sum(self.widths))

    @property
    def spans(self) -> list[slice]:
        """Where the columns of every kernel are."""
        ends = np.cumsum(self.widths).tolist()
        return [slice(e - w, e) for e, w in zip(ends, self.widths, strict=True)]

    @property
    def holds_all(self) -> bool:
        """Whether the features of all rows are in memory."""
        return self.held is self.shards

    def zero(self) -> Expansion:
        """The model that scores everything zero."""
        coef = np.zeros((self.n_columns, self.n_outputs))
        return Expansion(coef, self.norm.uniform_weights(self.n_blocks))

    def on_held(self) -> PartitionedProblem:
        """The problem on the held rows, each standing for several."""
        factor = self.held_factor
        return replace(self, shards=self.held, factor=factor, focus=None, whole=False)

    def spread(self, weights: Array) -> Array:
        """A number per kernel as one per column of Phi, to multiply with."""
        return np.repeat(weights, self.widths)[:, None]

    def block_norms(self, coef: Array) -> Array:
        """The norm of every kernel's part."""
        squares = np.square(coef).sum(axis=1)
        return np.sqrt([float(squares[span].sum()) for span in self.spans])

    def sums(self, w: Array) -> Sums:
        """One pass over all rows."""
        began = time.perf_counter()
        self.passes[not self.whole] += 1
        found = times_sums(self.factor, self._added(self.shards, w))
        logger.info(
            "pass over %s rows in %.1f s; so far %d over all, %d over those held",
            "all" if self.whole else "held",
            time.perf_counter() - began,
            *self.passes,
        )
        return found

    def bend_at(self, w: Array) -> Callable[[Array], Array]:
        """The curvature of all losses at w as a map of directions, from held rows."""
        held, factor = self._bending_at(w)
        shared = self.engine.shared(w)
        scores = self.engine.held(
            [self.engine.task(scores_at, part, shared) for part in held]
        )

        def bend(moves: Array) -> Array:
            self.passes[1] += 1
            stack = self.engine.shared(moves.reshape(-1, *w.shape))
            tasks = [
                self.engine.task(bend_over, part, own, self.loss, stack)
                for part, own in zip(held, scores, strict=True)
            ]
            found = self.engine.total(tasks, add_arrays)
            return factor * found.reshape(moves.shape)

        return bend

    def sampled(self) -> tuple[Any, float]:
        """Rows in this process for a preconditioner, and what each stands for."""
        if self.focus is not None and self.focus.near_held is not None:
            return self.focus.near_held, 1.0
        return self.near, self.near_factor

    def held_gradient(self, w: Array) -> Array:
        """The derivative of L by the rows held for the curvature alone."""
        held, factor = self._bending_at(w)
        self.passes[1] += 1
        return factor * self._added(held, w).gradient

    def _added(self, shards: Sequence[Any], w: Array) -> Sums:
        shared = self.engine.shared(w)
        tasks = [
            self.engine.task(pass_over, part, self.loss, shared) for part in shards
        ]
        found: Sums = self.engine.total(tasks, add_sums)
        return found

    def _bending_at(self, w: Array) -> tuple[list[Any], float]:
        """Held rows for products with the curvature, and their factor."""
        if self.focus is None:
            return self.held, self.held_factor
        self.held.clear()  # room for those that take its place
        return self.focus.rows_at(w), 1.0

    def objective(self, model: Expansion) -> float:
        """The primal value of a model, by one pass."""
        w = self.spread(model.weights) * model.coef
        return self.primal_of(self.reg * self.sums(w).loss, self.block_norms(w))

    def duality_gap(self, model: Expansion, dual_coef: Array | None = None) -> float:
        """Objective minus the dual value of the losses' gradients at `dual_coef`.

        Another w than the model's, at which their dual points serve better.
        """
        w = self.spread(model.weights) * model.coef if dual_coef is None else dual_coef
        return self.objective(model) - self.dual_bound(PartitionLosses(self), w)

    def dual_bound(self, losses: PartitionLosses, w: Array) -> float:
        """The best dual value that the gradients at w offer."""
        dual = -losses.gradient(w)
        return self.bound_on_ray(
            lambda scale: -self.reg * losses.gain(dual, scale),
            losses.feasible_scale(dual),
            self.block_norms(dual),
        )


class PartitionLosses:
    """L(w) = sum_i b_i loss_i(Phi w) and what belongs to it, by passes over shards."""

    def __init__(self, problem: PartitionedProblem) -> None:
        self.problem = problem
        self._known: list[tuple[Array, Sums]] = []

    def at(self, w: Array) -> Sums:
        """The sums at w; what is known is not computed again."""
        size = SAME * float(np.abs(w).max(initial=0.0))
        for known, sums in self._known:
            if float(np.abs(known - w).max(initial=0.0)) <= size:
                return sums
        found = self.problem.sums(w)
        self._known = [*self._known, (w.copy(), found)][-REMEMBERED:]
        return found

    def total(self, w: Array) -> float:
        """L(w)."""
        return self.at(w).loss

    def gradient(self, w: Array) -> Array:
        """The derivative of L."""
        return self.at(w).gradient

    def curvature(self, w: Array) -> Callable[[Array], Array]:
        """The second derivative of L as a map of directions."""
        return self.problem.bend_at(w)

    def gain(self, dual: Array, scale: float = 1.0) -> float:
        """Minus the sum of the conjugates at a multiple of a gradient's dual point.

        Between the multiples that a pass adds up, conjugates are below their chord.
        """
        conjugates = self._behind(dual).conjugates
        usable = np.isfinite(conjugates)
        return -float(np.interp(scale, SCALES[usable], conjugates[usable]))

    def feasible_scale(self, dual: Array) -> float:
        """The largest multiple whose conjugates are known to be finite."""
        return float(SCALES[np.isfinite(self._behind(dual).conjugates)].max())

    def _behind(self, dual: Array) -> Sums:
        """The pass that a dual point is from."""
        return next(
            sums for _, sums in self._known if np.array_equal(sums.gradient, -dual)
        )


class WeightKernel:
    """D z: what a frozen kernel is in the space of features."""

    xp = NUMPY
    exact = True  # sums over rows are in float64

    def __init__(self, problem: PartitionedProblem, weights: Array) -> None:
        self.problem = problem
        self.weights = weights
        self.spread = problem.spread(weights)

    def times(self, coef: Array) -> Array:
        """D coef."""
        return self.spread * coef

    exact_times = times

    def times_each(self, moves: Array) -> Array:
        """D move for all moves."""
        return self.spread * moves

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

    def dot(self, a: Array, b: Array) -> float:
        """The sum of the products of two arrays."""
        return float(np.vdot(a, b))

    def damped(self) -> None:
        """No map by one level of curvature; see `PartitionedFrozen`."""
        return None
