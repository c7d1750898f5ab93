"""Learning from labeled sequences: a fit, a fit of what it has kept, one more pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from manykernels.base.arrays import Array
from manykernels.inputs.parameters import choose_generator
from manykernels.kernels import Kernel
from manykernels.norms.regularizers import SquaredL2, named_regularizer
from manykernels.structured.chain_decoder import Labels
from manykernels.structured.chain_losses import chain_loss
from manykernels.structured.chain_problem import ChainBlocks, ChainProblem, chain_terms
from manykernels.structured.online_proximal import (
    ChainCallback,
    ChainEpoch,
    OnlineProximal,
)
from manykernels.structured.sequence_model import SequenceKernels, SequenceModel
from manykernels.structured.sequences import Positions


class Sequences(NamedTuple):
    """Positions of labeled sequences, and what each sequence counts."""

    positions: Positions
    target: Labels
    weight: Array


class Learned(NamedTuple):
    """A model, the numbers of its blocks (kernels, edges, label pairs), the history."""

    model: SequenceModel
    norms: Array
    weights: Array  # beta of every block
    objective: float
    eta0: float
    history: list[ChainEpoch]


@dataclass(frozen=True)
class Learning:
    """What is minimized and how; see the parameters of :class:`SequenceLabeler`."""

    regularizer: Any
    C: float
    loss: str
    cost: Any
    transitions: str
    solver: OnlineProximal
    memory_limit: Any

    @property
    def selection(self) -> Learning:
        """The same by dual averaging, which prunes."""
        return replace(self, solver=replace(self.solver, update="dual_averaging"))

    def refit(self, C: float) -> Learning:
        """The same by gradient steps, with all kernels alike."""
        solver = replace(self.solver, update="gradient")
        return replace(self, regularizer=SquaredL2(), C=C, solver=solver)

    def problem(
        self,
        blocks: ChainBlocks,
        starts: Labels,
        target: Labels,
        n_labels: int,
        weight: Array,
    ) -> ChainProblem:
        """The problem on all blocks."""
        regularizer = named_regularizer(self.regularizer)
        return ChainProblem(
            blocks,
            starts,
            target,
            n_labels,
            chain_loss(self.loss, self.cost, n_labels),
            chain_terms(regularizer, blocks.n_blocks, self.transitions),
            float(self.C),
            weight,
            self.transitions != "none",
        )

    def fit(
        self,
        kernels: SequenceKernels,
        data: Sequences,
        n_labels: int,
        callback: ChainCallback | None,
    ) -> Learned:
        """Learn from zero."""
        positions, target, weight = data
        n_positions = positions.table.shape[0]
        blocks = kernels.training_blocks(n_positions, self.memory_limit)
        problem = self.problem(blocks, positions.starts, target, n_labels, weight)
        result = self.solver.solve(problem, callback=callback)
        model = SequenceModel.keep_support(
            kernels,
            result.progress,
            bool(self.solver.average),
            positions.n_sequences,
            0,
        )
        return Learned(
            model,
            result.block_norms,
            problem.kernel_weights(result.block_norms),
            result.objective,
            result.eta0,
            result.history,
        )

    def go_on(
        self,
        past: SequenceModel,
        kernels: SequenceKernels,
        data: Sequences,
        n_labels: int,
        seed: Any,
    ) -> Learned:
        """One pass over new sequences, which follow the support positions."""
        n_old, positions = past.kernels.n_reference, data.positions
        blocks = kernels.blocks_after(n_old, positions.table, self.memory_limit)
        # The support positions are a chain that is never visited.
        first = [0] if n_old else []
        starts = np.concatenate([first, positions.starts + n_old]).astype(np.int64)
        n_seen = past.n_sequences + positions.n_sequences
        weight = np.full(len(starts) - 1, n_seen / (len(starts) - 1))
        target = np.concatenate([np.zeros(n_old, np.int64), data.target])
        problem = self.problem(blocks, starts, target, n_labels, weight)
        begun = past.progress.with_positions(positions.table.shape[0])
        descent = self.solver.descent(problem, begun)
        rng = choose_generator(seed)
        order = len(first) + rng.permutation(positions.n_sequences)
        call = past.n_calls + 1
        steps = self.solver.steps(problem, call, descent.n_steps)[: len(order)]
        updates, loss = descent.run_pass(order, steps, rng)
        model = SequenceModel.keep_support(
            kernels, descent.progress(), bool(self.solver.average), n_seen, call
        )
        norms = descent.block_norms()
        line = ChainEpoch(0, 0.0, np.nan, loss, updates)
        betas = problem.kernel_weights(norms)
        return Learned(model, norms, betas, np.nan, float(self.solver.eta0), [line])


def kept_kernels(
    specs: tuple[list[Kernel], list[Kernel]], kernels: SequenceKernels, norms: Array
) -> tuple[tuple[list[Kernel], list[Kernel]], list[str]]:
    """Kernels and edges with a norm, and the names of the others."""
    names, kept = [*kernels.names, *kernels.edge_names], norms[:-1] > 0.0
    n_kernels = len(kernels.names)
    if not kept[:n_kernels].any():
        raise ValueError(
            "refit_C needs kernels that the first fit has left, got none; choose a "
            "larger C."
        )
    chosen, edges = specs
    return (
        (
            [kernel for f, kernel in enumerate(chosen) if kept[f]],
            [kernel for f, kernel in enumerate(edges) if kept[n_kernels + f]],
        ),
        [name for name, stays in zip(names, kept, strict=True) if not stays],
    )


def require_online(solver: OnlineProximal, refit_C: float | None) -> None:
    """Refuse what one pass over new sequences cannot do."""
    if solver.eta0 == "auto":
        raise ValueError(
            "eta0 must be a number for partial_fit, got 'auto', which needs more than "
            "one epoch; choose for instance 0.1."
        )
    if refit_C is not None:
        raise ValueError(
            "partial_fit goes on with the kernels that a fit has chosen, got "
            f"refit_C={refit_C!r} and no fit; call fit before it."
        )
