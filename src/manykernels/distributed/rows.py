"""Rows of a shard as explicit features: held in memory, or made anew in every pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Array, Index, Values
from manykernels.base.tables import table_rows
from manykernels.distributed.partitions import in_partition
from manykernels.distributed.targets import Coded, Targets
from manykernels.kernels import KernelSet

BLOCK_BYTES = 16 << 20  # of features in float64 at a time


class Block(NamedTuple):
    """Some rows: Phi of all kernels side by side, targets, and b_i of the losses."""

    phi: Values
    target: Any
    bound: Array


class Rows(Protocol):
    """The rows of one shard."""

    def blocks(self) -> Iterator[Block]:
        """All rows, some at a time."""


@dataclass(frozen=True)
class FeatureReader:
    """From rows as people pass them to features.

    Parameters
    ----------
    estimator : estimator
        Checks and prepares new rows as it will do in `predict`.
    kernels : KernelSet
        Without rows.
    """

    estimator: Any
    kernels: KernelSet

    @property
    def n_columns(self) -> int:
        """Of all features."""
        return int(sum(self.kernels.n_feature_columns()))

    def blocks(self, table: Any, chosen: Index) -> Iterator[tuple[slice, Values]]:
        """Yield (places in `chosen`, features of these rows), some rows at a time."""
        size = block_rows(self.n_columns)
        for start in range(0, len(chosen), size):
            part = slice(start, min(start + size, len(chosen)))
            yield part, self.features(table_rows(table, chosen[part]))

    def features(self, table: Any) -> Values:
        """Phi of some rows, all kernels side by side."""
        ready = self.estimator._read_new(table)
        out = np.empty((ready.shape[0], self.n_columns), self.kernels.dtype)
        start = 0
        for phi in self.kernels.new_features(ready):
            stop = start + phi.shape[1]
            out[:, start:stop] = phi.toarray() if sp.issparse(phi) else phi
            start = stop
        return out


class Piece(NamedTuple):
    """One partition in a shard."""

    number: int
    table: Any
    rows: Coded


@dataclass(frozen=True)
class SourceRows:
    """Rows whose features are made in every pass: memory holds the table alone."""

    reader: FeatureReader
    pieces: Sequence[Piece]
    C: float

    def blocks(self) -> Iterator[Block]:
        """All rows, some at a time."""
        for number, table, rows in self.pieces:
            found = self.reader.blocks(table, rows.kept)
            while True:
                step = in_partition(number, next, found, None)
                if step is None:
                    break
                part, phi = step
                yield Block(phi, rows.target[part], self.C * rows.weight[part])


@dataclass(frozen=True)
class HeldRows:
    """Rows whose features lie in memory."""

    phi: Values
    target: Any
    bound: Array

    @classmethod
    def of(cls, rows: SourceRows, n_outputs: int) -> HeldRows:
        """The features of all the rows of a shard."""
        n_rows = sum(len(piece.rows.kept) for piece in rows.pieces)
        phi = np.empty((n_rows, rows.reader.n_columns), rows.reader.kernels.dtype)
        parts, start = [np.empty(0)], 0
        targets = []
        for block in rows.blocks():
            stop = start + len(block.phi)
            phi[start:stop] = block.phi
            targets.append(block.target)
            parts.append(block.bound)
            start = stop
        target = np.concatenate(targets) if targets else np.empty((0, n_outputs))
        return cls(phi, target, np.concatenate(parts))

    def __sizeof__(self) -> int:
        """Bytes, by which Dask decides what to spill; it would not look inside."""
        return int(self.phi.nbytes + self.target.nbytes + self.bound.nbytes)

    def blocks(self) -> Iterator[Block]:
        """All rows, some at a time."""
        size = block_rows(self.phi.shape[1])
        for start in range(0, len(self.bound), size):
            part = slice(start, start + size)
            yield Block(self.phi[part], self.target[part], self.bound[part])


def sum_bounds(rows: HeldRows) -> float:
    """The sum of all b_i."""
    return float(rows.bound.sum())


def block_rows(n_columns: int) -> int:
    """Rows at a time."""
    return max(64, BLOCK_BYTES // (8 * max(1, n_columns)))


def read_piece(
    number: int, table: Any, y: Any, weight: Any, targets: Targets, chosen: Any = None
) -> Piece:
    """One partition with its targets; with `chosen`, some of its rows only."""
    require_rows(number, table, len(y))
    rows = in_partition(number, targets.code, y, weight)
    if chosen is not None:
        here = np.isin(rows.kept, chosen, assume_unique=True)
        rows = Coded(*(values[here] for values in rows))
    return Piece(number, table, rows)


def require_rows(number: int, table: Any, n_rows: int) -> None:
    """Raise unless rows and targets of a partition are as many."""
    if table.shape[0] != n_rows:
        raise ValueError(
            f"partition {number}: X must have as many rows as y, which has {n_rows}, "
            f"got {table.shape[0]}; take both from the same collection."
        )


def read_shard(reader: FeatureReader, C: float, *pieces: Piece) -> SourceRows:
    """Some partitions as one."""
    return SourceRows(reader, pieces, C)
