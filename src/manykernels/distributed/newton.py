"""Newton's method on partitions, in the space of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from manykernels.banks.blocks import BlockBank, FeatureBlock
from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.distributed.corrected import CorrectedRounds
from manykernels.distributed.near import NearSystems
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
from manykernels.solvers.smooth.frozen_problem import FrozenPoint, FrozenProblem
from manykernels.solvers.smooth.truncated_newton import NewtonRounds

MOST_COLUMNS = 6000  # of a preconditioner, which is a dense matrix of them
MANY_PRODUCTS = 40  # for one direction: the preconditioner is too old
START_ROWS = 2500  # at most, for a first solution in this process
START_TOL = 0.02  # relative gap on sampled rows, from where others go on
HELD_TOL = 0.05  # relative gap on rows that can be held, from where all go on


@dataclass(frozen=True)
class PartitionedNewton:
    """Truncated Newton on partitions; weights, rounds and certificate are the same.

    Sampled rows give the start and a preconditioner: conjugate gradients then see
    only how the rows' curvature deviates from the sample's. Where workers cannot hold
    the features of all rows, see `CorrectedRounds`.

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
        rounds = self.rounds(problem, start)
        return run(
            rounds, start, tol=self.tol, callback=callback, checkpoint=checkpoint
        )

    def _start(self, problem: PartitionedProblem) -> Expansion:
        """Solutions for the sampled rows here, then for as many as workers can hold."""
        start = sampled_start(problem)
        if problem.holds_all:
            return start
        first = replace(self, tol=max(self.tol, HELD_TOL))
        return first.solve(problem.on_sample(), start).model

    def rounds(self, problem: Any, start: Expansion) -> Any:
        """The search, by what workers can hold."""
        if not problem.holds_all:
            return CorrectedRounds(problem, start, self)
        settings = TruncatedNewton(self.tol, self.max_iter)
        return PartitionedRounds(problem, start, settings)


def sampled_start(problem: PartitionedProblem) -> Expansion:
    """The solution for the rows at hand, as coefficients of features."""
    near = some_rows(problem.near.rows)
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

    def _frozen_at(self, weights: Array) -> FrozenProblem:
        losses: Any = self._losses or PartitionLosses(self.problem)
        kernel: Any = WeightKernel(self.problem, weights)
        self._losses = losses
        frozen = self.frozen_kind(self.problem, kernel, losses)
        frozen.tol = self.solver.tol
        return frozen

    def _dual_side(
        self,
        frozen: FrozenProblem,
        point: FrozenPoint,
        norms: Array,
        objective: float,
    ) -> tuple[float, Any]:
        """The bound, and the w whose gradients have it; None for a mixture of such."""
        bound, dual = super()._dual_side(frozen, point, norms, objective)
        return bound, point.scores if dual is point.dual else None


class PartitionedFrozen(FrozenProblem):
    """Newton's method for one D, preconditioned by the curvature of sampled rows."""

    problem: Any

    tol = 0.0  # relative gap of the whole at which nothing more is asked
    _systems: NearSystems | None = None

    def is_solved(self, point: FrozenPoint, goal: float) -> bool:
        """Whether the frozen problem is solved, or this point certifies the whole."""
        if point.gap <= goal:
            return True
        problem = self.problem
        norms, dual_norms = self.kernel.block_norms([point.coef, point.dual])
        loss = problem.reg * self.losses.total(point.scores)
        objective = problem.primal_of(loss, self.kernel.weights * norms)
        gain = self.losses.gain(point.dual)
        bound = problem.reg * (gain - problem.norm.dual_value(dual_norms))
        return bool(relative_gap(objective, bound) <= self.tol)

    def _direction(self, point: FrozenPoint, residual: float) -> tuple[Array, Array]:
        """As always; a preconditioner that does not do any more is forgotten."""
        before = self.products
        found = super()._direction(point, residual)
        if self.products - before > MANY_PRODUCTS:
            self._systems = None
            self.problem.near.forget()
        return found

    def _preconditioner(
        self, point: FrozenPoint, hessian_product: Any
    ) -> Callable[[Any], tuple[Any, Any]] | None:
        """From r to z = (I + G D)^-1 r and D z, G the curvature of the sample."""
        if self.problem.n_columns > MOST_COLUMNS:
            return None
        if self._systems is None:
            near, roots = self.problem.near, np.sqrt(self.kernel.spread)
            self._systems = near.systems(self.problem.loss, point.scores, roots)
        systems = self._systems

        def improve(rest: Array) -> tuple[Array, Array]:
            self.products += 1
            better = systems.solve(rest)
            return better, self.kernel.spread * better

        return improve
