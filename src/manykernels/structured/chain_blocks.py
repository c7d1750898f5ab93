"""Blocks of features and kernels at the positions of chains, and models on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Array, Values
from manykernels.base.stored import Floats, storable
from manykernels.structured.decoders import ChainDecoder, Labels

TRANSITION_BYTES = 2**25  # of one table per position, for the chains scored at a time


@dataclass(frozen=True)
class ChainScores:
    """Scores of labels, of label pairs, and of pairs by features of the position.

    Parameters
    ----------
    unary : array of shape (positions, labels)
    pairs : array of shape (labels, labels)
    edge_features : CSR of shape (positions, columns), optional
    edge_table : array of shape (columns, labels * labels), optional
        Score of every pair per unit of a column.
    """

    unary: Array
    pairs: Array
    edge_features: Any = None
    edge_table: Array | None = None

    def decoders(self, starts: Labels) -> Iterator[tuple[slice, ChainDecoder]]:
        """Positions and decoders of all chains, or of as many as fit into memory.

        Examples
        --------
        >>> scores = ChainScores(np.zeros((3, 2)), np.eye(2))
        >>> [rows for rows, _ in scores.decoders(np.array([0, 1, 3]))]
        [slice(0, 3, None)]
        """
        if self.edge_features is None:
            rows = slice(0, len(self.unary))
            yield rows, ChainDecoder(self.unary, self.pairs, starts)
            return
        # Every position has a table of its own here: as many chains at a time as fit.
        most = max(1, TRANSITION_BYTES // (8 * self.pairs.size))
        first = 0
        while first < len(starts) - 1:
            fit = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
            last = max(fit, first + 1)
            rows = slice(int(starts[first]), int(starts[last]))
            shifted = starts[first : last + 1] - starts[first]
            extra = np.asarray(self.edge_features[rows] @ self.edge_table)
            tables = self.pairs + extra.reshape(-1, *self.pairs.shape)
            yield rows, ChainDecoder(self.unary[rows], tables, shifted)
            first = last


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
        return int(self.dense.shape[0])

    @property
    def n_kernels(self) -> int:
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
        return _first_rows(self.features)

    @cached_property
    def edge_start(self) -> Labels:
        """The same in the table of weights of label pairs."""
        return _first_rows(self.edges)

    def kernel_scores(self, f: int, coef: Array) -> Array:
        """K_f coef, shape (positions, labels)."""
        # Most coefficients are zero: positions that were never decoded wrong.
        support = np.flatnonzero(np.any(coef != 0.0, axis=1))
        n_dense = self.dense.shape[1]
        if f < n_dense:
            values = self.dense[support, f, :]
            return np.asarray(values.T.astype(np.float64) @ coef[support])
        return np.asarray(self.sparse[f - n_dense] @ coef)

    def scores(self, weights: ChainWeights) -> ChainScores:
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
        self.add_features(total, weights.table)
        return total

    def add_features(self, unary: Array, table: Array) -> None:
        """unary += scores of the explicit features."""
        for f, block in enumerate(self.columns):
            unary += block @ table[self.table_start[f] : self.table_start[f + 1]]

    def block_norms(self, weights: ChainWeights) -> Array:
        """||w_f|| of every block, then of the label pairs."""
        squares = np.zeros(self.n_blocks + 1)
        for f, block in enumerate(self.kernel_block):
            # ||w_f||^2 = <A_f, K_f A_f>, which rounding may leave just below zero.
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
        """Weights of features, edges and label pairs, block by block."""
        features = np.split(weights.table, self.table_start[1:-1])
        yield from zip(self.feature_block, features, strict=False)
        edges = np.split(weights.edges, self.edge_start[1:-1])
        yield from zip(self.edge_block, edges, strict=False)
        yield -1, weights.pairs


def _first_rows(blocks: Sequence[Any]) -> Labels:
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

    def take(self, positions: Any) -> ChainWeights:
        """With the coefficients of some positions only."""
        return replace(self, coef=self.coef[:, positions])

    def times(self, factor: float) -> ChainWeights:
        return ChainWeights(*(factor * part for part in self.parts))

    def where(self, other: ChainWeights) -> ChainWeights:
        """Zero where another model is."""
        pairs = zip(self.parts, other.parts, strict=True)
        return ChainWeights(*(mine * (its != 0.0) for mine, its in pairs))

    @property
    def parts(self) -> tuple[Array, Array, Array, Array]:
        """All arrays, in the order of the fields."""
        return self.coef, self.table, self.pairs, self.edges
