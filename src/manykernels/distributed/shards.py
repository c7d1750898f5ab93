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
from manykernels.kernels.kernel_set import KernelSet

SHARD_BLOCK_BYTES = 16 << 20  # of features in float64 at a time


class RowBlock(NamedTuple):
    """Some rows: Phi of all kernels side by side, targets, and b_i of the losses."""

    phi: Values
    target: Any
    bound: Array


class Shard(Protocol):
    """Rows that one task reads."""

    def blocks(self) -> Iterator[RowBlock]:
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
        size = rows_per_block(self.n_columns)
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


class PartitionRows(NamedTuple):
    """A partition and the targets of its rows of positive weight."""

    number: int
    table: Any
    targets: Any  # Labels or Values


@dataclass(frozen=True)
class SourceShard:
    """Rows whose features are made in every pass: memory holds the tables alone."""

    reader: FeatureReader
    partitions: Sequence[PartitionRows]
    C: float

    def blocks(self) -> Iterator[RowBlock]:
        for number, table, targets in self.partitions:
            target, bound = targets.target, self.C * targets.weight
            features = self.reader.blocks(table, targets.kept)
            while (step := in_partition(number, next, features, None)) is not None:
                part, phi = step
                yield RowBlock(phi, target[part], bound[part])


@dataclass(frozen=True)
class HeldShard:
    """Rows whose features lie in memory."""

    phi: Values
    target: Any
    bound: Array

    @classmethod
    def of(cls, source: SourceShard) -> HeldShard:
        """The features of all the rows of a shard."""
        n_rows = sum(len(part.targets.kept) for part in source.partitions)
        phi = np.empty((n_rows, source.reader.n_columns), source.reader.kernels.dtype)
        start = 0
        for block in source.blocks():
            phi[start : start + len(block.phi)] = block.phi
            start += len(block.phi)
        target = np.concatenate([part.targets.target for part in source.partitions])
        weight = np.concatenate([part.targets.weight for part in source.partitions])
        return cls(phi, target, source.C * weight)

    def __sizeof__(self) -> int:
        """Bytes, by which Dask decides what to spill; it would not look inside."""
        return int(self.phi.nbytes + self.target.nbytes + self.bound.nbytes)

    def blocks(self) -> Iterator[RowBlock]:
        size = rows_per_block(self.phi.shape[1])
        for start in range(0, len(self.bound), size):
            part = slice(start, start + size)
            yield RowBlock(self.phi[part], self.target[part], self.bound[part])


def rows_per_block(n_columns: int) -> int:
    """Return how many rows are read at a time."""
    return max(64, SHARD_BLOCK_BYTES // (8 * max(1, n_columns)))


def read_partition(
    number: int, table: Any, y: Any, weight: Any, targets: Any, chosen: Any = None
) -> PartitionRows:
    """One partition with its targets; with `chosen`, some of its rows only."""
    require_rows(number, table, len(y))
    rows = in_partition(number, targets.encode, y, weight)
    if chosen is not None:
        rows = rows.take(np.isin(rows.kept, chosen, assume_unique=True))
    return PartitionRows(number, table, rows)


def require_rows(number: int, table: Any, n_rows: int) -> None:
    """Raise unless rows and targets of a partition are as many."""
    if table.shape[0] != n_rows:
        raise ValueError(
            f"partition {number}: X must have as many rows as y, which has {n_rows}, "
            f"got {table.shape[0]}; take both from the same collection."
        )


def join_partitions(
    reader: FeatureReader, C: float, *partitions: PartitionRows
) -> SourceShard:
    """Some partitions as one shard."""
    return SourceShard(reader, partitions, C)
