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
from manykernels.device import HOST
from manykernels.distributed.engine import Engine
from manykernels.distributed.focus import Focus
from manykernels.distributed.near import NearRows
from manykernels.distributed.rows import HeldRows, sum_bounds
from manykernels.distributed.sums import (
    SCALES,
    Correction,
    Sums,
    add_arrays,
    add_sums,
    bend_over,
    pass_over,
    scores_at,
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
        All rows; with their features unless there is a focus.
    widths : list of int
        Columns of the features of every kernel.
    n_outputs : int
    loss, norm, C : as in `Problem`
    total_weight : float
    near : NearRows
        Sampled rows in this process, by which Newton's systems are preconditioned.
    focus : Focus or None
        Which rows to hold where there is no room for the features of all.
    correction : Correction or None
        What is added to the losses, if these are not all rows.
    whole : bool
        Whether they are.
    """

    engine: Engine
    shards: Sequence[Any]
    widths: Sequence[int]
    n_outputs: int
    loss: Loss
    norm: LpGroupNorm
    C: float
    total_weight: float
    near: NearRows
    focus: Focus | None = None
    correction: Correction | None = None
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
        return self.focus is None

    def zero(self) -> Expansion:
        """The model that scores everything zero."""
        coef = np.zeros((self.n_columns, self.n_outputs))
        return Expansion(coef, self.norm.uniform_weights(self.n_blocks))

    def on_held(self, w: Array) -> PartitionedProblem:
        """The problem on rows that are drawn at w, the first time, and held."""
        focus = self.focus
        assert focus is not None
        near = focus.near_held
        if near is None:
            focus.draw(w)
            near = focus.near_held
        assert near is not None
        return replace(self, shards=focus.held, near=near, focus=None, whole=False)

    def on_sample(self) -> PartitionedProblem:
        """The problem of a plain sample for itself, as if there were no other rows."""
        assert self.focus is not None
        engine, near = self.engine, self.near.rows
        held = engine.held(
            [
                engine.task(HeldRows.of, source, self.n_outputs)
                for source in self.focus.sample
            ]
        )
        total = engine.total([engine.task(sum_bounds, rows) for rows in held], sum)
        return replace(
            self,
            shards=held,
            total_weight=total / self.C,
            near=NearRows(near, total / float(near.bound.sum())),
            focus=None,
            whole=False,
        )

    def without_focus(self) -> PartitionedProblem:
        """The same, with products that are passes over all rows, held or not."""
        return replace(self, focus=None)

    def w_of(self, model: Expansion) -> Array:
        """w = D z."""
        return self.spread(model.weights) * model.coef

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
        found = self._passed(w)
        if self.correction is not None:
            found = self.correction.added_to(found, w)
        logger.info(
            "pass over %s rows in %.1f s; so far %d over all, %d over those held",
            "all" if self.whole else "held",
            time.perf_counter() - began,
            *self.passes,
        )
        return found

    def _passed(self, w: Array) -> Sums:
        """What a pass adds up; the first over rows that are not held draws those."""
        if self.focus is not None and self.focus.near_held is None:
            return self.focus.draw(w)
        shared = self.engine.shared(w)
        tasks = [
            self.engine.task(pass_over, part, self.loss, shared) for part in self.shards
        ]
        found: Sums = self.engine.total(tasks, add_sums)
        return found

    def bend_at(self, w: Array) -> Callable[[Array], Array]:
        """The curvature of all losses at w as a map of directions."""
        shared = self.engine.shared(w)
        scores = self.engine.held(
            [self.engine.task(scores_at, part, shared) for part in self.shards]
        )

        def bend(moves: Array) -> Array:
            self.passes[not self.whole] += 1
            stack = self.engine.shared(moves.reshape(-1, *w.shape))
            tasks = [
                self.engine.task(bend_over, part, own, self.loss, stack)
                for part, own in zip(self.shards, scores, strict=True)
            ]
            found: Array = self.engine.total(tasks, add_arrays)
            return found.reshape(moves.shape)

        return bend

    def objective(self, model: Expansion) -> float:
        """The primal value of a model, by one pass."""
        w = self.w_of(model)
        return self.primal_of(self.reg * self.sums(w).loss, self.block_norms(w))

    def duality_gap(self, model: Expansion, dual_coef: Array | None = None) -> float:
        """Objective minus the dual value of the losses' gradients at `dual_coef`.

        Another w than the model's, at which their dual points serve better.
        """
        w = self.w_of(model) if dual_coef is None else dual_coef
        return self.objective(model) - self.dual_bound(PartitionLosses(self), w)

    def bound_on_ray(
        self, mean_conjugate: Callable[[float], float], limit: float, theta_norms: Array
    ) -> float:
        """As always; a correction leaves the point itself alone."""
        if self.correction is None:
            return super().bound_on_ray(mean_conjugate, limit, theta_norms)
        return -mean_conjugate(1.0) - self.reg * self.norm.dual_value(theta_norms)

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

    device = HOST
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

    def damped(self) -> None:
        """No map by one level of curvature; see `PartitionedFrozen`."""
        return None
