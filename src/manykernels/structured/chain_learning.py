"""Online learning on chains: the problem, and the state that passes change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from manykernels.norms.regularizers import Regularizer
from manykernels.norms.terms import Term, regularizer_value, term_codes
from manykernels.structured.chain_blocks import ChainBlocks, ChainScores, ChainWeights
from manykernels.structured.decoders import Labels
from manykernels.structured.online_proximal import OnlineProximal, StructuredResult
from manykernels.structured.structured_problem import StructuredLoss, StructuredProblem


@dataclass(frozen=True)
class ChainProblem(StructuredProblem):
    r"""Label sequences: see :class:`StructuredProblem`.

    Parameters
    ----------
    blocks : ChainBlocks
    starts : array of shape (chains + 1,)
    target : array of shape (positions,)
    n_labels : int
    loss : StructuredLoss
    terms : tuple of Term
        Regularizer on the blocks and, last, the label pairs; see `chain_terms`.
    C : float
    chain_weight : array of shape (chains,)
    uses_pairs : bool
        Whether neighboring labels have scores at all.
    """

    blocks: ChainBlocks
    starts: Labels
    target: Labels
    n_labels: int
    loss: StructuredLoss
    terms: tuple[Term, ...]
    C: float
    chain_weight: Array
    uses_pairs: bool = True

    def __post_init__(self) -> None:
        # Entry-wise steps need entries, which blocks of kernel values do not have.
        hidden = set(self.blocks.kernel_block)
        for term in self.terms:
            touched = hidden if term.blocks is None else hidden & set(term.blocks)
            if term.kind == "entries" and touched:
                raise ValueError(
                    "sparse group lasso needs blocks of explicit features only, got "
                    "kernel blocks; use linear kernels or another regularizer."
                )

    def descent(self, method: OnlineProximal, start: Any = None) -> ChainDescent:
        return ChainDescent(self, method, start)

    @property
    def n_examples(self) -> int:
        return len(self.starts) - 1

    @property
    def n_blocks(self) -> int:
        return self.blocks.n_blocks + 1  # with the label pairs

    @property
    def total_weight(self) -> float:
        return float(self.chain_weight.sum())

    def objective(self, weights: ChainWeights) -> float:
        """The primal value of a model, from the blocks' values."""
        return self.value(
            self.blocks.scores(weights),
            self.blocks.block_norms(weights),
            self.blocks.entry_norms(weights),
        )

    def value(
        self, scores: ChainScores, block_norms: Array, entry_norms: Array
    ) -> float:
        """The primal value from scores and norms."""
        losses = np.concatenate(
            [
                self.loss.values(decoder, self.target[rows])
                for rows, decoder in scores.decoders(self.starts)
            ]
        )
        mean = float(np.average(losses, weights=self.chain_weight))
        return self.reg * regularizer_value(self.terms, block_norms, entry_norms) + mean


def chain_terms(
    regularizer: Regularizer, n_blocks: int, pairs: str = "fixed"
) -> tuple[Term, ...]:
    """Terms on n_blocks blocks and the block of label pairs.

    pairs="learned" treats label pairs as one more block, whose weight competes with
    the others (beta_0 of the SPOM paper); "fixed" gives it a square of its own.

    Examples
    --------
    >>> from manykernels.norms import SparseMKL
    >>> [term.blocks for term in chain_terms(SparseMKL(), 2)]
    [(0, 1), (2,)]
    """
    terms = regularizer.terms()
    if pairs == "learned":
        return terms
    blocks = tuple(range(n_blocks))
    kept = tuple(
        Term(t.kind, t.weight, t.exponent, blocks if t.blocks is None else t.blocks)
        for t in terms
    )
    return (*kept, Term("squared_l2", blocks=(n_blocks,)))


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
        return self.each(lambda part: part.with_positions(n_new))

    def each(self, change: Callable[[ChainWeights], ChainWeights]) -> ChainProgress:
        """The same change to all that was learned."""
        total, pushes = (
            None if part is None else change(part) for part in (self.total, self.pushes)
        )
        last, left_out = change(self.last), self.n_left_out
        return ChainProgress(last, total, self.n_steps, pushes, left_out)

    def support(self) -> NDArray[np.intp]:
        parts = (self.last, self.total, self.pushes)
        used = [np.any(part.coef, axis=(0, 2)) for part in parts if part is not None]
        return np.flatnonzero(np.any(used, axis=0))


@storable
class ChainEpoch(NamedTuple):
    """One line of the history of sequences."""

    epoch: int
    time: float
    objective: float  # of the last model
    online_loss: float  # mean loss of the chains before each of them was learned
    updates: int


class ChainDescent:
    """w_f = scale_f v_f for every block, with cached scores of kernel blocks.

    Parameters
    ----------
    problem : ChainProblem
    method : OnlineProximal
        Whether v_f is minus the sum of all gradients (dual averaging), whether the sum
        of all models is kept, and whether their average is zero where the current
        model is ("tail"): it would bring back what a penalty has pruned.
    start : ChainProgress, optional
        Go on from there.
    """

    def __init__(
        self,
        problem: ChainProblem,
        method: OnlineProximal,
        start: ChainProgress | None = None,
    ) -> None:
        self.problem, self.method = problem, method
        self.starts = np.ascontiguousarray(problem.starts, np.int64)
        self.target = np.ascontiguousarray(problem.target, np.int64)
        self.terms = term_codes(problem.terms, problem.n_blocks)
        # Weights of mean 1 leave the length of the steps as it is set.
        mean = float(problem.chain_weight.mean())
        self.importance = problem.chain_weight / mean
        self.cost = problem.loss.cost_table(problem.n_labels)
        self.n_steps = 0 if start is None else start.n_steps
        self.n_left_out = 0 if start is None else start.n_left_out
        self.rule = PassRule(
            problem.loss.name == "crf",
            bool(method.average),
            problem.uses_pairs,
            problem.loss.coarse,
            method.sums,
        )
        self.state = _initial_state(problem, start, self.rule)
        longest = int(np.diff(problem.starts).max(initial=1))
        self.space = sum_space(longest, problem.n_labels) if self.rule.crf else None

    def run_epoch(self, epoch: int, rng: np.random.Generator) -> ChainEpoch:
        """One pass over all chains, and the objective after it."""
        order = rng.permutation(self.problem.n_examples)
        steps = self.method.steps(self.problem, epoch, self.n_steps)
        updates, loss = self.run_pass(order, steps, rng)
        return ChainEpoch(epoch, 0.0, self.objective(), loss, updates)

    def run_pass(
        self, order: NDArray[np.int64], steps: Array, rng: np.random.Generator
    ) -> tuple[int, float]:
        """Visit the chains; returns updates and the mean loss met on the way."""
        shape = (self.problem.blocks.n_positions, self.problem.n_labels)
        # Random numbers decide which small parts of a CRF gradient are rounded up.
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
            self.method.dues(self.problem, steps, self.n_steps),
            self.cost,
            draws,
            self.space,
        )
        self.n_steps += len(order)
        # Running norms of kernel blocks drift by rounding.
        kernels, squares = self.state.kernels, self.state.blocks.squares
        fresh = np.empty(len(kernels.block))
        kernel_squares(kernels.scores, kernels.coef, fresh)
        alive = squares[kernels.block] > 0.0
        squares[kernels.block[alive]] = fresh[alive]
        return int(updates), float(losses) / max(len(order), 1)

    def forget_average(self) -> None:
        kernels, features, edges, pairs, blocks = self.state
        for part in (kernels, features, edges, pairs):
            part.total[:] = 0.0
            part.lag[:] = 0.0
        blocks.clock[:] = 0.0
        self.n_left_out = self.n_steps

    def block_norms(self) -> Array:
        blocks = self.state.blocks
        return np.asarray(blocks.scale * np.sqrt(blocks.squares))

    def objective(self) -> float:
        """Primal value of the current model, from the cached scores."""
        weights, blocks = self.weights(kernels=False), self.problem.blocks
        kernels, scale = self.state.kernels, self.state.blocks.scale
        unary = np.einsum(
            "f,kfi->ik", scale[kernels.block], kernels.scores, dtype=np.float64
        )
        blocks.add_features(unary, weights.table)
        scores = blocks.with_edges(np.ascontiguousarray(unary), weights)
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
            # A factor of 1 only moves what the average lags behind into the sum.
            for block in range(len(blocks.scale)):
                rescale_block(self.state, True, block, 1.0)
            total = _copied(kernels.total, features.total, pairs.total, edges.total)
            total = total.where(last) if self.method.average == "tail" else total
        if self.rule.sums:
            pushes = _copied(kernels.coef, features.table, pairs.table, edges.table)
        return ChainProgress(last, total, self.n_steps, pushes, self.n_left_out)

    def result(self, history: list[ChainEpoch]) -> StructuredResult:
        progress, problem = self.progress(), self.problem
        if self.method.average:
            weights = progress.average
            norms = problem.blocks.block_norms(weights)
            objective = problem.objective(weights)
        else:
            weights, norms = progress.last, self.block_norms()
            objective = history[-1].objective if history else self.objective()
        eta0 = self.method.first_step
        return StructuredResult(weights, norms, progress, objective, history, eta0)

    def _scaled(self, features: FeatureBlocks) -> Array:
        """w of explicit features: every row of the table by its block's scale."""
        scale = self.state.blocks.scale[features.block]
        rows = np.repeat(scale, np.diff(features.table_start))
        return np.asarray(rows[:, None] * features.table)


def _copied(*parts: Array) -> ChainWeights:
    return ChainWeights(*(part.copy() for part in parts))


def _initial_state(
    problem: ChainProblem, start: ChainProgress | None, rule: PassRule
) -> ChainState:
    """The problem's values and a model on them, as arrays for compiled loops."""
    blocks, n_labels = problem.blocks, problem.n_labels
    zero = ChainWeights.zero(blocks, n_labels)
    start = ChainProgress(zero, zero, 0, zero) if start is None else start
    at = _gradient_sums(start) if rule.sums else start.last
    # Without a sum, all earlier models count as the last of them.
    total = start.total or start.last.times(float(start.n_steps - start.n_left_out))
    if not rule.averaged:
        # One row each, so that compiled code always has something to point at.
        row = np.zeros((1, 0, n_labels))
        total = ChainWeights(row, zero.table[:0], zero.pairs[:0], zero.edges[:0])
    norms = blocks.block_norms(at)
    n, scale = len(norms), np.ones(len(norms))
    if rule.sums:
        # The sum of gradients is longer than the model that its proximal step leaves.
        np.divide(blocks.block_norms(start.last), norms, out=scale, where=norms > 0.0)
    clock, moves, before, after = np.zeros((4, n))
    # Tables of edges have one column per label pair, also where they are empty.
    edges = [model.edges.reshape(-1, n_labels**2) for model in (at, total)]
    return ChainState(
        _kernel_blocks(blocks, at.coef, total.coef),
        _feature_blocks(
            blocks.feature_block,
            blocks.columns,
            blocks.table_start,
            blocks.n_positions,
            *_with_average(at.table, total.table),
        ),
        _feature_blocks(
            blocks.edge_block,
            blocks.edge_columns,
            blocks.edge_start,
            blocks.n_positions,
            *_with_average(*edges),
        ),
        PairBlock(*_with_average(at.pairs, total.pairs)),
        BlockNorms(scale, norms**2, clock, moves, before, after, np.zeros(n, np.bool_)),
    )


def _gradient_sums(start: ChainProgress) -> ChainWeights:
    """Minus the sum of all gradients so far."""
    if start.pushes is None:
        raise ValueError(
            "dual averaging must go on from its own sums of gradients, got a model "
            "that was learned in another way; begin a new fit."
        )
    return start.pushes


def _kernel_blocks(blocks: ChainBlocks, coef: Array, total: Array) -> KernelBlocks:
    sparse = []
    for matrix in blocks.sparse:  # look-ups rely on rising columns
        sparse.append(matrix if matrix.has_sorted_indices else matrix.sorted_indices())
    dtype = blocks.dense.dtype
    # A visit reads scores of its own positions: they are cached, and every change of a
    # coefficient adds a row of kernel values to them.
    scores = np.zeros((coef.shape[2], blocks.n_kernels, blocks.n_positions), dtype)
    if np.any(coef):
        for f in range(blocks.n_kernels):
            scores[:, f] = blocks.kernel_scores(f, coef[f]).T
    return KernelBlocks(
        np.array(blocks.kernel_block, np.int64),
        np.ascontiguousarray(blocks.dense),
        _row_starts(sparse, blocks.n_positions),
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
    *table: Array,
) -> FeatureBlocks:
    offsets = table_start[:-1]
    rows = [m.indices + offset for m, offset in zip(columns, offsets, strict=True)]
    return FeatureBlocks(
        np.array(block, np.int64),
        _row_starts(columns, n_positions),
        _joined(rows, np.int32),
        _joined([matrix.data for matrix in columns], np.float64),
        table_start,
        *table,
    )


def _row_starts(matrices: list[Any], n_rows: int) -> NDArray[np.int64]:
    """Row starts of CSR matrices whose entries are laid end to end."""
    starts = np.zeros((len(matrices), n_rows + 1), np.int64)
    offset = 0
    for f, matrix in enumerate(matrices):
        starts[f] = matrix.indptr.astype(np.int64) + offset
        offset += len(matrix.data)
    return starts


def _joined(parts: list[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0)]).astype(dtype)


def _with_average(values: Array, total: Array) -> tuple[Array, Array, Array]:
    """v, what its average lags behind, and the sum of all models so far."""
    return values.copy(order="C"), np.zeros(total.shape), total.copy(order="C")
