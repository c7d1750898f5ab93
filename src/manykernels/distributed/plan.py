"""From partitions to a problem: survey, sample, kernels, shards."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from sklearn.base import is_classifier

from manykernels.banks.fingerprint import feed
from manykernels.base.machine import parse_bytes
from manykernels.base.tables import count_rows, table_rows
from manykernels.distributed.engine import Engine
from manykernels.distributed.focus import Focus
from manykernels.distributed.near import NearRows
from manykernels.distributed.partitions import Partitions, in_partition
from manykernels.distributed.problem import PartitionedProblem
from manykernels.distributed.rows import (
    FeatureReader,
    HeldRows,
    Piece,
    SourceRows,
    read_piece,
    read_shard,
    require_rows,
)
from manykernels.distributed.targets import Labels, Numbers, Targets
from manykernels.kernels import KernelSet
from manykernels.losses import Loss
from manykernels.mkl.estimator import row_weight
from manykernels.norms import LpGroupNorm

logger = logging.getLogger(__name__)

SAMPLE_ROWS = 10_000  # from which bandwidths, landmarks and scaling are fitted
SHARD_BYTES = 64 << 20  # of features, for which small partitions are joined
TABLE_SHARE = 0.5  # of the memory for rows and features, that tables may take
NO_ROWS = np.empty(0, dtype=np.intp)


@dataclass
class Plan:
    """From partitions to a problem: each step reads what the last one found.

    Parameters
    ----------
    estimator : estimator
        Takes on the attributes of reading (columns, scaling) as in any fit.
    parts : Partitions
    engine : Engine
    seed : int
    """

    estimator: Any
    parts: Partitions
    engine: Engine
    seed: int

    def __post_init__(self) -> None:
        kind = Labels if is_classifier(self.estimator) else Numbers
        self.shell = shell_of(self.estimator)
        self.targets: Targets = kind(self.shell)
        self.tables = self.parts.tables

    def problem(self, loss: Loss) -> PartitionedProblem:
        """Everything that a solver needs."""
        budget = self._budget()
        self._read(budget)
        self._survey()
        size = self.parts.row_bytes * self.n_rows
        if size <= TABLE_SHARE * budget:
            self.tables = self.engine.held(self.tables)
            budget -= size
        sample = self._sample(self._drawn(SAMPLE_ROWS))
        self.kernels = self._fit_kernels(sample)
        return self._problem(sample, loss, budget)

    @property
    def n_rows(self) -> int:
        """Of all partitions."""
        return int(sum(self.targets.sizes))

    def _read(self, budget: float) -> None:
        """Begin to hold targets, and tables that are known to fit with them.

        What makes one often makes the other: asked for together it is made once.
        """
        wanted = list(self.parts.targets)
        if self.parts.n_bytes <= TABLE_SHARE * budget:
            wanted += self.tables
        held = self.engine.held(wanted)
        n_parts = len(self.parts)
        self.parts = replace(self.parts, targets=held[:n_parts])
        self.tables = held[n_parts:] or self.tables

    def _survey(self) -> None:
        """Sizes, classes and sums of all partitions."""
        targets = self.engine.shared(self.targets)
        looks = [
            self.engine.task(look, k, targets, y, weight)
            for k, (y, weight) in enumerate(
                zip(self.parts.targets, self.parts.weights, strict=True)
            )
        ]
        self.targets.learn(self.engine.results(looks))

    def _budget(self) -> float:
        limit = self.estimator.memory_limit
        return self.engine.memory() if limit is None else float(parse_bytes(limit))

    def _drawn(self, size: int) -> np.ndarray:
        """Rows drawn by their position in the whole: partitions change nothing."""
        if size >= self.n_rows:
            return np.arange(self.n_rows)
        rng = np.random.default_rng(self.seed)
        return np.sort(rng.choice(self.n_rows, size, replace=False, shuffle=False))

    def _by_partition(self, drawn: np.ndarray) -> list[np.ndarray]:
        """Positions in the whole as positions in every partition."""
        starts = np.concatenate([[0], np.cumsum(self.targets.sizes)])
        edges = np.searchsorted(drawn, starts)
        return [
            drawn[a:b] - start
            for a, b, start in zip(edges[:-1], edges[1:], starts[:-1], strict=True)
        ]

    def _sample(self, drawn: np.ndarray) -> Sample:
        """Some rows of all partitions, here."""
        logger.info(
            "kernels are fitted on %d of %d rows in %d partitions",
            len(drawn),
            self.n_rows,
            len(self.parts),
        )
        chosen = self._by_partition(drawn)
        tasks = [
            self.engine.task(take_rows, k, *part, chosen[k])
            for k, part in enumerate(
                zip(self.tables, self.parts.targets, self.parts.weights, strict=True)
            )
            if len(chosen[k])
        ]
        numbers, tables, ys, weights = zip(*self.engine.results(tasks), strict=True)
        self._require_usable(numbers, tables)
        weight = None if weights[0] is None else np.concatenate(weights)
        return Sample(joined(tables), np.concatenate(ys), weight)

    def _require_usable(self, numbers: Sequence[int], tables: Sequence[Any]) -> None:
        """Raise where sampled rows are no numbers, with the number of the partition."""
        shell, specs = shell_of(self.estimator), self.estimator._specs(tables[0])
        for number, rows in zip(numbers, tables, strict=True):
            in_partition(number, shell._read_training, rows, specs)

    def _fit_kernels(self, sample: Sample) -> KernelSet:
        """Kernels of the sample, as a fit on these rows alone would have them."""
        estimator = self.estimator
        specs = estimator._specs(sample.X)
        X = estimator._read_training(sample.X, specs, min_rows=2)
        kept = self.targets.code(sample.y, sample.weight).kept
        weight = row_weight(count_rows(X), kept, sample.weight)
        X = estimator._prepare(X, weight)
        bound = float(estimator.C) * self.targets.largest
        kernels, _ = estimator._fit_kernels(specs, X, kept, weight, self.seed, bound)
        require_features(kernels)
        return kernels.take(NO_ROWS)

    def _problem(self, rows: Sample, loss: Loss, budget: float) -> PartitionedProblem:
        """Shards with features in memory, as many as the budget allows."""
        estimator, targets, engine = self.estimator, self.targets, self.engine
        self.reader = reader = FeatureReader(self._reading_shell(), self.kernels)
        C = float(estimator.C)
        near = near_rows(reader, rows, targets, C)
        (shared,) = engine.held([engine.shared(reader)])
        row_bytes = reader.n_columns * self.kernels.dtype.itemsize
        sources = self._sources(shared, C, row_bytes)
        room = max(1, int(budget / row_bytes))
        focus = None
        if room >= self.n_rows:
            shards = self._held(sources)
        else:
            sample = self._sources(shared, C, row_bytes, self._drawn(room))
            sizes = (self.n_rows, room, len(sample))
            focus = Focus(engine, sources, sample, loss, near, *sizes, self.seed)
            shards = sources
        logger.info(
            "features of %d of %d rows are held, %.3g GB; others are made anew",
            *(min(room, self.n_rows), self.n_rows),
            min(room, self.n_rows) * row_bytes / 1e9,
        )
        return PartitionedProblem(
            engine,
            shards,
            self.kernels.n_feature_columns(),
            targets.n_outputs,
            loss,
            LpGroupNorm(float(estimator.p)),
            C,
            targets.total,
            NearRows(near, C * targets.total / float(near.bound.sum())),
            focus,
        )

    def _sources(
        self, reader: Any, C: float, row_bytes: int, drawn: np.ndarray | None = None
    ) -> list[Any]:
        """Shards of whole partitions, small ones joined; or of drawn rows in them."""
        chosen: list[Any] = [None] * len(self.parts)
        if drawn is not None:
            chosen = self._by_partition(drawn)
        targets = self.engine.shared(self.targets)
        pieces = [
            self.engine.task(read_piece, k, *part, targets, chosen[k])
            for k, part in enumerate(
                zip(self.tables, self.parts.targets, self.parts.weights, strict=True)
            )
        ]
        sizes = self.targets.sizes if drawn is None else list(map(len, chosen))
        # At least a few for every worker, else some have nothing to do.
        enough = min(SHARD_BYTES // row_bytes, sum(sizes) // self.engine.n_tasks())
        groups = in_groups(sizes, max(1, enough))
        return [
            self.engine.task(read_shard, reader, C, *(pieces[k] for k in group))
            for group in groups
        ]

    def _held(self, sources: list[Any]) -> list[Any]:
        n_outputs = self.targets.n_outputs
        return self.engine.held(
            [self.engine.task(HeldRows.of, source, n_outputs) for source in sources]
        )

    def identity(self, problem: PartitionedProblem, solver: Any) -> str:
        """What the course of a fit depends on, as far as sampled rows and sums tell.

        Not the partitions, and not how far the fit should go.
        """
        digest = hashlib.blake2b(digest_size=16)
        near, estimator = problem.near.rows, self.estimator
        settings = (estimator.p, problem.C, problem.n_outputs, type(solver).__name__)
        feed(digest, [self.kernels, repr(problem.loss), *map(repr, settings)])
        feed(digest, [self.n_rows, f"{problem.total_weight:.9g}"])
        feed(digest, [near.phi, np.asarray(near.target), near.bound])
        return digest.hexdigest()

    def dual_point(self, problem: PartitionedProblem, w: np.ndarray) -> Any:
        """The dual coefficients of all rows of positive weight, as one lazy array."""
        engine, like = self.engine, np.empty((0, problem.n_outputs))
        common = [engine.shared(v) for v in (self.reader, self.targets, w)]
        parts = [
            engine.task(dual_rows, k, *part, *common, problem.loss, problem.C)
            for k, part in enumerate(
                zip(
                    self.parts.tables,
                    self.parts.targets,
                    self.parts.weights,
                    strict=True,
                )
            )
        ]
        shape = (np.nan, problem.n_outputs)
        lazy = [da.from_delayed(part, shape, meta=like) for part in parts]
        return da.concatenate(lazy, allow_unknown_chunksizes=True)

    def _reading_shell(self) -> Any:
        """An estimator that reads new rows as this one will, and nothing else."""
        shell = shell_of(self.estimator)
        shell._model = SimpleNamespace(kernels=self.kernels)
        return shell


class Sample(NamedTuple):
    """Rows of all partitions in this process."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


def look(k: int, targets: Targets, y: Any, weight: Any) -> Any:
    """What partition k says of its targets."""
    return in_partition(k, targets.look, y, weight)


def take_rows(k: int, table: Any, y: Any, weight: Any, chosen: np.ndarray) -> Any:
    """Some rows of partition k, as they are."""
    require_rows(k, table, len(y))
    weight = None if weight is None else np.asarray(weight)[chosen]
    return k, table_rows(table, chosen), np.asarray(y)[chosen], weight


def dual_rows(
    k: int,
    table: Any,
    y: Any,
    weight: Any,
    reader: FeatureReader,
    targets: Targets,
    w: np.ndarray,
    loss: Loss,
    C: float,
) -> np.ndarray:
    """-b loss'(Phi w) of the rows of partition k."""
    piece = read_piece(k, table, y, weight, targets)
    parts = [np.empty((0, w.shape[1]))]
    for phi, target, bound in SourceRows(reader, [piece], C).blocks():
        scores = phi.astype(np.float64) @ w
        parts.append(-bound[:, None] * loss.gradient(scores, target))
    return np.concatenate(parts)


def joined(tables: Any) -> Any:
    """Parts of a table as one."""
    if hasattr(tables[0], "iloc"):
        from pandas import concat  # which Dask's data frames are made of

        return concat(tables)
    return np.concatenate(tables)


def in_groups(sizes: Sequence[int], enough: int) -> list[list[int]]:
    """Neighbors together until they have enough rows; empty partitions go along.

    Examples
    --------
    >>> in_groups([5, 0, 2, 9, 1, 1], 6)
    [[0, 1, 2], [3], [4, 5]]
    """
    groups: list[list[int]] = [[]]
    count = 0
    for k, size in enumerate(sizes):
        if count >= enough:
            groups.append([])
            count = 0
        groups[-1].append(k)
        count += size
    return groups


def near_rows(
    reader: FeatureReader, sample: Sample, targets: Targets, C: float
) -> HeldRows:
    """The sampled rows with their features, in this process."""
    piece = Piece(0, sample.X, targets.code(sample.y, sample.weight))
    return HeldRows.of(SourceRows(reader, [piece], C), targets.n_outputs)


def shell_of(estimator: Any) -> Any:
    """A copy to travel: without what only this process can call."""
    shell = copy(estimator)
    shell.callback = None
    shell.__dict__.pop("dual_point_", None)
    return shell


def require_features(kernels: KernelSet) -> None:
    """Raise where a kernel has no explicit features."""
    if not kernels.is_explicit:
        odd = next(
            name
            for name, kernel in zip(kernels.names, kernels.kernels, strict=True)
            if not kernel.explicit and kernel.approximate is None
        )
        raise ValueError(
            f"a fit on partitions needs kernels with features, got {odd!r}, which has "
            "none; set approximate='nystroem' or 'random_features'."
        )
