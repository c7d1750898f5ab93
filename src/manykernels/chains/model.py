"""Kernels on positions, and the model of a sequence labeler that rests on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Array
from manykernels.base.machine import (
    available_threads,
    one_blas_thread,
    require_memory,
    stack_bytes,
)
from manykernels.base.stored import (
    FLAG,
    Count,
    ListOf,
    Maybe,
    Part,
    require_all,
    storable,
)
from manykernels.chains.descent import ChainProgress
from manykernels.chains.problem import ChainBlocks, ChainWeights
from manykernels.kernels import Kernel, KernelSet
from manykernels.kernels.base import unique_names

Kernels = KernelSet | None


@storable(
    names=ListOf(Part(str), "kernels"),
    dense=Maybe(Part(KernelSet)),
    sparse=Maybe(Part(KernelSet)),
    explicit=Maybe(Part(KernelSet)),
    dense_at=ListOf(Count()),
    sparse_at=ListOf(Count()),
    explicit_at=ListOf(Count()),
)
@dataclass(frozen=True)
class SequenceKernels:
    """Kernels by the form in which they are cheapest: dense, sparse, explicit.

    Dense and sparse kernels keep reference positions; explicit features need none.
    """

    names: list[str]
    dense: Kernels
    sparse: Kernels
    explicit: Kernels
    dense_at: list[int]  # which block each kernel is
    sparse_at: list[int]
    explicit_at: list[int]

    @classmethod
    def fit(
        cls,
        specs: Sequence[Kernel],
        table: Any,
        *,
        feature_names: Sequence[str] | None,
        dtype: Any,
        psd: Any,
        random_state: Any,
    ) -> SequenceKernels:
        """Fit every kernel on the positions of the training sequences."""
        at: dict[str, list[int]] = {"dense": [], "sparse": [], "explicit": []}
        for f, kernel in enumerate(specs):
            at[_form(kernel, table)].append(f)

        def fitted(form: str) -> Kernels:
            if not at[form]:
                return None
            return KernelSet.fit(
                [specs[f] for f in at[form]],
                table,
                feature_names=feature_names,
                dtype=np.float64 if form == "explicit" else dtype,
                psd=psd,
                random_state=random_state,
            )

        sets = {form: fitted(form) for form in at}
        return cls(
            unique_names([kernel.label for kernel in specs]),
            sets["dense"],
            sets["sparse"],
            sets["explicit"],
            at["dense"],
            at["sparse"],
            at["explicit"],
        )

    @property
    def kernel_at(self) -> list[int]:
        """Blocks with kernel values, dense ones first."""
        return [*self.dense_at, *self.sparse_at]

    @property
    def n_reference(self) -> int:
        """Positions that kernel values are computed with."""
        known = self.dense or self.sparse
        return 0 if known is None else known.n_reference

    @property
    def feature_columns(self) -> list[int]:
        """Columns of every explicit block."""
        return [] if self.explicit is None else self.explicit.n_feature_columns()

    def blocks(
        self, features: Sequence[Any], n_positions: int, limit: Any
    ) -> ChainBlocks:
        """Values of all kernels between the reference positions; features as given."""
        dtype = np.float64 if self.dense is None else self.dense.dtype
        n_dense = len(self.dense_at)
        n_bytes = stack_bytes(n_positions, n_dense, np.dtype(dtype).itemsize)
        if n_dense:
            require_memory(
                n_bytes,
                limit,
                f"storing {n_dense} kernels of {n_positions} x {n_positions} positions",
            )
        stack = np.empty((n_positions, n_dense, n_positions), dtype)
        if self.dense is not None:
            with one_blas_thread():
                self.dense.stack(
                    stack.transpose(1, 0, 2), n_threads=available_threads()
                )
        matrices = [] if self.sparse is None else self.sparse.sparse_stack()
        return ChainBlocks(stack, matrices, features, self.kernel_at, self.explicit_at)

    def blocks_after(self, n_old: int, table: Any, limit: Any) -> ChainBlocks:
        """Blocks of old positions, without explicit features, followed by new ones."""
        features = [
            sp.vstack([sp.csr_matrix((n_old, phi.shape[1])), sp.csr_matrix(phi)])
            for phi in self.new_features(table)
        ]
        return self.blocks(features, n_old + table.shape[0], limit)

    def training_features(self) -> list[Any]:
        """Explicit features of the training positions."""
        return [] if self.explicit is None else self.explicit.features() or []

    def new_features(self, table: Any) -> list[Any]:
        """Explicit features of other positions."""
        return [] if self.explicit is None else self.explicit.new_features(table)

    def for_new_rows(self, support: np.ndarray) -> SequenceKernels:
        """What a fitted model keeps: support positions, and no explicit features."""
        return replace(
            self,
            dense=None if self.dense is None else self.dense.restrict(support),
            sparse=None if self.sparse is None else self.sparse.restrict(support),
            explicit=None if self.explicit is None else self.explicit.without_rows(),
        )

    @property
    def fitted(self) -> list[Kernel]:
        """All kernels as they were fitted, in the order of the names."""
        at = [*self.kernel_at, *self.explicit_at]
        sets = [known for known in self._sets if known is not None]
        kernels = [kernel for known in sets for kernel in known.kernels]
        return [kernel for _, kernel in sorted(zip(at, kernels, strict=True))]

    @property
    def _sets(self) -> list[Kernels]:
        return [self.dense, self.sparse, self.explicit]

    def require_sound(self) -> None:
        """Raise a ValueError where the kernels are not those of the names."""
        places = [self.dense_at, self.sparse_at, self.explicit_at]
        counts = [0 if known is None else known.n_kernels for known in self._sets]
        known = [kernels for kernels in self._sets if kernels is not None]
        valued = [kernels for kernels in (self.dense, self.sparse) if kernels]
        require_all(
            "the kernels of sequences",
            {
                "places": sorted(sum(places, [])) == list(range(len(self.names))),
                "kernels": [len(at) for at in places] == counts,
                "columns": len({kernels.n_columns for kernels in known}) == 1,
                "rows": all(
                    kernels.holds_rows and kernels.n_reference == self.n_reference
                    for kernels in valued
                ),
                "features": self.explicit is None or self.explicit.is_explicit,
            },
        )

    def extend(self, table: Any) -> SequenceKernels:
        """Reference positions followed by new ones."""
        return replace(
            self,
            dense=None if self.dense is None else self.dense.extend(table),
            sparse=None if self.sparse is None else self.sparse.extend(table),
        )


def _form(kernel: Kernel, table: Any) -> str:
    if kernel.family == "given":
        raise ValueError(
            "SequenceLabeler needs kernels on feature columns, got "
            f"{kernel.label!r}, which reads given matrices; pass features of the "
            "positions instead."
        )
    if kernel.has_features and not (kernel.center and sp.issparse(table)):
        return "explicit"
    return "sparse" if kernel.compact and not kernel.center else "dense"


@storable(
    kernels=Part(SequenceKernels),
    progress=Part(ChainProgress),
    averaged=FLAG,
    n_sequences=Count(),
    n_calls=Count(),
)
@dataclass(frozen=True)
class SequenceModel:
    """Where learning stands, on the support positions: enough to predict and go on."""

    kernels: SequenceKernels
    progress: ChainProgress
    averaged: bool
    n_sequences: int  # learned from so far
    n_calls: int  # to partial_fit

    @classmethod
    def keep_support(
        cls,
        kernels: SequenceKernels,
        progress: ChainProgress,
        averaged: bool,
        n_sequences: int,
        n_calls: int,
    ) -> SequenceModel:
        """Drop positions without coefficients."""
        used = np.any(progress.last.coef != 0.0, axis=(0, 2))
        if progress.total is not None:
            used |= np.any(progress.total.coef != 0.0, axis=(0, 2))
        support = np.flatnonzero(used)
        total = progress.total
        kept = ChainProgress(
            _rows(progress.last, support),
            None if total is None else _rows(total, support),
            progress.n_steps,
        )
        small = kernels.for_new_rows(support)
        return cls(small, kept, averaged, n_sequences, n_calls)

    def require_sound(self) -> None:
        """Raise a ValueError where weights and kernels do not fit together."""
        kernels, pairs = self.kernels, self.progress.last.pairs
        shape = (len(kernels.kernel_at), kernels.n_reference, len(pairs))
        table = (sum(kernels.feature_columns), len(pairs))
        total = self.progress.total or self.progress.last
        require_all(
            "a model of sequences",
            {
                "coefficients": self.progress.last.coef.shape == shape,
                "feature weights": self.progress.last.table.shape == table,
                "sums": total.coef.shape == shape and total.table.shape == table,
                "labels": total.pairs.shape == pairs.shape,
            },
        )

    @classmethod
    def empty(
        cls, kernels: SequenceKernels, averaged: bool, n_labels: int
    ) -> SequenceModel:
        """A model that has learned nothing, on no positions."""
        zero = ChainWeights(
            np.zeros((len(kernels.kernel_at), 0, n_labels)),
            np.zeros((sum(kernels.feature_columns), n_labels)),
            np.zeros((n_labels, n_labels)),
        )
        progress = ChainProgress(zero, zero if averaged else None, 0)
        kept = kernels.for_new_rows(np.empty(0, np.intp))
        return cls(kept, progress, averaged, 0, 0)

    @property
    def weights(self) -> ChainWeights:
        """The model that predicts: the average or the last."""
        return self.progress.average if self.averaged else self.progress.last

    def scores(self, table: Any) -> Array:
        """Unary scores of new positions, shape (positions, labels), in float64."""
        weights, kernels = self.weights, self.kernels
        scores = np.zeros((table.shape[0], weights.pairs.shape[0]))
        n_dense = len(kernels.dense_at)
        _add_kernels(scores, kernels.dense, weights.coef[:n_dense], table)
        _add_kernels(scores, kernels.sparse, weights.coef[n_dense:], table)
        if kernels.explicit is not None:
            edges = np.cumsum(kernels.feature_columns)[:-1]
            parts = np.split(weights.table, edges)
            for rows, features in kernels.explicit.feature_blocks(table):
                for phi, part in zip(features, parts, strict=True):
                    scores[rows] += phi @ part
        return scores


def _rows(weights: ChainWeights, support: np.ndarray) -> ChainWeights:
    return ChainWeights(weights.coef[:, support], weights.table, weights.pairs)


def _add_kernels(scores: Array, kernels: Kernels, coef: Array, table: Any) -> None:
    """scores += sum_f K_f(new, support) coef_f."""
    if kernels is None or not coef.any() or not len(scores):
        return
    used = np.flatnonzero(np.any(coef != 0.0, axis=(1, 2)))
    for rows, block in kernels.only(used).astype(np.float64).cross(table):
        for f in used:
            scores[rows] += block[f] @ coef[f]
