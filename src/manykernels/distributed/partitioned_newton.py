"""Newton's method on partitions, in the space of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from manykernels.banks.blocks import BlockBank, FeatureBlock
from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.distributed.partitioned_problem import (
    PartitionedProblem,
    PartitionLosses,
    WeightKernel,
)
from manykernels.distributed.preconditioner import MAX_PRECONDITIONER_COLUMNS
from manykernels.solvers.conjugate_gradients import Pair
from manykernels.solvers.loop import (
    Callback,
    Checkpoint,
    SolveResult,
    relative_gap,
    run,
)
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.smooth.frozen_problem import FrozenPoint, FrozenProblem
from manykernels.solvers.smooth.truncated_newton import NewtonRounds

MAX_LOCAL_ROWS = 2500  # for a first solution in this process
FEWER_ROWS_TOL = 0.02  # relative gap on some rows, from where more go on
# Of the gap, that a step with sampled curvature may leave; else it takes that of all.
SAMPLED_STEP_SHARE = 0.5


@dataclass(frozen=True)
class PartitionedNewton:
    """Truncated Newton on partitions; weights, rounds and certificate are the same.

    Sampled rows give the start and a preconditioner: conjugate gradients then see
    only how the rows' curvature deviates from the sample's. Where workers cannot hold
    the features of all rows, gradients are those of all rows, and products with the
    curvature go over rows that are held, as long as these steps help.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.

    References
    ----------
    Byrd, Chin, Neveitt and Nocedal (2011), On the use of stochastic Hessian
    information in optimization methods for machine learning.
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
        rounds = PartitionedRounds(problem, start, settings)
        return run(
            rounds, start, tol=self.tol, callback=callback, checkpoint=checkpoint
        )

    def _start(self, problem: PartitionedProblem) -> Expansion:
        """Solutions for some rows in this process, then for the rows that are held."""
        start, held = local_start(problem), problem.curvature
        if held is None:
            return start
        first = replace(self, tol=max(self.tol, FEWER_ROWS_TOL))
        part = replace(
            problem,
            shards=held.shards,
            C=problem.C * held.factor,
            total_weight=problem.total_weight / held.factor,
            curvature=None,
            passes=[0, 0],
        )
        return first.solve(part, start).model


def local_start(problem: PartitionedProblem) -> Expansion:
    """The solution for sampled rows, as coefficients of features."""
    rows = problem.sampled.rows
    step = -(-len(rows.bound) // MAX_LOCAL_ROWS)
    phi, bound = rows.phi[::step], rows.bound[::step]
    blocks = [FeatureBlock(phi[:, span]) for span in problem.spans]
    local = Problem(
        BlockBank(blocks, dtype=phi.dtype),
        rows.target[::step],
        problem.n_outputs,
        problem.loss,
        problem.norm,
        problem.C,
        bound / problem.C,
    )
    solution = TruncatedNewton(FEWER_ROWS_TOL, random_state=0).solve(local).model
    with one_blas_thread():
        coefs = [block.block_coef(solution.coef) for block in blocks]
    return Expansion(np.concatenate(coefs), solution.weights)


class PartitionedRounds(NewtonRounds):
    """Rounds whose frozen problems live in the space of features."""

    problem: Any

    def _frozen_at(self, weights: Array) -> FrozenProblem:
        self._losses = self._losses or PartitionLosses(self.problem)
        kernel = WeightKernel(self.problem, weights)
        return PartitionedFrozen(self.problem, kernel, self._losses, self.solver.tol)

    def _dual_side(
        self, frozen: FrozenProblem, point: FrozenPoint, norms: Array, objective: float
    ) -> tuple[float, Any]:
        """The bound, and the w whose gradients have it; None for a mixture of such."""
        gain = frozen.losses.gain(point.dual)
        mixed = self.problem.reg * self.mixture.add(point.dual, gain, norms)
        alone = self.problem.dual_at(point.dual, gain)
        return (mixed, None) if mixed > alone else (alone, point.scores)


class PartitionedFrozen(FrozenProblem):
    """Newton's method for one D, preconditioned by the curvature of sampled rows."""

    def __init__(
        self,
        problem: PartitionedProblem,
        kernel: WeightKernel,
        losses: Any,
        tol: float,
    ) -> None:
        super().__init__(problem, kernel, losses)
        self.tol = tol  # relative gap of the whole at which nothing more is asked
        self._inverse: Callable[[Array], Array] | None = None

    def is_solved(self, point: FrozenPoint, goal: float) -> bool:
        # A pass is dear: stop as soon as this point certifies the whole problem.
        problem = self.problem
        objective = problem.primal_at(point.scores, self.losses.total(point.scores))
        bound = problem.dual_at(point.dual, self.losses.gain(point.dual))
        return point.gap <= goal or relative_gap(objective, bound) <= self.tol

    def _step(self, point: FrozenPoint, residual: float) -> FrozenPoint:
        following = super()._step(point, residual)
        if following.gap > SAMPLED_STEP_SHARE * point.gap:
            self.losses.samples_curvature = False
        return following

    def _preconditioner(
        self, point: FrozenPoint, hessian_product: Any
    ) -> Callable[[Array], Pair] | None:
        """From r to z = (I + G D)^-1 r and D z, G the curvature of the sample."""
        problem, weights = self.problem, self.kernel.spread
        if len(weights) > MAX_PRECONDITIONER_COLUMNS:
            return None
        if self._inverse is None:
            sampled = problem.sampled
            self._inverse = sampled.inverse(problem.loss, point.scores, weights)
        inverse = self._inverse

        def precondition(rest: Array) -> Pair:
            self.products += 1
            better = inverse(rest)
            return better, weights * better

        return precondition
