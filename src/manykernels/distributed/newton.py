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
from manykernels.solvers.loop import Callback, Checkpoint, SolveResult, run
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.smooth.newton import Frozen, Point
from manykernels.solvers.smooth.truncated_newton import NewtonRounds

MOST_COLUMNS = 6000  # of a preconditioner, which is a dense matrix of them
ENOUGH = 0.995  # of the curvature of all sampled rows
START_ROWS = 2500  # at most, for a first solution in this process
START_TOL = 0.02  # relative gap on sampled rows, from where all rows go on


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
        first = replace(self, tol=max(self.tol, START_TOL))
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
    def frozen_kind(problem: Any, kernel: Any, losses: Any) -> Frozen:
        """What solves the problem under frozen weights."""
        return PartitionedFrozen(problem, kernel, losses)

    def _frozen_at(self, weights: Array) -> Frozen:
        losses: Any = self._losses or PartitionLosses(self.problem)
        kernel: Any = WeightKernel(self.problem, weights)
        self._losses = losses
        return self.frozen_kind(self.problem, kernel, losses)

    def _dual_side(
        self, frozen: Frozen, point: Point, norms: Array, objective: float
    ) -> tuple[float, Any]:
        """The bound, and the w whose gradients have it; None for a mixture of such."""
        bound, dual = super()._dual_side(frozen, point, norms, objective)
        return bound, point.scores if dual is point.dual else None


class PartitionedFrozen(Frozen):
    """Newton's method for one D, preconditioned by the curvature of sampled rows."""

    problem: Any

    _curvature: Array | None = None  # G at the first point of this problem
    _factor: Any = None

    def _improvement(
        self, point: Point, bend: Any
    ) -> Callable[[Any], tuple[Any, Any]] | None:
        """From r to z = (I + G D)^-1 r and D z, G the curvature of the sample."""
        if self.problem.n_columns > MOST_COLUMNS:
            return None
        roots = np.sqrt(self.kernel.spread)
        if self._curvature is None:
            self._curvature = near_curvature(self.problem, point.scores)
            system = roots * self._curvature * roots.T
            system[np.diag_indices_from(system)] += 1.0
            self._factor = cho_factor(system, overwrite_a=True, check_finite=False)

        def improve(rest: Array) -> tuple[Array, Array]:
            self.products += 1
            inner = cho_solve(self._factor, roots * rest, check_finite=False)
            image = roots * inner
            return rest - self._curvature @ image, image

        return improve


def near_curvature(problem: PartitionedProblem, w: Array) -> Array:
    """Phi' diag(b h) Phi over the sampled rows, h their mean curvature by output."""
    near, n_outputs = problem.near, problem.n_outputs
    phi = near.phi.astype(np.float32, copy=False)
    scores = np.asarray(phi @ w.astype(np.float32), np.float64)
    bend = problem.loss.curvature(scores, near.target)
    units = np.broadcast_to(np.eye(n_outputs)[:, None], (n_outputs, *scores.shape))
    heights = np.einsum("kik->i", bend(units)) / n_outputs
    share = problem.near_factor * near.bound * np.maximum(heights, 0.0)
    order = np.argsort(-share)
    most = int(np.searchsorted(np.cumsum(share[order]), ENOUGH * share.sum())) + 1
    some = order[:most]  # most rows are certain, and bend nothing
    weighted = phi[some] * np.sqrt(share[some]).astype(np.float32)[:, None]
    return np.asarray(weighted.T @ weighted, np.float64)
