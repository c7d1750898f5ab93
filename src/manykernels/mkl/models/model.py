"""A fitted model: kernels on support rows, or one coefficient block per kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from manykernels.banks.base import support_of
from manykernels.banks.storage import MemoryLimit
from manykernels.base.arrays import Array
from manykernels.base.machine import (
    available_threads,
    in_slices,
    one_blas_thread,
    parse_bytes,
)
from manykernels.base.stored import (
    Either,
    Floats,
    ListOf,
    Maybe,
    Part,
    Wholes,
    require_all,
    storable,
)
from manykernels.kernels.kernel_set import Group, KernelSet
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion

KERNELS_AT_A_TIME = 64  # with more, blocks have few rows
ONE_THREAD_VALUES = 2**20  # kernel values that one thread computes
FEATURE_SUM_ROWS = 4096  # support rows whose features are held at a time
PREDICTION_BLOCK_BYTES = 2**26  # of kernel values at a time: more is not faster
# In a file: shared by all outputs, or a row for each.
STORED_WEIGHTS = Either(
    Floats("kernels", low=0.0), Floats("outputs", "kernels", low=0.0)
)


class EvaluatedModel:
    """A fitted model, with what its predictions evaluate prepared at the first."""

    kernels: KernelSet
    weights: Array
    nugget: ClassVar[None] = None

    @property
    def names(self) -> list[str]:
        """One for every weight."""
        return self.kernels.names

    @property
    def weights_at_new_rows(self) -> Array:
        """Weights of the kernels in scores of new rows."""
        return self.weights

    @property
    def without_nugget(self) -> Any:
        """The model on kernels alone."""
        return self

    @cached_property
    def used_kernels(self) -> KernelSet:
        """The kernels that some output gives a weight, in double precision."""
        used = np.flatnonzero(np.atleast_2d(self.weights).any(axis=0))
        return self.kernels.only(used, np.float64)

    @cached_property
    def used_parts(self) -> list[tuple[list[int], KernelSet]]:
        """Positions of these kernels, and the kernels: some dozens at a time."""
        whole = list(range(self.kernels.n_kernels)), self.used_kernels
        if self.kernels.are_given:  # new rows come with all their values
            return [whole]
        if len(whole[0]) <= KERNELS_AT_A_TIME and np.all(
            np.atleast_2d(self.weights).any(axis=0)
        ):
            return [whole]
        return list(kernel_parts(self.used_kernels, KERNELS_AT_A_TIME)) or [whole]

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what was prepared can be prepared again."""
        prepared = ("used_kernels", "used_parts", "device_rows")
        return {key: vars(self)[key] for key in vars(self) if key not in prepared}


@storable(
    kernels=Part(KernelSet),
    coef=Floats("support rows", "outputs"),
    weights=STORED_WEIGHTS,
)
@dataclass(frozen=True)
class BlockModel(EvaluatedModel):
    """scores(x) = sum_f weights_f sum_j k_f(x, x_j) coef_j over the support rows.

    Weights sum to one; the common factor is in the coefficients. Outputs share the
    weights, or each has a row of its own. New rows are
    evaluated in float64 whatever the storage, so that a row's scores do not depend on
    the rows it comes with.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> kernels = KernelSet.fit([Linear(normalize=None)], [[1.0], [2.0]])
    >>> coef = np.array([[0.0, 0.0], [0.5, -0.5]])
    >>> model = BlockModel.from_expansion(kernels, Expansion(coef, np.ones(1)))
    >>> model.scores([[3.0]]).tolist()
    [[3.0, -3.0]]
    """

    kernels: KernelSet  # reference rows are the support rows
    coef: Array  # (support rows, outputs)
    weights: Array  # (kernels,) or (outputs, kernels)

    @classmethod
    def from_expansion(cls, kernels: KernelSet, model: Expansion) -> BlockModel:
        """Keep the support rows of a solution on the kernels' reference rows."""
        support = support_of(model.coef)
        # Weights that sum to one can be compared between models; the coefficients take
        # the factor.
        total = model.weights.sum(axis=-1)
        coef = total * model.coef[support]
        weights = model.weights / total[..., None]
        return cls(kernels.take(support, matrices=False), coef, weights)

    def expansion(self, norm: LpGroupNorm) -> Expansion:
        """The same model on its support rows with the weights that solvers use.

        These have ||d||_r = 1, and then the coefficients obey the dual's bounds.
        """
        return expansion_of(self.coef, self.weights, norm)

    def scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        if self.weights.ndim == 2:
            return np.asarray(self.block_scores(X, block_bytes).sum(axis=1))
        parts = self.used_parts
        if len(parts) == 1:
            return self._part_scores(parts[0], X, block_bytes)
        # Pairs of new rows and support rows, times the kernels.
        n_values = len(X) if isinstance(X, list) else int(X.shape[0])
        n_values *= self.kernels.n_kernels * max(1, len(self.coef))
        # Threads of our own: those of BLAS wait for each other in small products.
        n_threads = min(available_threads(), len(parts))
        if n_values < ONE_THREAD_VALUES:  # starting them takes longer than a few rows
            n_threads = 1

        def work(part: tuple[list[int], KernelSet]) -> Array:
            return self._part_scores(part, X, block_bytes // n_threads)

        if n_threads == 1:
            return np.sum(list(map(work, parts)), axis=0)
        with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
            return np.sum(list(pool.map(work, parts)), axis=0)

    def _part_scores(
        self, part: tuple[list[int], KernelSet], X: Any, block_bytes: int
    ) -> Array:
        """What some of the kernels add to the scores."""
        chosen, kernels = part
        parts = [np.empty((0, self.coef.shape[1]))]
        for _, block in kernels.cross(X, block_bytes):
            # One thread, and for a row the same sums whatever rows it comes with.
            combined = np.einsum("f,fij->ij", self.weights[chosen], block)
            parts.append(combined @ self.coef)
        return np.concatenate(parts)

    def block_scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Each kernel's part of the scores, shape (rows, kernels, outputs)."""
        shape = (self.kernels.n_kernels, self.coef.shape[1])
        weights = np.atleast_2d(self.weights).T  # (kernels, 1 or outputs)
        parts = [
            np.moveaxis(block @ self.coef, 0, 1) * weights
            for _, block in self.used_kernels.cross(X, block_bytes)
        ]
        return np.concatenate([*parts, np.empty((0, *shape))])

    def require_sound(self) -> None:
        """Raise a ValueError where kernels, weights and coefficients disagree."""
        checks = _fits(self) | {"rows": self.kernels.holds_rows}
        require_all("a model on support rows", checks)


@storable(
    kernels=Part(KernelSet),
    blocks=ListOf(Floats(None, "outputs"), "kernels"),
    coef=Floats("support rows", "outputs"),
    weights=STORED_WEIGHTS,
)
@dataclass(frozen=True)
class FeatureModel(EvaluatedModel):
    r"""scores(x) = sum_f phi_f(x) blocks_f, where all kernels have explicit features.

    :math:`blocks_f = weights_f \sum_j \phi_f(x_j) coef_j^\top`: no row is kept, and a
    new row costs its features only. The coefficients of the support rows stay, to
    start another fit from.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> kernels = KernelSet.fit([Linear(normalize=None)], [[1.0], [2.0]])
    >>> coef = np.array([[0.0, 0.0], [0.5, -0.5]])
    >>> rows = BlockModel.from_expansion(kernels, Expansion(coef, np.ones(1)))
    >>> model = FeatureModel.from_rows(rows)
    >>> model.blocks[0].tolist(), model.scores([[3.0]]).tolist()
    ([[1.0, -1.0]], [[3.0, -3.0]])
    """

    kernels: KernelSet  # without rows; its support are the rows that had coefficients
    blocks: list[Array]  # (feature columns, outputs) for every kernel
    coef: Array  # (support rows, outputs)
    weights: Array  # (kernels,) or (outputs, kernels)

    @classmethod
    def from_rows(cls, model: BlockModel) -> FeatureModel:
        """Sum up the features of the support rows."""
        columns = model.kernels.n_feature_columns()
        kernels = model.used_kernels

        def work(begin: int, end: int) -> list[Array]:
            blocks = [np.zeros((n, model.coef.shape[1])) for n in columns]
            for start in range(begin, end, FEATURE_SUM_ROWS):
                rows = np.arange(start, min(start + FEATURE_SUM_ROWS, end))
                for f, phi in enumerate(kernels.take(rows).features() or []):
                    if phi is not None:
                        blocks[f] += model.weights[..., f] * (phi.T @ model.coef[rows])
            return blocks

        with one_blas_thread():
            traffic = 16.0 * len(model.coef) * sum(columns)
            parts = in_slices(len(model.coef), traffic, work)
        blocks = [np.asarray(sum(slices)) for slices in zip(*parts, strict=True)]
        return cls(model.kernels.without_rows(), blocks, model.coef, model.weights)

    def expansion(self, norm: LpGroupNorm) -> Expansion:
        """The same model on its support rows with the weights that solvers use."""
        return expansion_of(self.coef, self.weights, norm)

    def scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        parts = [np.empty((0, self.coef.shape[1]))]
        for _, block in self._parts(X, block_bytes):
            parts.append(block.sum(axis=1))
        return np.concatenate(parts)

    def block_scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Each kernel's part of the scores, shape (rows, kernels, outputs)."""
        shape = (self.kernels.n_kernels, self.coef.shape[1])
        parts = [block for _, block in self._parts(X, block_bytes)]
        return np.concatenate([*parts, np.empty((0, *shape))])

    def _parts(self, X: Any, block_bytes: int) -> Iterator[tuple[slice, Array]]:
        """(rows, each kernel's part of their scores), some rows at a time."""
        shape = (self.kernels.n_kernels, self.coef.shape[1])
        for rows, features in self.used_kernels.feature_blocks(X, block_bytes):
            out = np.zeros((rows.stop - rows.start, *shape))
            for f, phi in enumerate(features):
                if phi is not None:
                    out[:, f] = phi @ self.blocks[f]
            yield rows, out

    def require_sound(self) -> None:
        """Raise a ValueError where kernels, weights and coefficients disagree."""
        columns, explicit = self.kernels.n_feature_columns(), self.kernels.is_explicit
        checks = {
            "features": explicit,
            "blocks": [len(block) for block in self.blocks] == columns,
        }
        require_all("a model of features", _fits(self) | checks)


@storable(
    target=Wholes("support rows", low=0),
    weight=Floats("support rows", low=0.0),
    square_norms=Maybe(Floats("kernels", low=0.0)),
)
@dataclass(frozen=True)
class SupportLabels:
    """What a stream needs to know of a model's support rows, beside their kernels."""

    target: NDArray[np.int64]  # (support rows,)
    weight: Array  # (support rows,)
    # ||sum_i coef_i phi_f(x_i)||^2 for the model's coef; computed anew if not known
    square_norms: Array | None = None  # (kernels,)


Model: TypeAlias = BlockModel | FeatureModel


def bytes_at_a_time(limit: MemoryLimit, kept_bytes: int) -> int:
    """Bytes of a block of kernel values with which a prediction keeps to its limit.

    A block and its combination, which for one kernel is as large, are still held while
    the next ones are made: a quarter each of what the kept results and the tiles leave.

    Examples
    --------
    >>> bytes_at_a_time("200MB", 10**6) < bytes_at_a_time(None, 10**6)
    True
    """
    if limit is None:
        return PREDICTION_BLOCK_BYTES
    tiles = 24 << 20  # which blocks are made of, with their temporaries
    left = parse_bytes(limit) - kept_bytes - tiles
    return min(PREDICTION_BLOCK_BYTES, max(2**20, left // 4))


def fitted_model(kernels: KernelSet, solution: Expansion) -> Model:
    """The model of new rows, from a solution on the kernels' reference rows."""
    model = BlockModel.from_expansion(kernels, solution)
    return FeatureModel.from_rows(model) if kernels.is_explicit else model


def _fits(model: Model) -> dict[str, Any]:
    """What must agree in every fitted model, and whether it does."""
    return {
        "coefficients": len(model.coef) == model.kernels.n_reference,
        "weights": model.weights.shape[-1] == model.kernels.n_kernels,
        "sum of the weights": np.allclose(model.weights.sum(axis=-1), 1.0),
    }


def expansion_of(coef: Array, weights: Array, norm: LpGroupNorm) -> Expansion:
    """Coefficients and weights with ||d||_r = 1 instead of a sum of one."""
    normalized = np.apply_along_axis(norm.normalize_weights, -1, weights)
    return Expansion(coef / normalized.sum(axis=-1), normalized)


def kernel_parts(fitted: KernelSet, most: int) -> Iterator[tuple[list[int], KernelSet]]:
    """(positions, the kernels at these positions alone) until all evaluated ones came.

    A part has about `most` kernels, and its blocks of values are as many times larger
    as it has fewer kernels than the whole; kernels on the same columns stay together.

    Examples
    --------
    >>> from manykernels.kernels import RBF, Linear
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> kernels = [RBF(0.5), Linear(columns=[0]), Linear(), RBF(2.0, columns=[0])]
    >>> fitted = KernelSet.fit(kernels, [[1.0, 2.0], [2.0, 3.0]])
    >>> [part.names for _, part in kernel_parts(fitted, 2)]
    [['rbf(gamma=0.5)', 'linear'], ['linear@0', 'rbf(gamma=2)@0']]
    """
    groups: list[Group] = []
    count = 0
    for group in fitted.groups:
        groups.append(group)
        count += len(group.members)
        if count >= most:
            yield _alone(fitted, groups)
            groups, count = [], 0
    if count:
        yield _alone(fitted, groups)


def _alone(fitted: KernelSet, groups: Sequence[Group]) -> tuple[list[int], KernelSet]:
    """The kernels of some groups, numbered anew."""
    chosen = [f for group in groups for f in group.members]
    numbers = {f: place for place, f in enumerate(chosen)}
    part = replace(
        fitted,
        kernels=[fitted.kernels[f] for f in chosen],
        names=[fitted.names[f] for f in chosen],
        scalings=[fitted.scalings[f] for f in chosen],
        groups=[
            replace(group, members=[numbers[f] for f in group.members])
            for group in groups
        ],
    )
    return chosen, part
