"""Structured learning on chains: the problem, its blocks and its models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manykernels.base.arrays import Array, Values
from manykernels.base.stored import Floats, storable
from manykernels.norms.regularizers import Regularizer
from manykernels.norms.terms import (
    Term,
    kernel_weights,
    regularizer_value,
    strong_convexity,
)
from manykernels.structured.chain_losses import ChainLoss
from manykernels.structured.chain_scores import ChainScores

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class ChainBlocks:
    """Blocks of a model at all positions: kernels, sparse kernels, explicit features.

    Parameters
    ----------
    dense : array of shape (positions, kernels, positions)
        Values of dense kernels; K_f(i, j) = dense[i, f, j].
    sparse : sequence of CSR matrices (positions, positions)
        Kernels with mostly zeros.
    features : sequence of CSR or arrays (positions, columns)
        Blocks of explicit features.
    kernel_block, feature_block : sequence of int
        Which block of the model each of these is: dense and sparse kernels in order,
        and features in order.
    edges : sequence of CSR or arrays (positions, columns)
        Blocks of explicit features that score pairs of labels: the label of a position
        together with the one before.
    edge_block : sequence of int
    """

    dense: Values
    sparse: Sequence[Any]
    features: Sequence[Any]
    kernel_block: Sequence[int]
    feature_block: Sequence[int]
    edges: Sequence[Any] = ()
    edge_block: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        kernels: Sequence[Any] = (),
        features: Sequence[Any] = (),
        edges: Sequence[Any] = (),
    ) -> ChainBlocks:
        """Kernel matrices (arrays, or sparse) first, then explicit features, edges.

        Examples
        --------
        >>> ChainBlocks.of([np.eye(3)], [np.ones((3, 2))]).n_blocks
        2
        """
        dense = [f for f, kernel in enumerate(kernels) if not sp.issparse(kernel)]
        sparse = [f for f, kernel in enumerate(kernels) if sp.issparse(kernel)]
        n_positions = (*kernels, *features)[0].shape[0]
        stack = np.empty((n_positions, 0, n_positions))
        if dense:
            stack = np.stack([kernels[f] for f in dense], axis=1)
        return cls(
            stack,
            [sp.csr_array(kernels[f]) for f in sparse],
            features,
            [*dense, *sparse],
            [len(kernels) + f for f in range(len(features))],
            edges,
            [len(kernels) + len(features) + f for f in range(len(edges))],
        )

    @property
    def n_positions(self) -> int:
        """Positions of all chains together."""
        return int(self.dense.shape[0])

    @property
    def n_kernels(self) -> int:
        """Blocks that are known through kernel values."""
        return len(self.kernel_block)

    @property
    def n_blocks(self) -> int:
        """All blocks, without that of label pairs."""
        return sum(map(len, (self.kernel_block, self.feature_block, self.edge_block)))

    @cached_property
    def columns(self) -> list[Any]:
        """Feature blocks as CSR."""
        return [sp.csr_array(block) for block in self.features]

    @cached_property
    def edge_columns(self) -> list[Any]:
        """Blocks of label pairs as CSR."""
        return [sp.csr_array(block) for block in self.edges]

    @cached_property
    def table_start(self) -> Labels:
        """Where each feature block begins in the table of weights."""
        return _starts(self.features)

    @cached_property
    def edge_start(self) -> Labels:
        """The same in the table of weights of label pairs."""
        return _starts(self.edges)

    def kernel_scores(self, f: int, coef: Array) -> Array:
        """K_f coef, shape (positions, labels)."""
        support = np.flatnonzero(np.any(coef != 0.0, axis=1))
        n_dense = self.dense.shape[1]
        if f < n_dense:
            values = self.dense[support, f, :]
            return np.asarray(values.T.astype(np.float64) @ coef[support])
        return np.asarray(self.sparse[f - n_dense] @ coef)

    def scores(self, weights: ChainWeights) -> ChainScores:
        """Scores of all positions, from the values themselves."""
        return self.with_edges(self.unary(weights), weights)

    def with_edges(self, unary: Array, weights: ChainWeights) -> ChainScores:
        """Unary scores together with those of label pairs."""
        return ChainScores(unary, weights.pairs, self._all_edges, weights.edges)

    @cached_property
    def _all_edges(self) -> Any:
        """Features of label pairs of all blocks side by side."""
        return sp.hstack(self.edge_columns, format="csr") if self.edges else None

    def unary(self, weights: ChainWeights) -> Array:
        """Unary scores of all positions, from the values themselves."""
        total = np.zeros((self.n_positions, weights.pairs.shape[0]))
        for f in range(self.n_kernels):
            total += self.kernel_scores(f, weights.coef[f])
        for f, block in enumerate(self.columns):
            total += (
                block @ weights.table[self.table_start[f] : self.table_start[f + 1]]
            )
        return total

    def block_norms(self, weights: ChainWeights) -> Array:
        """||w_f|| of every block, then of the label pairs."""
        squares = np.zeros(self.n_blocks + 1)
        for f, block in enumerate(self.kernel_block):
            coef = weights.coef[f]
            squares[block] = max(float(np.sum(coef * self.kernel_scores(f, coef))), 0.0)
        for block, part in self._explicit(weights):
            squares[block] = float(np.sum(part**2))
        return np.sqrt(squares)

    def entry_norms(self, weights: ChainWeights) -> Array:
        """Sums of absolute values; zero for kernel blocks, which have no entries."""
        sums = np.zeros(self.n_blocks + 1)
        for block, part in self._explicit(weights):
            sums[block] = float(np.abs(part).sum())
        return sums

    def _explicit(self, weights: ChainWeights) -> Iterator[tuple[int, Array]]:
        """Blocks whose weights are there as numbers: features, edges, label pairs."""
        features = np.split(weights.table, self.table_start[1:-1])
        yield from zip(self.feature_block, features, strict=False)
        edges = np.split(weights.edges, self.edge_start[1:-1])
        yield from zip(self.edge_block, edges, strict=False)
        yield -1, weights.pairs


def _starts(blocks: Sequence[Any]) -> Labels:
    sizes = [block.shape[1] for block in blocks]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@storable(
    coef=Floats("kernels", "positions", "labels"),
    table=Floats("columns", "labels"),
    pairs=Floats("labels", "labels"),
    edges=Floats("edge columns", "pairs"),
)
@dataclass(frozen=True)
class ChainWeights:
    """A model on the training positions."""

    coef: Array  # (kernel blocks, positions, labels)
    table: Array  # (feature columns of all blocks, labels)
    pairs: Array  # (labels, labels): transitions
    # (edge columns of all blocks, labels * labels)
    edges: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def zero(cls, blocks: ChainBlocks, n_labels: int) -> ChainWeights:
        """The model that scores everything zero."""
        return cls(
            np.zeros((blocks.n_kernels, blocks.n_positions, n_labels)),
            np.zeros((int(blocks.table_start[-1]), n_labels)),
            np.zeros((n_labels, n_labels)),
            np.zeros((int(blocks.edge_start[-1]), n_labels**2)),
        )

    def with_positions(self, n_new: int) -> ChainWeights:
        """With coefficients of zero at new positions."""
        return replace(self, coef=np.pad(self.coef, ((0, 0), (0, n_new), (0, 0))))

    def at(self, positions: Any) -> ChainWeights:
        """With the coefficients of some positions only."""
        return replace(self, coef=self.coef[:, positions])

    def times(self, factor: float) -> ChainWeights:
        """All weights multiplied."""
        return ChainWeights(*(factor * part for part in self.parts))

    def where(self, other: ChainWeights) -> ChainWeights:
        """Zero where another model is."""
        pairs = zip(self.parts, other.parts, strict=True)
        return ChainWeights(*(mine * (its != 0.0) for mine, its in pairs))

    @property
    def parts(self) -> tuple[Array, Array, Array, Array]:
        """All arrays, in the order of the fields."""
        return self.coef, self.table, self.pairs, self.edges


@dataclass(frozen=True)
class ChainProblem:
    r"""minimize :math:`\lambda \sum_j \Omega_j(w) + \frac1W \sum_n c_n loss_n`.

    Parameters
    ----------
    blocks : ChainBlocks
    starts : array of shape (chains + 1,)
    target : array of shape (positions,)
    n_labels : int
    loss : ChainLoss
    terms : tuple of Term
        Regularizer on the blocks and, last, the label pairs; see `chain_terms`.
    C : float
        :math:`\lambda = 1 / (C W)`, W the sum of the weights.
    chain_weight : array of shape (chains,)
    uses_pairs : bool
        Whether neighboring labels have scores at all.
    """

    blocks: ChainBlocks
    starts: Labels
    target: Labels
    n_labels: int
    loss: ChainLoss
    terms: tuple[Term, ...]
    C: float
    chain_weight: Array
    uses_pairs: bool = True

    def __post_init__(self) -> None:
        hidden = set(self.blocks.kernel_block)
        for term in self.terms:
            touched = hidden if term.blocks is None else hidden & set(term.blocks)
            if term.kind == "entries" and touched:
                raise ValueError(
                    "sparse group lasso needs blocks of explicit features only, got "
                    "kernel blocks; use linear kernels or another regularizer."
                )

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.starts) - 1

    @property
    def reg(self) -> float:
        """The regularization lambda."""
        return 1.0 / (self.C * float(self.chain_weight.sum()))

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
                self.loss.values(
                    part.unary, part.transitions, self.target[part.rows], part.starts
                )
                for part in scores.parts(self.starts)
            ]
        )
        mean = float(np.average(losses, weights=self.chain_weight))
        return self.reg * regularizer_value(self.terms, block_norms, entry_norms) + mean

    def strong_convexity(self) -> float:
        """A sigma for which the regularizer, times lambda, is strongly convex; or 0."""
        return self.reg * strong_convexity(self.terms, self.blocks.n_blocks + 1)

    def kernel_weights(self, block_norms: Array) -> Array:
        """beta of every block and of the label pairs, from their norms."""
        return kernel_weights(self.terms, block_norms)

    def radius(self) -> float:
        """A ball that holds the optimum: no model of a larger norm beats zero.

        lambda Omega(w*) is at most the mean loss of w = 0, and so is each term. Terms
        bound the norm of their blocks: half its square, or itself for sums of norms.
        """
        most = self.objective(ChainWeights.zero(self.blocks, self.n_labels)) / self.reg
        covered = np.zeros(self.blocks.n_blocks + 1, np.bool_)
        covered[-1] = not self.uses_pairs
        total = 0.0
        for term in self.terms:
            if term.kind in ("squared_l2", "sparse_mkl", "squared_p", "elastic_net"):
                total += 2.0 * most / term.weight
            elif term.kind in ("group_lasso", "joint"):
                total += (most / term.weight) ** 2
            else:
                continue
            covered |= term.members(len(covered))
        if not covered.all():
            kinds = sorted({term.kind for term in self.terms})
            raise ValueError(
                "radius='bound' needs a regularizer of squared norms or group lasso on "
                f"all blocks, got terms {', '.join(kinds)}; pass a number or None."
            )
        return float(np.sqrt(total))


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
    own = tuple(range(n_blocks))
    kept = tuple(
        Term(t.kind, t.weight, t.exponent, own if t.blocks is None else t.blocks)
        for t in terms
    )
    return (*kept, Term("squared_l2", blocks=(n_blocks,)))
