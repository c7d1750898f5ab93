"""From partitions to a fitted estimator: survey, sample, kernels, shards, solution."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from contextlib import nullcontext
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
from manykernels.distributed.partitioned_newton import PartitionedNewton
from manykernels.distributed.partitioned_problem import (
    CurvatureSample,
    PartitionedProblem,
)
from manykernels.distributed.partitions import Partitions, in_partition
from manykernels.distributed.preconditioner import PreconditionerSample
from manykernels.distributed.shards import (
    FeatureReader,
    HeldShard,
    PartitionRows,
    SourceShard,
    join_partitions,
    read_partition,
    require_rows,
)
from manykernels.files.checkpoint import certified_anew, checkpoint_file
from manykernels.inputs import reporting
from manykernels.inputs.parameters import check_parameters, draw_seed
from manykernels.kernels.base import reads_matrices
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import Loss
from manykernels.mkl.calibration import Temperature, fit_temperature
from manykernels.mkl.estimator import row_weight
from manykernels.mkl.models.model import FeatureModel, SupportLabels
from manykernels.norms import LpGroupNorm
from manykernels.solvers.loop import SolveResult
from manykernels.targets import Labels, Values

logger = logging.getLogger(__name__)

KERNEL_SAMPLE_ROWS = 10_000  # from which bandwidths, landmarks and scaling are fitted
SHARD_BYTES = 64 << 20  # of features, for which small partitions are joined
TABLE_SHARE = 0.5  # of the memory for rows and features, that tables may take
NO_ROWS = np.empty(0, dtype=np.intp)
PARTITION_SOLVERS = ("auto", "truncated_newton", "newton")


def fit(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Fit an estimator on Dask collections; it ends as an ordinary one."""
    check_parameters(estimator, estimator._rules)
    loss = estimator._make_loss()
    require_possible(estimator, loss)
    limit = {} if estimator.max_iter is None else {"max_iter": estimator.max_iter}
    solver = PartitionedNewton(tol=estimator.tol, **limit)
    partitions = Partitions.of(X, y, sample_weight)
    seed = draw_seed(estimator.random_state)
    fitting = PartitionedFit(estimator, partitions, Engine(), seed)
    problem = fitting.problem(loss)
    saved = None
    if estimator.checkpoint is not None:
        saved = checkpoint_file(estimator.checkpoint, fitting.identity(problem, solver))
    callback = estimator.callback
    if estimator.verbose:
        callback = reporting.progress_callback(1, estimator.tol, callback)
    with reporting.shown_log() if estimator.verbose else nullcontext():
        result = solver.solve(problem, None, callback, saved)
    if saved is not None and saved.resumed:
        result = certified_anew(problem, result, estimator.tol)
    if not result.converged:
        reporting.warn_unless_converged(solver, result)
    return fitting.store(problem, result)


def require_possible(estimator: Any, loss: Loss) -> None:
    """Raise where a parameter asks for what partitions cannot give."""
    if estimator.solver not in PARTITION_SOLVERS:
        raise ValueError(
            "solver must be one that works on partitions, which are "
            f"{', '.join(map(repr, PARTITION_SOLVERS))}, got {estimator.solver!r}; "
            "choose 'auto'."
        )
    if loss.smoothness is None:
        advice = "'squared' or 'huber'"
        if is_classifier(estimator):
            advice = "'log', or 'smoothed_hinge', which is at most 0.5 below the hinge"
        raise ValueError(
            f"a fit on partitions needs a smooth loss, got {loss.name!r}; choose loss="
            f"{advice}."
        )
    for name, wanted in (
        ("nugget", None),
        ("device", None),
        ("warm_start", False),
        ("per_target_weights", False),
    ):
        value = getattr(estimator, name, wanted)
        if value != wanted:
            raise ValueError(
                f"a fit on partitions needs {name}={wanted!r}, got {value!r}; leave it "
                "out, or fit on arrays."
            )
    if reads_matrices(estimator.kernels):
        raise ValueError(
            "a fit on partitions needs kernels on columns, got given matrices; pass "
            "the rows themselves and approximate='nystroem'."
        )


class RowSample(NamedTuple):
    """Rows of all partitions in this process."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


@dataclass
class PartitionedFit:
    """The steps of a fit, each of which reads what the last one found.

    Parameters
    ----------
    estimator : estimator
        Takes on the attributes of reading (columns, scaling) as in any fit.
    partitions : Partitions
    engine : Engine
    seed : int

    Attributes
    ----------
    targets : Labels or Values
        What the targets of all partitions have in common.
    sizes : list of int
        Rows of the partitions.
    """

    estimator: Any
    partitions: Partitions
    engine: Engine
    seed: int

    def problem(self, loss: Loss) -> PartitionedProblem:
        """Everything that a solver needs."""
        limit = self.estimator.memory_limit
        budget = self.engine.memory() if limit is None else float(parse_bytes(limit))
        self._hold_targets(budget)
        self._survey(loss)
        size = self.partitions.row_bytes * self.n_rows
        if size <= TABLE_SHARE * budget:
            tables = self.engine.held(self.partitions.tables)
            self.partitions = replace(self.partitions, tables=tables)
            budget -= size
        sample = self._sample()
        self.kernels = self._fit_kernels(sample)
        return self._problem(sample, loss, budget)

    @property
    def n_rows(self) -> int:
        """Of all partitions."""
        return int(sum(self.sizes))

    def _hold_targets(self, budget: float) -> None:
        """Begin to hold targets, and tables that are known to fit with them.

        What makes one often makes the other: asked for together it is made once.
        """
        parts = self.partitions
        fits = parts.n_bytes <= TABLE_SHARE * budget
        held = self.engine.held([*parts.targets, *(parts.tables if fits else [])])
        targets, tables = held[: len(parts)], held[len(parts) :]
        self.lazy_tables = parts.tables
        self.partitions = replace(parts, targets=targets, tables=tables or parts.tables)

    def _survey(self, loss: Loss) -> None:
        """Sizes, classes and sums of all partitions."""
        owner = type(self.estimator).__name__
        kind = Labels if is_classifier(self.estimator) else Values
        tasks = [
            self.engine.task(summarize_partition, k, kind, y, weight, owner)
            for k, (_, y, weight) in enumerate(self.partitions)
        ]
        summaries = self.engine.results(tasks)
        self.sizes = [summary.n_rows for summary in summaries]
        self.largest = max(summary.largest for summary in summaries)
        if self.largest == 0.0:
            raise ValueError(
                f"partitions must hold rows of positive weight, got {self.n_rows} "
                "rows and none of them; check the collection, and sample_weight."
            )
        if kind is Values:
            center = self.estimator.fit_intercept
            self.targets: Any = Values.merge(summaries, center=center, loss=loss)
            return
        class_weight = self.estimator.class_weight
        self.targets = Labels.merge(
            summaries, class_weight=class_weight, loss=loss, owner=owner
        )
        self.largest *= float(self.targets.factors.max())

    def _draw(self, size: int) -> list[np.ndarray]:
        """Positions of drawn rows in every partition.

        They are drawn by their position in the whole: other partitions change nothing.
        """
        drawn = np.arange(self.n_rows)
        if size < self.n_rows:
            rng = np.random.default_rng(self.seed)
            drawn = np.sort(rng.choice(self.n_rows, size, replace=False, shuffle=False))
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        edges = np.searchsorted(drawn, starts)
        return [
            drawn[a:b] - start
            for a, b, start in zip(edges[:-1], edges[1:], starts[:-1], strict=True)
        ]

    def _sample(self) -> RowSample:
        """Some rows of all partitions, in this process."""
        chosen = self._draw(KERNEL_SAMPLE_ROWS)
        logger.info(
            "kernels are fitted on %d of %d rows in %d partitions",
            sum(map(len, chosen)),
            self.n_rows,
            len(self.partitions),
        )
        tasks = [
            self.engine.task(take_rows, k, *part, chosen[k])
            for k, part in enumerate(self.partitions)
            if len(chosen[k])
        ]
        numbers, tables, ys, weights = zip(*self.engine.results(tasks), strict=True)
        shell, specs = shell_of(self.estimator), self.estimator._specs(tables[0])
        for number, rows in zip(numbers, tables, strict=True):
            # Numbers are checked here, where the partition is still known.
            in_partition(number, shell._read_training, rows, specs)
        weight = None if weights[0] is None else np.concatenate(weights)
        return RowSample(joined(tables), np.concatenate(ys), weight)

    def _fit_kernels(self, sample: RowSample) -> KernelSet:
        """Kernels of the sample, as a fit on these rows alone would have them."""
        estimator = self.estimator
        specs = estimator._specs(sample.X)
        X = estimator._read_training(sample.X, specs, min_rows=2)
        kept = self.targets.encode(sample.y, sample.weight).kept
        weight = row_weight(count_rows(X), kept, sample.weight)
        X = estimator._prepare(X, weight)
        bound = float(estimator.C) * self.largest
        kernels, _ = estimator._fit_kernels(specs, X, kept, weight, self.seed, bound)
        require_features(kernels)
        return kernels.take(NO_ROWS)

    def _problem(
        self, sample: RowSample, loss: Loss, budget: float
    ) -> PartitionedProblem:
        """Shards with features in memory, as many as the budget allows."""
        C, engine = float(self.estimator.C), self.engine
        reading = shell_of(self.estimator)
        reading._model = SimpleNamespace(kernels=self.kernels)
        self.reader = FeatureReader(reading, self.kernels)
        local = PartitionRows(0, sample.X, self.targets.encode(sample.y, sample.weight))
        rows = HeldShard.of(SourceShard(self.reader, [local], C))
        total = float(self.targets.weight.sum())
        (shared,) = engine.held([engine.shared(self.reader)])
        row_bytes = self.reader.n_columns * self.kernels.dtype.itemsize
        n_held = min(self.n_rows, max(1, int(budget / row_bytes)))
        shards, curvature = self._sources(shared, C, row_bytes), None
        if n_held == self.n_rows:
            shards = self._hold(shards)
        else:
            drawn = self._draw(n_held)
            held = self._hold(self._sources(shared, C, row_bytes, drawn))
            bounds = engine.total([engine.task(sum_bounds, s) for s in held], sum)
            curvature = CurvatureSample(held, C * total / bounds)
        logger.info(
            "features of %d of %d rows are held, %.3g GB; others are made anew",
            n_held,
            self.n_rows,
            n_held * row_bytes / 1e9,
        )
        return PartitionedProblem(
            engine,
            shards,
            self.kernels.n_feature_columns(),
            self.targets.n_outputs,
            loss,
            LpGroupNorm(float(self.estimator.p)),
            C,
            total,
            PreconditionerSample(rows, C * total),
            curvature,
        )

    def _sources(
        self,
        reader: Any,
        C: float,
        row_bytes: int,
        drawn: list[np.ndarray] | None = None,
    ) -> list[Any]:
        """Shards of whole partitions, small ones joined; or of drawn rows in them."""
        chosen: list[Any] = [None] * len(self.partitions) if drawn is None else drawn
        targets = self.engine.shared(self.targets)
        tasks = [
            self.engine.task(read_partition, k, *part, targets, chosen[k])
            for k, part in enumerate(self.partitions)
        ]
        sizes = self.sizes if drawn is None else list(map(len, drawn))
        # At least a few for every worker, else some have nothing to do.
        enough = min(SHARD_BYTES // row_bytes, sum(sizes) // self.engine.n_tasks())
        return [
            self.engine.task(join_partitions, reader, C, *(tasks[k] for k in group))
            for group in in_groups(sizes, max(1, enough))
        ]

    def _hold(self, sources: list[Any]) -> list[Any]:
        return self.engine.held([self.engine.task(HeldShard.of, s) for s in sources])

    def identity(self, problem: PartitionedProblem, solver: Any) -> str:
        """What the course of a fit depends on, as far as sampled rows and sums show.

        Not the partitions, and not how far the fit should go.
        """
        digest = hashlib.blake2b(digest_size=16)
        rows, estimator = problem.sampled.rows, self.estimator
        settings = (estimator.p, problem.C, problem.n_outputs, type(solver).__name__)
        feed(digest, [self.kernels, repr(problem.loss), *map(repr, settings)])
        feed(digest, [self.n_rows, f"{problem.total_weight:.9g}"])
        feed(digest, [rows.phi, np.asarray(rows.target), rows.bound])
        return digest.hexdigest()

    def store(self, problem: PartitionedProblem, result: SolveResult) -> Any:
        """Fitted attributes: those of any fit, with no row kept."""
        estimator, weights = self.estimator, result.model.weights
        w = problem.w_of(result.model)
        blocks = [np.ascontiguousarray(w[span]) for span in problem.spans]
        coef = np.empty((0, problem.n_outputs))
        shares = weights / weights.sum()
        estimator._model = FeatureModel(self.kernels, blocks, coef, shares)
        estimator.support_ = NO_ROWS
        estimator.dual_point_ = None
        if result.dual_coef is not None:
            estimator.dual_point_ = self._dual_point(problem, result.dual_coef)
        estimator.objective_ = result.objective
        estimator.duality_gap_ = result.duality_gap
        estimator.history_, estimator.n_iter_ = result.history, len(result.history)
        if isinstance(self.targets, Labels):
            estimator.classes_ = self.targets.classes
            estimator._labels = SupportLabels(np.empty(0, np.int64), np.empty(0))
            estimator._temperature = Temperature(self._temperature(problem, w))
        else:
            mean = self.targets.intercept
            estimator.intercept_ = float(mean[0]) if self.targets.flat else mean
        estimator._show_model()
        return estimator

    def _temperature(self, problem: PartitionedProblem, w: np.ndarray) -> float:
        """Of probabilities, by the sampled rows."""
        if problem.loss.scores_are_logits:
            return 1.0
        rows = problem.sampled.rows
        return fit_temperature(rows.phi.astype(np.float64) @ w, rows.target, rows.bound)

    def _dual_point(self, problem: PartitionedProblem, w: np.ndarray) -> Any:
        """The dual coefficients of all rows of positive weight, as one lazy array."""
        engine, like = self.engine, np.empty((0, problem.n_outputs))
        common = [engine.shared(value) for value in (self.reader, self.targets, w)]
        lazy = replace(self.partitions, tables=self.lazy_tables)
        parts = [
            engine.task(dual_rows, k, *part, *common, problem.loss, problem.C)
            for k, part in enumerate(lazy)
        ]
        shape = (np.nan, problem.n_outputs)
        arrays = [da.from_delayed(part, shape, meta=like) for part in parts]
        return da.concatenate(arrays, allow_unknown_chunksizes=True)


def summarize_partition(k: int, kind: Any, y: Any, weight: Any, owner: str) -> Any:
    """Sums over the targets of partition k."""
    return in_partition(k, kind.summarize, y, weight, owner)


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
    targets: Any,
    w: np.ndarray,
    loss: Loss,
    C: float,
) -> np.ndarray:
    """-b loss'(Phi w) of the rows of partition k."""
    rows = read_partition(k, table, y, weight, targets)
    parts = [np.empty((0, w.shape[1]))]
    for phi, target, bound in SourceShard(reader, [rows], C).blocks():
        scores = phi.astype(np.float64) @ w
        parts.append(-bound[:, None] * loss.gradient(scores, target))
    return np.concatenate(parts)


def sum_bounds(rows: HeldShard) -> float:
    """The sum of all b_i."""
    return float(rows.bound.sum())


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


def shell_of(estimator: Any) -> Any:
    """A copy to travel: without what only this process can call."""
    shell = copy(estimator)
    shell.callback = None
    shell.__dict__.pop("dual_point_", None)
    return shell


def require_features(kernels: KernelSet) -> None:
    """Raise where a kernel has no explicit features."""
    if not kernels.is_explicit:
        without_features = next(
            name
            for name, kernel in zip(kernels.names, kernels.kernels, strict=True)
            if not kernel.explicit and kernel.approximate is None
        )
        raise ValueError(
            f"a fit on partitions needs kernels with features, got "
            f"{without_features!r}, which has none; set approximate='nystroem' or "
            "'random_features'."
        )
