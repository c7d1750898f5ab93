"""The state of the online proximal method on chains, and passes that change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.stored import Count, Maybe, Part, storable
from manykernels.chains.problem import ChainBlocks, ChainProblem, ChainWeights
from manykernels.hot.chain import (
    BlockNorms,
    ChainState,
    FeatureBlocks,
    KernelBlocks,
    PairBlock,
    PassRule,
    kernel_squares,
    rescale_block,
    spom_pass,
    sum_space,
)
from manykernels.norms.regularizers import term_codes


@storable(last=Part(ChainWeights), total=Maybe(Part(ChainWeights)), n_steps=Count())
@dataclass(frozen=True)
class ChainProgress:
    """Where an online method stands: what it needs to go on."""

    last: ChainWeights
    total: ChainWeights | None  # sum of the models before each step
    n_steps: int

    @property
    def average(self) -> ChainWeights:
        """The mean of all models so far."""
        if self.total is None or self.n_steps == 0:
            return self.last
        return self.total.times(1.0 / self.n_steps)

    def with_positions(self, n_new: int) -> ChainProgress:
        """The same model with new positions, which have no coefficients yet."""
        total = None if self.total is None else self.total.with_positions(n_new)
        return ChainProgress(self.last.with_positions(n_new), total, self.n_steps)


class ChainDescent:
    """w_f = scale_f v_f for every block, with cached scores of kernel blocks.

    Parameters
    ----------
    problem : ChainProblem
    start : ChainProgress, optional
        Go on from there.
    averaged : bool
        Whether the sum of all models is kept.
    """

    def __init__(
        self,
        problem: ChainProblem,
        start: ChainProgress | None = None,
        *,
        averaged: bool = True,
        radius: float = np.inf,
    ) -> None:
        self.problem = problem
        self.starts = np.ascontiguousarray(problem.starts, np.int64)
        self.target = np.ascontiguousarray(problem.target, np.int64)
        self.terms = term_codes(problem.terms, problem.blocks.n_blocks + 1)
        mean = float(problem.chain_weight.mean())
        self.importance = problem.chain_weight / mean
        self.cost = problem.loss.cost_table(problem.n_labels)
        self.n_steps = 0 if start is None else start.n_steps
        self.rule = PassRule(
            problem.reg,
            radius,
            problem.loss.name == "crf",
            averaged,
            problem.uses_pairs,
            problem.loss.coarse,
        )
        self.state = _initial_state(problem, start, averaged)
        longest = int(np.diff(problem.starts).max(initial=1))
        self.space = sum_space(longest, problem.n_labels) if self.rule.crf else None

    def run_pass(
        self, order: NDArray[np.int64], steps: Array, rng: np.random.Generator
    ) -> tuple[int, float]:
        """Visit the chains; returns updates and the mean loss met on the way."""
        shape = (self.problem.blocks.n_positions, self.problem.n_labels)
        rounded = self.rule.crf and self.rule.coarse > 0.0
        draws = rng.random(shape if rounded else (shape[0], 0))
        if not rounded:
            draws = np.zeros((shape[0], shape[1] if self.rule.crf else 0))
        updates, losses = spom_pass(
            self.starts,
            self.target,
            self.importance,
            self.state,
            self.rule,
            self.terms,
            order,
            steps,
            self.cost,
            draws,
            self.space,
        )
        self.n_steps += len(order)
        self.refresh()
        return int(updates), float(losses) / max(len(order), 1)

    def refresh(self) -> None:
        """Norms of kernel blocks anew: the running ones drift by rounding."""
        kernels, squares = self.state.kernels, self.state.blocks.squares
        fresh = np.empty(len(kernels.block))
        kernel_squares(kernels.scores, kernels.coef, fresh)
        alive = squares[kernels.block] > 0.0
        squares[kernels.block[alive]] = fresh[alive]

    def unary(self) -> Array:
        """Scores of all positions, from the cache."""
        kernels, features = self.state.kernels, self.state.features
        scale = self.state.blocks.scale
        factors = scale[kernels.block]
        scores = np.einsum("f,kfi->ik", factors, kernels.scores, dtype=np.float64)
        table = self._feature_scales()[:, None] * features.table
        for f, block in enumerate(self.problem.blocks.columns):
            scores += (
                block @ table[features.table_start[f] : features.table_start[f + 1]]
            )
        return np.ascontiguousarray(scores)

    def block_norms(self) -> Array:
        """||w_f|| of every block, and of the label pairs."""
        blocks = self.state.blocks
        return np.asarray(blocks.scale * np.sqrt(blocks.squares))

    def objective(self) -> float:
        """Primal value of the current model, from the cache."""
        weights = self.weights(kernels=False)
        entries = self.problem.blocks.entry_norms(weights)
        norms = self.block_norms()
        return self.problem.value(self.unary(), weights.pairs, norms, entries)

    def weights(self, kernels: bool = True) -> ChainWeights:
        """The current model; without kernel coefficients if these are not needed."""
        state, scale = self.state, self.state.blocks.scale
        coef = state.kernels.coef[:0]
        if kernels:
            coef = scale[state.kernels.block][:, None, None] * state.kernels.coef
        table = self._feature_scales()[:, None] * state.features.table
        return ChainWeights(coef, table, scale[-1] * state.pairs.table)

    def progress(self) -> ChainProgress:
        """The current model, and the sum of all before it."""
        state, total = self.state, None
        if self.rule.averaged:
            for block in range(len(state.blocks.scale)):
                rescale_block(state, True, block, 1.0)
            sums = (state.kernels.total, state.features.total, state.pairs.total)
            total = ChainWeights(*(part.copy() for part in sums))
        return ChainProgress(self.weights(), total, self.n_steps)

    def _feature_scales(self) -> Array:
        """The scale of every row of the table of feature weights."""
        features = self.state.features
        scale = self.state.blocks.scale[features.block]
        return np.repeat(scale, np.diff(features.table_start))


def _sorted(matrix: Any) -> Any:
    """CSR with rising column indices, which look-ups rely on."""
    if matrix.has_sorted_indices:
        return matrix
    matrix = matrix.copy()
    matrix.sort_indices()
    return matrix


def _stacked_starts(matrices: list[Any], n_rows: int) -> NDArray[np.int64]:
    """Row starts of matrices whose entries are laid end to end."""
    starts = np.zeros((len(matrices), n_rows + 1), np.int64)
    offset = 0
    for f, matrix in enumerate(matrices):
        starts[f] = matrix.indptr.astype(np.int64) + offset
        offset += len(matrix.data)
    return starts


def _joined(parts: list[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0)]).astype(dtype)


def _initial_state(
    problem: ChainProblem, start: ChainProgress | None, averaged: bool
) -> ChainState:
    """The problem's values and a model on them, as arrays for compiled loops."""
    blocks, n_labels = problem.blocks, problem.n_labels
    zero = ChainWeights.zero(blocks, n_labels)
    at = zero if start is None else start.last
    total = zero
    if start is not None:
        # Without a sum, all earlier models count as the last of them.
        total = start.total or start.last.times(float(start.n_steps))
    if not averaged:
        # One row each, so that compiled code always has something to point at.
        total = ChainWeights(np.zeros((1, 0, n_labels)), zero.table[:0], zero.pairs[:0])
    return ChainState(
        _kernel_blocks(blocks, at.coef, total.coef),
        _feature_blocks(blocks, at.table, total.table),
        PairBlock(*_with_average(at.pairs, total.pairs)),
        _block_norms(blocks.block_norms(at) ** 2),
    )


def _kernel_blocks(blocks: ChainBlocks, coef: Array, total: Array) -> KernelBlocks:
    dtype = blocks.dense.dtype
    sparse = [_sorted(matrix) for matrix in blocks.sparse]
    scores = np.zeros((coef.shape[2], blocks.n_kernels, blocks.n_positions), dtype)
    if np.any(coef):
        for f in range(blocks.n_kernels):
            scores[:, f] = blocks.kernel_scores(f, coef[f]).T
    return KernelBlocks(
        np.array(blocks.kernel_block, np.int64),
        np.ascontiguousarray(blocks.dense),
        _stacked_starts(sparse, blocks.n_positions),
        _joined([matrix.indices for matrix in sparse], np.int32),
        _joined([matrix.data for matrix in sparse], dtype),
        scores,
        *_with_average(coef, total),
    )


def _feature_blocks(blocks: ChainBlocks, table: Array, total: Array) -> FeatureBlocks:
    columns, offsets = blocks.columns, blocks.table_start[:-1]
    rows = [m.indices + offset for m, offset in zip(columns, offsets, strict=True)]
    return FeatureBlocks(
        np.array(blocks.feature_block, np.int64),
        _stacked_starts(columns, blocks.n_positions),
        _joined(rows, np.int32),
        _joined([matrix.data for matrix in columns], np.float64),
        blocks.table_start,
        *_with_average(table, total),
    )


def _block_norms(squares: Array) -> BlockNorms:
    n = len(squares)
    visit = (np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.bool_))
    return BlockNorms(np.ones(n), squares, np.zeros(n), *visit)


def _with_average(values: Array, total: Array) -> tuple[Array, Array, Array]:
    """v, what its average lags behind, and the sum of all models so far."""
    return values.copy(order="C"), np.zeros(total.shape), total.copy(order="C")
