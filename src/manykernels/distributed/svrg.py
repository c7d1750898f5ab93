"""Variance-reduced epochs on partitions, whose snapshot gradient is one reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks.blocks import BlockBank, FeatureBlock
from manykernels.base.arrays import Array
from manykernels.distributed.newton import (
    PartitionedFrozen,
    PartitionedNewton,
    PartitionedRounds,
)
from manykernels.distributed.rows import HeldRows
from manykernels.distributed.sums import add_arrays
from manykernels.hot.svrg_epochs import Rule, Snapshot
from manykernels.losses import Loss
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem, require_lasting_weights
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.smooth.frozen_problem import FrozenPoint
from manykernels.solvers.svrg.epoch import FeatureSource, importance, run_epoch

PASSES = 2  # over the rows of a shard, in one epoch


@dataclass(frozen=True)
class PartitionedSVRG(PartitionedNewton):
    """Every shard takes stochastic steps from the same w, and the results are averaged.

    A step is corrected by the gradient of all rows at the snapshot, which is one
    reduction; the average is a direction, whose length a search along it decides.
    """

    def solve(self, problem: Any, *others: Any) -> Any:
        """Solve to the relative gap `tol`, or until `max_iter` rounds are spent."""
        require_lasting_weights(problem, "svrg")
        return super().solve(problem, *others)

    def rounds(self, problem: Any, start: Any) -> Any:
        """The search, by what workers can hold."""
        if not problem.holds_all:
            return super().rounds(problem, start)
        return EpochRounds(problem, start, TruncatedNewton(self.tol, self.max_iter))


class EpochRounds(PartitionedRounds):
    """Rounds whose frozen problems are solved by epochs."""

    @staticmethod
    def frozen_kind(problem: Any, kernel: Any, losses: Any) -> PartitionedFrozen:
        """What solves the problem under frozen weights."""
        return EpochFrozen(problem, kernel, losses)


class EpochFrozen(PartitionedFrozen):
    """Directions from epochs in place of Newton's."""

    def _direction(self, point: FrozenPoint, residual: float) -> tuple[Array, Array]:
        self.products += 1
        problem, engine = self.problem, self.problem.engine
        seed = np.random.SeedSequence(self.products).generate_state(len(problem.shards))
        both = engine.shared((point.coef, point.dual))
        settings = (self.kernel.weights, problem.widths, problem.loss, problem.reg)
        tasks = [
            engine.task(epoch_over, rows, both, *settings, int(seed[k]))
            for k, rows in enumerate(problem.shards)
        ]
        total = engine.total(tasks, add_arrays)
        move = total[:-1] / total[-1:, :1] - point.coef
        return move, self.times(move)


def epoch_over(
    rows: HeldRows,
    snapshot: tuple[Array, Array],
    weights: Array,
    widths: Sequence[int],
    loss: Loss,
    reg: float,
    seed: int,
) -> Array:
    """The z that steps on one shard lead to, times its rows; these in the last row."""
    coef, dual = snapshot
    n_rows, n_outputs = len(rows.bound), coef.shape[1]
    out = np.zeros((len(coef) + 1, n_outputs))
    if not n_rows:
        return out
    ends = np.cumsum(widths)[:-1]
    blocks = [np.ascontiguousarray(phi) for phi in np.split(rows.phi, ends, axis=1)]
    bank = BlockBank([FeatureBlock(phi) for phi in blocks], dtype=rows.phi.dtype)
    parts = (bank, rows.target, n_outputs, loss, LpGroupNorm(2.0), 1.0, rows.bound)
    problem, spread = Problem(*parts), np.repeat(weights, widths)[:, None]
    scores, pull = rows.phi @ (spread * coef), rows.phi @ (spread * dual)
    largest = float(np.max(importance(problem) * (bank.diagonals() @ weights)))
    step = 1.0 / (float(loss.smoothness or 0.0) * largest + reg)
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(n_rows) for _ in range(PASSES)])
    rule = Rule(*map(np.array, ([step], [1.0 - step * reg], [len(order)])))
    slope = loss.gradient(scores, rows.target)
    known = Snapshot(scores.T[None], pull.T[None], slope)
    source = FeatureSource(blocks).sharing(weights)
    added, decay = run_epoch(source, problem, order, rule, known)
    moved = decay[0] * coef + (1.0 - decay[0]) * dual + rows.phi.T @ added[0].T
    out[:-1], out[-1] = n_rows * moved, n_rows
    return out
