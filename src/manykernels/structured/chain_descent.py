"""The state of the online proximal method on chains, and passes that change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.stored import Count, Maybe, Part, storable
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
from manykernels.norms.terms import term_codes
from manykernels.structured.chain_problem import ChainBlocks, ChainProblem, ChainWeights


@storable(
    last=Part(ChainWeights),
    total=Maybe(Part(ChainWeights)),
    n_steps=Count(),
    pushes=Maybe(Part(ChainWeights)),
    n_left_out=Count(),
)
@dataclass(frozen=True)
class ChainProgress:
    """Where an online method stands: what it needs to go on."""

    last: ChainWeights
    total: ChainWeights | None  # sum of the models before each step
    n_steps: int
    pushes: ChainWeights | None = None  # of dual averaging: minus all gradients' sum
    n_left_out: int = 0  # first steps whose models are not in the sum

    @property
    def average(self) -> ChainWeights:
        """The mean of all models in the sum."""
        count = self.n_steps - self.n_left_out
        if self.total is None or count <= 0:
            return self.last
        return self.total.times(1.0 / count)

    def with_positions(self, n_new: int) -> ChainProgress:
        """The same model with new positions, which have no coefficients yet."""
        return self.each(lambda part: part.with_positions(n_new))

    def each(self, change: Callable[[ChainWeights], ChainWeights]) -> ChainProgress:
        """The same change to all that was learned."""
        total, pushes = (
            None if part is None else change(part) for part in (self.total, self.pushes)
        )
        last, left_out = change(self.last), self.n_left_out
        return ChainProgress(last, total, self.n_steps, pushes, left_out)

    def support(self) -> NDArray[np.intp]:
        """Positions with coefficients."""
        parts = (self.last, self.total, self.pushes)
        used = [np.any(part.coef, axis=(0, 2)) for part in parts if part is not None]
        return np.flatnonzero(np.any(used, axis=0))


class ChainDescent:
    """w_f = scale_f v_f for every block, with cached scores of kernel blocks.

    Parameters
    ----------
    problem : ChainProblem
    start : ChainProgress, optional
        Go on from there.
    averaged : bool
        Whether the sum of all models is kept.
    radius : float
        Of the ball that holds all models.
    sums : bool
        Dual averaging: v_f is minus the sum of all gradients.
    pruned : bool
        The average is zero where the current model is: it would bring back what was
        there before a penalty has pruned it.
    """

    def __init__(
        self,
        problem: ChainProblem,
        start: ChainProgress | None = None,
        *,
        averaged: bool = True,
        radius: float = np.inf,
        sums: bool = False,
        pruned: bool = False,
    ) -> None:
        self.problem, self.pruned = problem, pruned
        self.starts = np.ascontiguousarray(problem.starts, np.int64)
        self.target = np.ascontiguousarray(problem.target, np.int64)
        self.terms = term_codes(problem.terms, problem.blocks.n_blocks + 1)
        mean = float(problem.chain_weight.mean())
        self.importance = problem.chain_weight / mean
        self.cost = problem.loss.cost_table(problem.n_labels)
        self.n_steps = 0 if start is None else start.n_steps
        self.n_left_out = 0 if start is None else start.n_left_out
        self.rule = PassRule(
            radius,
            problem.loss.name == "crf",
            averaged,
            problem.uses_pairs,
            problem.loss.coarse,
            sums,
        )
        self.state = _initial_state(problem, start, averaged, sums)
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
            self.dues(steps),
            self.cost,
            draws,
            self.space,
        )
        self.n_steps += len(order)
        self.refresh()
        return int(updates), float(losses) / max(len(order), 1)

    def forget_average(self) -> None:
        """Leave all models so far out of the average."""
        kernels, features, edges, pairs, blocks = self.state
        for held in (kernels, features, edges, pairs):
            held.total[:] = 0.0
            held.lag[:] = 0.0
        blocks.clock[:] = 0.0
        self.n_left_out = self.n_steps

    def dues(self, steps: Array) -> Array:
        """Factors of the regularizer: of one step, or of all so far for their sum."""
        asked = self.n_steps + 1 + np.arange(len(steps)) if self.rule.sums else 1.0
        return np.asarray(self.problem.reg * asked * steps)

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
        table = self._scaled(features)
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
        weights, blocks = self.weights(kernels=False), self.problem.blocks
        scores = blocks.with_edges(self.unary(), weights)
        entries = blocks.entry_norms(weights)
        return self.problem.value(scores, self.block_norms(), entries)

    def weights(self, kernels: bool = True) -> ChainWeights:
        """The current model; without kernel coefficients if these are not needed."""
        state, scale = self.state, self.state.blocks.scale
        coef = state.kernels.coef[:0]
        if kernels:
            coef = scale[state.kernels.block][:, None, None] * state.kernels.coef
        tables = self._scaled(state.features), self._scaled(state.edges)
        return ChainWeights(coef, tables[0], scale[-1] * state.pairs.table, tables[1])

    def progress(self) -> ChainProgress:
        """The current model, and the sum of all before it."""
        kernels, features, edges, pairs, blocks = self.state
        last, total, pushes = self.weights(), None, None
        if self.rule.averaged:
            for block in range(len(blocks.scale)):
                rescale_block(self.state, True, block, 1.0)
            total = _copied(kernels.total, features.total, pairs.total, edges.total)
            total = total.where(last) if self.pruned else total
        if self.rule.sums:
            pushes = _copied(kernels.coef, features.table, pairs.table, edges.table)
        return ChainProgress(last, total, self.n_steps, pushes, self.n_left_out)

    def _scaled(self, features: FeatureBlocks) -> Array:
        """w of explicit features: every row of the table by its block's scale."""
        scale = self.state.blocks.scale[features.block]
        rows = np.repeat(scale, np.diff(features.table_start))
        return np.asarray(rows[:, None] * features.table)


def _copied(*parts: Array) -> ChainWeights:
    return ChainWeights(*(part.copy() for part in parts))


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
    problem: ChainProblem, start: ChainProgress | None, averaged: bool, sums: bool
) -> ChainState:
    """The problem's values and a model on them, as arrays for compiled loops."""
    blocks, n_labels = problem.blocks, problem.n_labels
    zero = ChainWeights.zero(blocks, n_labels)
    start = ChainProgress(zero, zero, 0, zero) if start is None else start
    at = _summed(start) if sums else start.last
    # Without a sum, all earlier models count as the last of them.
    total = start.total or start.last.times(float(start.n_steps - start.n_left_out))
    if not averaged:
        # One row each, so that compiled code always has something to point at.
        none = (zero.table[:0], zero.pairs[:0], zero.edges[:0])
        total = ChainWeights(np.zeros((1, 0, n_labels)), *none)
    norms = blocks.block_norms(at)
    scale = np.ones(len(norms))
    if sums:
        np.divide(blocks.block_norms(start.last), norms, out=scale, where=norms > 0.0)
    features = (blocks.feature_block, blocks.columns, blocks.table_start)
    edges = (blocks.edge_block, blocks.edge_columns, blocks.edge_start)
    return ChainState(
        _kernel_blocks(blocks, at.coef, total.coef),
        _feature_blocks(*features, blocks.n_positions, at.table, total.table),
        _feature_blocks(*edges, blocks.n_positions, *_pair_outputs(at, total)),
        PairBlock(*_with_average(at.pairs, total.pairs)),
        _block_norms(scale, norms**2),
    )


def _summed(start: ChainProgress) -> ChainWeights:
    """Minus the sum of all gradients so far."""
    if start.pushes is None:
        raise ValueError(
            "dual averaging must go on from its own sums of gradients, got a model "
            "that was learned in another way; begin a new fit."
        )
    return start.pushes


def _pair_outputs(*models: ChainWeights) -> list[Array]:
    """Tables of edges with one column per label pair, also where they are empty."""
    n_outputs = models[0].pairs.size
    return [model.edges.reshape(-1, n_outputs) for model in models]


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


def _feature_blocks(
    block: Sequence[int],
    columns: list[Any],
    table_start: NDArray[np.int64],
    n_positions: int,
    table: Array,
    total: Array,
) -> FeatureBlocks:
    offsets = table_start[:-1]
    rows = [m.indices + offset for m, offset in zip(columns, offsets, strict=True)]
    return FeatureBlocks(
        np.array(block, np.int64),
        _stacked_starts(columns, n_positions),
        _joined(rows, np.int32),
        _joined([matrix.data for matrix in columns], np.float64),
        table_start,
        *_with_average(table, total),
    )


def _block_norms(scale: Array, squares: Array) -> BlockNorms:
    n = len(squares)
    visit = (np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.bool_))
    return BlockNorms(scale, squares, np.zeros(n), *visit)


def _with_average(values: Array, total: Array) -> tuple[Array, Array, Array]:
    """v, what its average lags behind, and the sum of all models so far."""
    return values.copy(order="C"), np.zeros(total.shape), total.copy(order="C")
