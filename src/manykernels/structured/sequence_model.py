"""The model of a sequence labeler on the positions that it needs, and its learning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Array
from manykernels.base.stored import FLAG, Count, Part, require_all, storable
from manykernels.norms.regularizers import named_regularizer
from manykernels.structured.chain_blocks import ChainBlocks, ChainScores, ChainWeights
from manykernels.structured.chain_learning import (
    ChainDescent,
    ChainEpoch,
    ChainProblem,
    ChainProgress,
    chain_terms,
)
from manykernels.structured.decoders import Labels
from manykernels.structured.online_proximal import EpochCallback, OnlineProximal
from manykernels.structured.sequence_kernels import Kernels, SequenceKernels
from manykernels.structured.sequences import Positions
from manykernels.structured.structured_problem import sequence_loss


@storable(
    kernels=Part(SequenceKernels),
    progress=Part(ChainProgress),
    averaged=FLAG,
    n_sequences=Count(),
    n_calls=Count(),
)
@dataclass(frozen=True)
class SequenceModel:
    """Where learning stands, on the support positions: enough to predict and go on."""

    kernels: SequenceKernels
    progress: ChainProgress
    averaged: bool
    n_sequences: int  # learned from so far
    n_calls: int  # to partial_fit

    @classmethod
    def keep_support(
        cls,
        kernels: SequenceKernels,
        progress: ChainProgress,
        averaged: bool,
        n_sequences: int,
        n_calls: int,
    ) -> SequenceModel:
        """Drop positions without coefficients."""
        support = progress.support()
        kept = progress.each(lambda part: part.take(support))
        return cls(kernels.take(support), kept, averaged, n_sequences, n_calls)

    def require_sound(self) -> None:
        """Raise a ValueError where weights and kernels do not fit together."""
        kernels, pairs = self.kernels, self.progress.last.pairs
        n_valued = len(kernels.blocks_of("dense", "sparse"))
        shape = (n_valued, kernels.n_reference, len(pairs))
        table = (sum(kernels.feature_columns), len(pairs))
        edges = (kernels.edge_columns, len(pairs) ** 2)
        shapes = (shape, table, pairs.shape, edges)
        names = ("coefficients", "features", "labels", "edges")
        parts = (self.progress.last, self.progress.total, self.progress.pushes)
        for what, part in zip(("weights", "sums", "gradients"), parts, strict=True):
            if part is not None:
                fit = [a.shape == b for a, b in zip(part.parts, shapes, strict=True)]
                checks = dict(zip(names, fit, strict=True))
                require_all(f"the {what} of a model of sequences", checks)

    @classmethod
    def empty(
        cls, kernels: SequenceKernels, averaged: bool, sums: bool, n_labels: int
    ) -> SequenceModel:
        """A model that has learned nothing, on no positions."""
        zero = ChainWeights(
            np.zeros((len(kernels.blocks_of("dense", "sparse")), 0, n_labels)),
            np.zeros((sum(kernels.feature_columns), n_labels)),
            np.zeros((n_labels, n_labels)),
            np.zeros((kernels.edge_columns, n_labels**2)),
        )
        progress = ChainProgress(
            zero, zero if averaged else None, 0, zero if sums else None
        )
        return cls(kernels.take(np.empty(0, np.intp)), progress, averaged, 0, 0)

    @cached_property
    def weights(self) -> ChainWeights:
        """The model that predicts: the average or the last."""
        return self.progress.average if self.averaged else self.progress.last

    def scores(self, table: Any) -> ChainScores:
        """Scores of new positions, in float64."""
        weights, edges = self.weights, None
        if self.kernels.edges is not None:
            features = self.kernels.edges.new_features(table)
            edges = sp.hstack([sp.csr_array(phi) for phi in features], format="csr")
        return ChainScores(self.unary(table), weights.pairs, edges, weights.edges)

    def unary(self, table: Any) -> Array:
        """Scores of labels at new positions, shape (positions, labels)."""
        weights, kernels = self.weights, self.kernels
        scores = np.zeros((table.shape[0], weights.pairs.shape[0]))
        n_dense = kernels.forms.count("dense")
        _add_kernels(scores, kernels.dense, weights.coef[:n_dense], table)
        _add_kernels(scores, kernels.sparse, weights.coef[n_dense:], table)
        if kernels.explicit is not None:
            edges = np.cumsum(kernels.feature_columns)[:-1]
            parts = np.split(weights.table, edges)
            # By blocks of rows: features of all new positions may not fit.
            for rows, features in kernels.explicit.feature_blocks(table):
                for phi, part in zip(features, parts, strict=True):
                    scores[rows] += phi @ part
        return scores


def _add_kernels(scores: Array, kernels: Kernels, coef: Array, table: Any) -> None:
    """scores += sum_f K_f(new, support) coef_f."""
    if kernels is None or not coef.any() or not len(scores):
        return
    # Kernels without coefficients are not computed.
    used = np.flatnonzero(np.any(coef != 0.0, axis=(1, 2)))
    for rows, block in kernels.only(used).astype(np.float64).cross(table):
        for f in used:
            scores[rows] += block[f] @ coef[f]


class LearnedSequences(NamedTuple):
    """A model, the numbers of its blocks (kernels, edges, label pairs), the history."""

    model: SequenceModel
    norms: Array
    betas: Array
    objective: float
    eta0: float
    history: list[ChainEpoch]


@dataclass(frozen=True)
class SequenceLearning:
    """Problem and method; see the parameters of :class:`SequenceLabeler`."""

    regularizer: Any
    C: float
    loss: str
    cost: Any
    transitions: str
    method: OnlineProximal
    memory_limit: Any
    n_labels: int

    def problem(
        self, blocks: ChainBlocks, starts: Labels, target: Labels, weight: Array
    ) -> ChainProblem:
        """The problem on all blocks."""
        regularizer = named_regularizer(self.regularizer)
        return ChainProblem(
            blocks,
            starts,
            target,
            self.n_labels,
            sequence_loss(self.loss, self.cost, self.n_labels),
            chain_terms(regularizer, blocks.n_blocks, self.transitions),
            self.C,
            weight,
            self.transitions != "none",
        )

    def fit(
        self,
        kernels: SequenceKernels,
        positions: Positions,
        target: Labels,
        weight: Array,
        callback: EpochCallback | None,
    ) -> LearnedSequences:
        """Learn from zero."""
        blocks = kernels.training_blocks(len(target), self.memory_limit)
        problem = self.problem(blocks, positions.starts, target, weight)
        result = self.method.solve(problem, callback=callback)
        averaged, n = bool(self.method.average), positions.n_sequences
        return LearnedSequences(
            SequenceModel.keep_support(kernels, result.progress, averaged, n, 0),
            result.block_norms,
            problem.kernel_weights(result.block_norms),
            result.objective,
            result.eta0,
            result.history,
        )

    def one_pass(
        self,
        past: SequenceModel,
        kernels: SequenceKernels,
        positions: Positions,
        target: Labels,
        rng: np.random.Generator,
    ) -> LearnedSequences:
        """Visit new sequences once; they follow the support positions."""
        n_old, n_new = past.kernels.n_reference, positions.n_sequences
        blocks = kernels.blocks_after(n_old, positions.table, self.memory_limit)
        # The support positions are a chain of their own, which is never visited.
        first = [0] if n_old else []
        starts = np.concatenate([first, positions.starts + n_old]).astype(np.int64)
        n_chains, n_learned = len(starts) - 1, past.n_sequences + n_new
        # lambda is that of all sequences so far, as if they were learned together.
        weight = np.full(n_chains, n_learned / n_chains)
        target = np.concatenate([np.zeros(n_old, np.int64), target])
        problem = self.problem(blocks, starts, target, weight)
        method, call = self.method.resolved(problem), past.n_calls + 1
        begun = past.progress.with_positions(positions.table.shape[0])
        descent = ChainDescent(problem, method, begun)
        order = len(first) + rng.permutation(n_new)
        steps = method.steps(problem, call, descent.n_steps)[:n_new]
        updates, loss = descent.run_pass(order, steps, rng)
        progress, averaged = descent.progress(), bool(method.average)
        norms = descent.block_norms()
        return LearnedSequences(
            SequenceModel.keep_support(kernels, progress, averaged, n_learned, call),
            norms,
            problem.kernel_weights(norms),
            np.nan,
            method.first_step,
            [ChainEpoch(0, 0.0, np.nan, loss, updates)],
        )
