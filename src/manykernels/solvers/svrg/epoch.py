"""One epoch of SVRG on any bank: which loop runs on which arrays."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manykernels.base.arrays import Array, Values
from manykernels.hot import svrg_epochs as hot
from manykernels.solvers.problem import Problem
from manykernels.solvers.smooth.frozen_kernel import FrozenKernel

ROW_CHUNK_BYTES = 32 << 20  # of kernel rows that are not stored, at a time
Order = NDArray[np.int64]


class StepSource(Protocol):
    """Where the features or kernel rows of the visited rows come from."""

    def run(
        self,
        order: Order,
        rule: hot.EpochRule,
        snapshot: hot.Snapshot,
        problem: Problem,
        sums: hot.Sum,
    ) -> None:
        """Take the steps of `order`; `sums` takes up the result."""


def run_epoch(
    source: StepSource,
    problem: Problem,
    order: Order,
    rule: hot.EpochRule,
    snapshot: hot.Snapshot,
) -> tuple[Array, Array]:
    """Coefficients of v, shape (blocks, outputs, rows), and the decays a."""
    n_blocks = len(rule.step)
    # One memory layout: compiled code is made for each.
    snapshot = hot.Snapshot(*(np.ascontiguousarray(part) for part in snapshot))
    coef = np.zeros((n_blocks, problem.n_outputs, problem.n_rows))
    sums = hot.Sum(coef, np.ones(n_blocks), np.ones(n_blocks), np.zeros(1, np.int64))
    source.run(order, rule, snapshot, problem, sums)
    return sums.coef * sums.scale[:, None, None], sums.decay


def importance(problem: Problem) -> Array:
    """Sample weights with a mean of one."""
    return np.asarray(problem.sample_weight / problem.sample_weight.mean())


def loss_table(problem: Problem) -> hot.LossTable | None:
    """The loss in the form that compiled loops take; None if they do not know it."""
    known, target = problem.loss.compiled_gradient, problem.target
    if known is None:
        return None
    if target.ndim == 1:  # labels
        return hot.LossTable(*known, target, np.zeros((0, 0)))
    return hot.LossTable(*known, np.zeros(0, np.int64), target)


class KernelSource:
    """Kernel rows, stored or computed in chunks.

    Parameters
    ----------
    rows : array of shape (rows, blocks, rows), or a function of row numbers
    row_bytes : int
        Of one row, where they are computed.
    """

    def __init__(
        self, rows: Values | Callable[[Order], Values], row_bytes: int = 1
    ) -> None:
        self.rows = rows
        self.chunk = max(1, ROW_CHUNK_BYTES // row_bytes)

    def run(
        self,
        order: Order,
        rule: hot.EpochRule,
        snapshot: hot.Snapshot,
        problem: Problem,
        sums: hot.Sum,
    ) -> None:
        """Take the steps, a chunk of rows at a time where they are not stored."""
        table, weight = loss_table(problem), importance(problem)
        for start in range(0, len(order), self.chunk):
            part = order[start : start + self.chunk]
            rows, where = self._rows(part)
            if table is None:
                plain_steps(rows, where, part, rule, snapshot, problem, sums)
            else:
                hot.kernel_epoch(rows, where, part, rule, snapshot, table, weight, sums)

    def _rows(self, part: Order) -> tuple[Values, Order]:
        if isinstance(self.rows, np.ndarray):
            return self.rows, part
        wanted, where = np.unique(part, return_inverse=True)
        return self.rows(wanted), where


class FeatureSource:
    """Explicit features, dense or CSR, side by side, with a w of its own per block.

    Parameters
    ----------
    blocks : list of arrays or CSR matrices
        The features of every block.
    """

    def __init__(self, blocks: list[Any]) -> None:
        n_blocks, widths = len(blocks), [block.shape[1] for block in blocks]
        self.spans = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self.sparse = any(sp.issparse(block) for block in blocks)
        self.features: Any = (
            sp.hstack(blocks, format="csr") if self.sparse else np.hstack(blocks)
        )
        self.owner: Order = np.arange(n_blocks)
        self.weight: Array = np.ones(n_blocks)

    def sharing(self, weights: Array) -> FeatureSource:
        """The same features for one w of all blocks, with these kernel weights."""
        shared = copy(self)
        shared.owner, shared.weight = np.zeros_like(self.owner), weights
        return shared

    def run(
        self,
        order: Order,
        rule: hot.EpochRule,
        snapshot: hot.Snapshot,
        problem: Problem,
        sums: hot.Sum,
    ) -> None:
        """Take the steps in the space of the features."""
        table, weight = loss_table(problem), importance(problem)
        total = np.zeros((problem.n_outputs, int(self.spans[-1])))
        if not self.sparse:
            hot.dense_epoch(
                self.features,
                self.spans,
                self.owner,
                self.weight,
                order,
                rule,
                snapshot,
                table,
                weight,
                sums,
                total,
            )
            return
        hot.sparse_epoch(
            self.features.data,
            self.features.indices,
            self.features.indptr,
            np.repeat(np.arange(len(self.owner)), np.diff(self.spans)),
            self.owner,
            self.weight,
            order,
            rule,
            snapshot,
            table,
            weight,
            sums,
            np.ascontiguousarray(total.T),
        )


def block_source(problem: Problem) -> StepSource:
    """Steps with a w of its own for every block."""
    bank, features = problem.bank, feature_source(problem)
    if features is not None:
        return features
    stored = bank.stored_rows()
    if stored is not None:
        return KernelSource(stored)
    return KernelSource(bank.rows, bank.n_blocks * bank.n_rows * bank.dtype.itemsize)


def shared_source(
    problem: Problem, kernel: FrozenKernel, features: FeatureSource | None
) -> StepSource:
    """Steps on the combined kernel: one matrix of coefficients for all blocks."""
    if kernel.held is not None:
        return KernelSource(kernel.held[:, None, :])
    if features is not None:
        return features.sharing(kernel.weights)
    bank = problem.bank
    return KernelSource(
        lambda rows: bank.combine(kernel.weights, rows)[:, None, :],
        bank.n_rows * bank.dtype.itemsize,
    )


def feature_source(problem: Problem) -> FeatureSource | None:
    """Steps on explicit features alone, where bank and loss allow them."""
    blocks = problem.bank.features()
    if blocks is None or loss_table(problem) is None:
        return None
    return FeatureSource(blocks)


def plain_steps(
    rows: Values,
    where: Order,
    order: Order,
    rule: hot.EpochRule,
    snapshot: hot.Snapshot,
    problem: Problem,
    sums: hot.Sum,
) -> None:
    """The steps one by one, for any smooth loss: what the compiled loops must equal."""
    weight = importance(problem)
    for row, i in zip(where, order, strict=True):
        a = sums.decay[:, None]
        scores = np.sum(
            a * snapshot.scores[:, :, i] + (1.0 - a) * snapshot.pull[:, :, i], axis=0
        )
        parts = np.einsum("fj,fkj->fk", rows[row].astype(np.float64), sums.coef)
        scores = scores + sums.scale @ parts
        target = problem.target[i : i + 1]
        gradient = problem.loss.gradient(scores[None], target)[0]
        delta = weight[i] * (gradient - snapshot.gradient[i])
        going = sums.done[0] < rule.length
        sums.decay[going] *= rule.rho[going]
        sums.coef[going] *= rule.rho[going, None, None]
        sums.coef[going, :, i] -= np.outer(rule.step[going], delta)
        sums.done[0] += 1
