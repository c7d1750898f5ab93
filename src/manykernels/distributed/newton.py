"""Newton's method on partitions: gradients of all rows, curvature of those held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.banks.blocks import BlockBank, FeatureBlock
from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.distributed.problem import (
    PartitionedProblem,
    PartitionLosses,
    WeightKernel,
)
from manykernels.distributed.rows import HeldRows
from manykernels.solvers.loop import (
    Callback,
    Checkpoint,
    SolveResult,
    relative_gap,
    run,
)
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.smooth.newton import (
    NOISE,
    STEPS,
    Frozen,
    Point,
    _forcing,
    _root,
)
from manykernels.solvers.smooth.truncated_newton import NewtonRounds

MOST_COLUMNS = 6000  # of a preconditioner, which is a dense matrix of them
MOST_BYTES = 1e9  # of preconditioners by output
FLAT = 1e-9  # curvature that is zero but for rounding
PAIRS = 10  # moves that correct the next ones
WELL = 0.5  # slope, relative to that at the start, at which a length is fine
LIGHT = 1e-3  # of the largest root of a weight, below which it counts as zero
ROUNDED = 5e-7  # of its trace, that rounding may take from an eigenvalue
ENOUGH = 0.995  # of the curvature of all sampled rows
START_ROWS = 2500  # at most, for a first solution in this process
START_TOL = 0.02  # relative gap on sampled rows, from where held rows go on
HELD_TOL = 0.05  # relative gap on held rows, from where all rows go on


@dataclass(frozen=True)
class PartitionedNewton:
    """Truncated Newton on partitions; weights, rounds and certificate are the same.

    Sampled rows give the start and a preconditioner: conjugate gradients then see
    only how the rows' curvature deviates from the sample's.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    """

    certified: ClassVar[bool] = True

    tol: float = 1e-2
    max_iter: int = 200

    def solve(
        self,
        problem: Any,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or until `max_iter` rounds are spent."""
        resumed = checkpoint is not None and checkpoint.load() is not None
        if start is None and not resumed:
            start = self._start(problem)
        start = start or problem.zero()
        settings = TruncatedNewton(self.tol, self.max_iter)
        rounds = self._rounds(problem, start, settings)
        return run(
            rounds, start, tol=self.tol, callback=callback, checkpoint=checkpoint
        )

    def _rounds(self, problem: Any, start: Expansion, settings: Any) -> Any:
        return PartitionedRounds(problem, start, settings)

    def _start(self, problem: PartitionedProblem) -> Expansion:
        """Solutions for the sampled rows here, then for the rows held by workers."""
        start = sampled_start(problem)
        if problem.holds_all:
            return start
        first = replace(self, tol=max(self.tol, HELD_TOL))
        return first.solve(problem.on_held(), start).model


def sampled_start(problem: PartitionedProblem) -> Expansion:
    """The solution for the rows at hand, as coefficients of features."""
    near = some_rows(problem.near)
    blocks = [FeatureBlock(near.phi[:, span]) for span in problem.spans]
    alone = Problem(
        BlockBank(blocks, dtype=near.phi.dtype),
        near.target,
        problem.n_outputs,
        problem.loss,
        problem.norm,
        problem.C,
        near.bound / problem.C,
    )
    found = TruncatedNewton(START_TOL, random_state=0).solve(alone).model
    with one_blas_thread():
        coefs = [block.block_coef(found.coef) for block in blocks]
    return Expansion(np.concatenate(coefs), found.weights)


def some_rows(near: HeldRows) -> HeldRows:
    """Rows for a first solution in this process, spread over the sample."""
    step = -(-len(near.bound) // START_ROWS)
    return HeldRows(near.phi[::step], near.target[::step], near.bound[::step])


class PartitionedRounds(NewtonRounds):
    """Rounds whose frozen problems live in the space of features."""

    problem: Any

    @staticmethod
    def frozen_kind(problem: Any, kernel: Any, losses: Any) -> PartitionedFrozen:
        """What solves the problem under frozen weights."""
        return PartitionedFrozen(problem, kernel, losses)

    def _frozen_at(self, weights: Array) -> Frozen:
        losses: Any = self._losses or PartitionLosses(self.problem)
        kernel: Any = WeightKernel(self.problem, weights)
        self._losses = losses
        frozen = self.frozen_kind(self.problem, kernel, losses)
        frozen.tol = self.solver.tol
        return frozen

    def _dual_side(
        self, frozen: Frozen, point: Point, norms: Array, objective: float
    ) -> tuple[float, Any]:
        """The bound, and the w whose gradients have it; None for a mixture of such."""
        bound, dual = super()._dual_side(frozen, point, norms, objective)
        return bound, point.scores if dual is point.dual else None


class PartitionedFrozen(Frozen):
    """Newton's method for one D, preconditioned by the curvature of sampled rows."""

    problem: Any

    tol = 0.0  # relative gap of the whole at which nothing more is asked
    _near: NearSystems | None = None  # at the first point of this problem

    def __init__(self, problem: Any, kernel: Any, losses: Any) -> None:
        super().__init__(problem, kernel, losses)
        self._pairs: list[tuple[Array, Array, float]] = []  # moves, what they changed

    def solve(self, coef: Array, goal: float) -> Point:
        """As always; but no pass over all rows for more than what is asked."""
        point = self.point(coef, self.times(coef))
        for _ in range(STEPS):
            if point.gap <= goal or self._certified(point):
                return point
            last, point = point, self._step(point, _forcing(point.gap, goal))
            if last.gap <= min(NOISE, point.gap):
                return last
        return point

    def _certified(self, point: Point) -> bool:
        """Whether this point and its gradients' dual point do for the whole problem."""
        problem = self.problem
        norms, dual_norms = self.kernel.block_norms([point.coef, point.dual])
        loss = problem.reg * self.losses.total(point.scores)
        objective = problem.primal_of(loss, self.kernel.weights * norms)
        gain = self.losses.gain(point.dual)
        bound = problem.reg * (gain - problem.norm.dual_value(dual_norms))
        return bool(relative_gap(objective, bound) <= self.tol)

    def _step(self, point: Point, residual: float) -> Point:
        """The next point; where held rows are not all, it also tells how they err."""
        found = super()._step(point, residual)
        if not self.problem.holds_all:
            move = found.coef - point.coef
            change = point.dual - point.coef - (found.dual - found.coef)
            bend = self.dot(self.kernel.spread * move, change)
            if bend > 0.0:
                self._pairs = [*self._pairs, (move, change, bend)][-PAIRS:]
        return found

    def _direction(self, point: Point, residual: float) -> tuple[Array, Array]:
        """Newton's direction by held rows, corrected by what moves changed (BFGS)."""
        spread = self.kernel.spread
        rest, shares = point.dual - point.coef, []
        for move, change, bend in reversed(self._pairs):
            shares.append(self.dot(spread * move, rest) / bend)
            rest = rest - shares[-1] * change
        aim, far = point.coef + rest, point.scores + spread * rest
        way, _ = super()._direction(replace(point, dual=aim, dual_scores=far), residual)
        for move, change, bend in self._pairs:
            way = way + (shares.pop() - self.dot(spread * change, way) / bend) * move
        return way, spread * way

    def _length(self, point: Point, move: Any, shift: Any) -> float:
        """Held rows say how far to go: every length tried is a pass over all rows."""
        if self.problem.holds_all:
            return super()._length(point, move, shift)
        start = self.dot(move, point.scores) - self.dot(point.dual, shift)
        if start >= 0.0:
            return 0.0
        held = self.problem.held_gradient
        error = self.losses.gradient(point.scores) - held(point.scores)

        def slope(t: float, gradient: Callable[[Array], Array], more: Any) -> float:
            there = point.scores + t * shift
            return self.dot(move, there) + self.dot(gradient(there) + more, shift)

        far = _root(lambda t: slope(t, held, error), start)
        there = point.scores + far * shift
        lower = self.value(point.coef + far * move, there) < point.value
        if lower and abs(slope(far, self.losses.gradient, 0.0)) <= WELL * abs(start):
            return far
        return far * _root(lambda t: slope(far * t, self.losses.gradient, 0.0), start)

    def _improvement(
        self, point: Point, bend: Any
    ) -> Callable[[Any], tuple[Any, Any]] | None:
        """From r to z = (I + G D)^-1 r and D z, G the curvature of the sample."""
        if self.problem.n_columns > MOST_COLUMNS:
            return None
        if self._near is None:
            roots = np.sqrt(self.kernel.spread)
            self._near = NearSystems.at(self.problem, point.scores, roots)
        near = self._near

        def improve(rest: Array) -> tuple[Array, Array]:
            self.products += 1
            better = near.solve(rest)
            return better, self.kernel.spread * better

        return improve


@dataclass(frozen=True)
class NearSystems:
    """(I + G D)^-1 with a G for every output, or one for all.

    Parameters
    ----------
    systems : list of NearSystem
    common : bool
        Whether losses do not see what is added to all outputs alike: there G is zero.
    """

    systems: list[NearSystem]
    common: bool

    @classmethod
    def at(cls, problem: PartitionedProblem, w: Array, roots: Array) -> NearSystems:
        """Of sampled rows at w."""
        near, factor = problem.sampled()
        phi = near.phi.astype(np.float32, copy=False)
        scores = np.asarray(phi @ w.astype(np.float32), np.float64)
        bend = problem.loss.curvature(scores, near.target)
        n_outputs = scores.shape[1]
        units = np.broadcast_to(np.eye(n_outputs)[:, None], (n_outputs, *scores.shape))
        heights = np.maximum(np.einsum("kik->ik", bend(units)), 0.0)
        common = np.abs(bend(np.ones((1, *scores.shape)))).max(initial=0.0)
        shares = factor * near.bound[:, None] * heights
        if np.ptp(heights, axis=1).max(initial=0.0) == 0.0 or too_many(problem):
            shares = shares.mean(axis=1, keepdims=True)
        systems = [NearSystem(near_curvature(phi, share), roots) for share in shares.T]
        return cls(systems, bool(common <= FLAT * heights.max(initial=0.0)))

    def solve(self, rest: Array) -> Array:
        """The preconditioned residual; what is common to all outputs stays."""
        if len(self.systems) == 1:
            return self.systems[0].solve(rest)
        mean = rest.mean(axis=1, keepdims=True) if self.common else 0.0
        parts = zip(self.systems, np.transpose(rest - mean), strict=True)
        better = np.hstack([system.solve(part[:, None]) for system, part in parts])
        if self.common:
            better -= better.mean(axis=1, keepdims=True)
        return better + mean


def too_many(problem: PartitionedProblem) -> bool:
    """Whether a system for every output takes too much memory."""
    return 4 * problem.n_outputs * problem.n_columns**2 > MOST_BYTES


class NearSystem:
    """(I + G D)^-1 in float32, which is enough to precondition.

    Parameters
    ----------
    curvature : array of shape (columns, columns)
        G in float32; it is overwritten.
    roots : array of shape (columns, 1)
        Of D.
    """

    def __init__(self, curvature: Any, roots: Array) -> None:
        self.roots = roots.astype(np.float32)
        # Dividing by a root that is nearly zero would leave nothing but rounding.
        self.light = np.flatnonzero(roots <= LIGHT * roots.max())
        self.light_rows = curvature[self.light]
        curvature *= self.roots
        curvature *= self.roots.T
        places = np.diag_indices_from(curvature)
        curvature[places] += 1.0 + ROUNDED * float(np.trace(curvature))
        self.factor = cho_factor(curvature, overwrite_a=True, check_finite=False)

    def solve(self, rest: Array) -> Array:
        """D^-1/2 (I + D^1/2 G D^1/2)^-1 D^1/2 rest, which is the same."""
        rest = rest.astype(np.float32)
        inner = cho_solve(self.factor, self.roots * rest, check_finite=False)
        light = rest[self.light] - self.light_rows @ (self.roots * inner)
        out = np.divide(inner, self.roots, where=self.roots > 0.0, out=rest)
        out[self.light] = light
        return np.asarray(out, np.float64)


def near_curvature(phi: Any, share: Array) -> Any:
    """Phi' diag(share) Phi, by the rows that most of it is from."""
    order = np.argsort(-share)
    most = int(np.searchsorted(np.cumsum(share[order]), ENOUGH * share.sum())) + 1
    some = order[:most]  # most rows are certain, and bend nothing
    weighted = phi[some] * np.sqrt(share[some]).astype(np.float32)[:, None]
    return weighted.T @ weighted
