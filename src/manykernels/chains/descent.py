"""The state of the online proximal method on chains, and passes that change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.stored import Count, Maybe, Part, storable
from manykernels.chains.problem import ChainProblem, ChainWeights
from manykernels.hot.chain import (
    ChainState,
    ChainView,
    PassRule,
    TermCodes,
    kernel_squares,
    rescale_block,
    spom_pass,
    sum_space,
)
from manykernels.norms.regularizers import TERM_CODES, Term


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
        self.view = chain_view(problem)
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
            self.view,
            self.state,
            self.rule,
            self.terms,
            order,
            steps,
            self.importance,
            self.cost,
            draws,
            self.space,
        )
        self.n_steps += len(order)
        self.refresh()
        return int(updates), float(losses) / max(len(order), 1)

    def refresh(self) -> None:
        """Norms of kernel blocks anew: the running ones drift by rounding."""
        fresh = np.empty(len(self.view.kernel_block))
        kernel_squares(self.state.scores, self.state.coef, fresh)
        blocks = self.view.kernel_block
        alive = self.state.squares[blocks] > 0.0
        self.state.squares[blocks[alive]] = fresh[alive]

    def unary(self) -> Array:
        """Scores of all positions, from the cache."""
        state, view = self.state, self.view
        scale = state.scale[view.kernel_block]
        scores = np.einsum("f,kfi->ik", scale, state.scores, dtype=np.float64)
        blocks, starts = self.problem.blocks, self.problem.blocks.table_start
        for f, block in enumerate(blocks.columns):
            factor = state.scale[view.feature_block[f]]
            scores += factor * (block @ state.table[starts[f] : starts[f + 1]])
        return np.ascontiguousarray(scores)

    def block_norms(self) -> Array:
        """||w_f|| of every block, and of the label pairs."""
        return np.asarray(self.state.scale * np.sqrt(self.state.squares))

    def objective(self) -> float:
        """Primal value of the current model, from the cache."""
        pairs = self.state.scale[-1] * self.state.pairs
        entries = self.problem.blocks.entry_norms(self.weights(kernels=False))
        return self.problem.value(self.unary(), pairs, self.block_norms(), entries)

    def weights(self, kernels: bool = True) -> ChainWeights:
        """The current model; without kernel coefficients if these are not needed."""
        state, view = self.state, self.view
        factors = np.ones(len(state.table))
        for f, block in enumerate(view.feature_block):
            begin, end = view.table_start[f], view.table_start[f + 1]
            factors[begin:end] = state.scale[block]
        coef = state.coef[:0]
        if kernels:
            coef = state.scale[view.kernel_block][:, None, None] * state.coef
        return ChainWeights(
            coef, factors[:, None] * state.table, state.scale[-1] * state.pairs
        )

    def progress(self) -> ChainProgress:
        """The current model, and the sum of all before it."""
        total = None
        if self.rule.averaged:
            state = self.state
            for block in range(len(state.scale)):
                rescale_block(self.view, state, True, block, 1.0)
            total = ChainWeights(
                state.coef_sum.copy(), state.table_sum.copy(), state.pairs_sum.copy()
            )
        return ChainProgress(self.weights(), total, self.n_steps)


def term_codes(terms: tuple[Term, ...], n_blocks: int) -> TermCodes:
    """Terms as arrays for compiled loops."""
    members = np.zeros((len(terms), n_blocks), np.bool_)
    for j, term in enumerate(terms):
        members[j] = term.members(n_blocks)
    return TermCodes(
        np.array([TERM_CODES[term.kind] for term in terms], np.int64),
        np.array([term.weight for term in terms], np.float64),
        np.array([term.exponent for term in terms], np.float64),
        members,
    )


def chain_view(problem: ChainProblem) -> ChainView:
    """The problem's data as arrays for compiled loops."""
    blocks = problem.blocks
    columns = blocks.columns
    offsets = blocks.table_start[:-1]
    dtype = blocks.dense.dtype
    sparse = [_sorted(matrix) for matrix in blocks.sparse]
    return ChainView(
        np.ascontiguousarray(problem.starts, np.int64),
        np.ascontiguousarray(problem.target, np.int64),
        np.ascontiguousarray(blocks.dense),
        _stacked_starts(sparse, blocks.n_positions),
        _joined([matrix.indices for matrix in sparse], np.int32),
        _joined([matrix.data for matrix in sparse], dtype),
        _stacked_starts(columns, blocks.n_positions),
        _joined(
            [m.indices + offset for m, offset in zip(columns, offsets, strict=True)],
            np.int32,
        ),
        _joined([matrix.data for matrix in columns], np.float64),
        blocks.table_start,
        np.array(blocks.kernel_block, np.int64),
        np.array(blocks.feature_block, np.int64),
    )


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
    blocks, n_labels = problem.blocks, problem.n_labels
    zero = ChainWeights.zero(blocks, n_labels)
    at = zero if start is None else start.last
    total = zero
    if start is not None:
        # Without a sum, all earlier models count as the last of them.
        total = start.total or start.last.times(float(start.n_steps))
    scores = np.zeros(
        (n_labels, blocks.n_kernels, blocks.n_positions), blocks.dense.dtype
    )
    if np.any(at.coef):
        for f in range(blocks.n_kernels):
            scores[:, f] = blocks.kernel_scores(f, at.coef[f]).T
    squares = blocks.block_norms(at) ** 2
    if not averaged:
        # One row each, so that compiled code always has something to point at.
        total = ChainWeights(np.zeros((1, 0, n_labels)), zero.table[:0], zero.pairs[:0])
    return ChainState(
        scores,
        at.coef.copy(order="C"),
        np.zeros(total.coef.shape),
        total.coef.copy(order="C"),
        at.table.copy(order="C"),
        np.zeros(total.table.shape),
        total.table.copy(order="C"),
        at.pairs.copy(order="C"),
        np.zeros(total.pairs.shape),
        total.pairs.copy(order="C"),
        np.ones(len(squares)),
        squares,
        np.zeros(len(squares)),
    )
