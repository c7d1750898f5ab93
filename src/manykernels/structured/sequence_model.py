"""Kernels on positions, and the model of a sequence labeler that rests on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from manykernels.kernels import Kernel, KernelSet
from manykernels.kernels.base import unique_names
from manykernels.structured.chain_descent import ChainProgress
from manykernels.structured.chain_problem import ChainBlocks, ChainWeights
from manykernels.structured.chain_scores import ChainScores

Kernels = KernelSet | None


@storable(
    names=ListOf(Part(str), "kernels"),
    dense=Maybe(Part(KernelSet)),
    sparse=Maybe(Part(KernelSet)),
    explicit=Maybe(Part(KernelSet)),
    dense_at=ListOf(Count()),
    sparse_at=ListOf(Count()),
    explicit_at=ListOf(Count()),
    edge_names=ListOf(Part(str), "edges"),
    edges=Maybe(Part(KernelSet)),
)
@dataclass(frozen=True)
class SequenceKernels:
    """Kernels by the form in which they are cheapest: dense, sparse, explicit.

    Dense and sparse kernels keep reference positions; explicit features need none.
    Kernels that score pairs of labels ("edges") are explicit, and blocks behind all
    others.
    """

    names: list[str]
    dense: Kernels
    sparse: Kernels
    explicit: Kernels
    dense_at: list[int]  # which block each kernel is
    sparse_at: list[int]
    explicit_at: list[int]
    edge_names: list[str]
    edges: Kernels

    @classmethod
    def fit(
        cls,
        specs: Sequence[Kernel],
        edges: Sequence[Kernel],
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
        for kernel in edges:
            _require_explicit(kernel, table)

        def fitted(chosen: list[Kernel], precision: Any) -> Kernels:
            if not chosen:
                return None
            return KernelSet.fit(
                chosen,
                table,
                feature_names=feature_names,
                dtype=precision,
                psd=psd,
                random_state=random_state,
            )

        forms = {form: [specs[f] for f in places] for form, places in at.items()}
        return cls(
            unique_names([kernel.label for kernel in specs]),
            fitted(forms["dense"], dtype),
            fitted(forms["sparse"], dtype),
            fitted(forms["explicit"], np.float64),
            at["dense"],
            at["sparse"],
            at["explicit"],
            unique_names([kernel.label for kernel in edges]),
            fitted(list(edges), np.float64),
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

    @property
    def edge_columns(self) -> int:
        """Columns of all kernels on label pairs together."""
        return 0 if self.edges is None else sum(self.edges.n_feature_columns())

    @property
    def edge_at(self) -> list[int]:
        """Blocks of the kernels on label pairs."""
        return [len(self.names) + f for f in range(len(self.edge_names))]

    def blocks(
        self,
        features: Sequence[Any],
        edges: Sequence[Any],
        n_positions: int,
        limit: Any,
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
        return ChainBlocks(
            stack,
            matrices,
            features,
            self.kernel_at,
            self.explicit_at,
            edges,
            self.edge_at,
        )

    def training_blocks(self, n_positions: int, limit: Any) -> ChainBlocks:
        """Blocks of the training positions."""
        features = [] if self.explicit is None else self.explicit.features() or []
        edges = [] if self.edges is None else self.edges.features() or []
        return self.blocks(features, edges, n_positions, limit)

    def blocks_after(self, n_old: int, table: Any, limit: Any) -> ChainBlocks:
        """Blocks of old positions, without explicit features, followed by new ones."""
        features, edges = (
            [] if known is None else _after(n_old, known.new_features(table))
            for known in (self.explicit, self.edges)
        )
        return self.blocks(features, edges, n_old + table.shape[0], limit)

    def for_new_rows(self, support: np.ndarray) -> SequenceKernels:
        """What a fitted model keeps: support positions, and no explicit features."""
        return replace(
            self,
            dense=None if self.dense is None else self.dense.take(support),
            sparse=None if self.sparse is None else self.sparse.take(support),
            explicit=None if self.explicit is None else self.explicit.without_rows(),
            edges=None if self.edges is None else self.edges.without_rows(),
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
        known = [
            kernels for kernels in (*self._sets, self.edges) if kernels is not None
        ]
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
                "edges": self.edges is None or self.edges.is_explicit,
                "edge names": len(self.edge_names)
                == (0 if self.edges is None else self.edges.n_kernels),
            },
        )

    def extend(self, table: Any) -> SequenceKernels:
        """Reference positions followed by new ones."""
        return replace(
            self,
            dense=None if self.dense is None else self.dense.extend(table),
            sparse=None if self.sparse is None else self.sparse.extend(table),
        )


def _after(n_old: int, features: Sequence[Any]) -> list[Any]:
    """Explicit features behind rows of zeros."""
    return [
        sp.vstack([sp.csr_matrix((n_old, phi.shape[1])), sp.csr_matrix(phi)])
        for phi in features
    ]


def _require_explicit(kernel: Kernel, table: Any) -> None:
    if _form(kernel, table) != "explicit":
        raise ValueError(
            "edges must be linear or approximate kernels, which have features, got "
            f"{kernel.label!r}; choose another or approximate='nystroem'."
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
        support = progress.support()
        kept = progress.each(lambda part: part.at(support))
        small = kernels.for_new_rows(support)
        return cls(small, kept, averaged, n_sequences, n_calls)

    def require_sound(self) -> None:
        """Raise a ValueError where weights and kernels do not fit together."""
        kernels, pairs = self.kernels, self.progress.last.pairs
        shape = (len(kernels.kernel_at), kernels.n_reference, len(pairs))
        table = (sum(kernels.feature_columns), len(pairs))
        edges = (kernels.edge_columns, len(pairs) ** 2)
        shapes = (shape, table, pairs.shape, edges)
        last, total, pushes = (
            self.progress.last,
            self.progress.total,
            self.progress.pushes,
        )
        for what, held in (("weights", last), ("sums", total), ("gradients", pushes)):
            if held is not None:
                names = ("coefficients", "features", "labels", "edges")
                fit = [a.shape == b for a, b in zip(held.parts, shapes, strict=True)]
                parts = dict(zip(names, fit, strict=True))
                require_all(f"the {what} of a model of sequences", parts)

    @classmethod
    def empty(
        cls, kernels: SequenceKernels, averaged: bool, sums: bool, n_labels: int
    ) -> SequenceModel:
        """A model that has learned nothing, on no positions."""
        zero = ChainWeights(
            np.zeros((len(kernels.kernel_at), 0, n_labels)),
            np.zeros((sum(kernels.feature_columns), n_labels)),
            np.zeros((n_labels, n_labels)),
            np.zeros((kernels.edge_columns, n_labels**2)),
        )
        progress = ChainProgress(
            zero, zero if averaged else None, 0, zero if sums else None
        )
        kept = kernels.for_new_rows(np.empty(0, np.intp))
        return cls(kept, progress, averaged, 0, 0)

    @cached_property
    def weights(self) -> ChainWeights:
        """The model that predicts: the average or the last."""
        return self.progress.average if self.averaged else self.progress.last

    def scores(self, table: Any) -> ChainScores:
        """Scores of new positions, in float64."""
        weights, edges = self.weights, None
        if self.kernels.edges is not None:
            features = self.kernels.edges.new_features(table)
            edges = sp.hstack([sp.csr_array(phi) for phi in features], format="csr")
        return ChainScores(self.unary(table), weights.pairs, edges, weights.edges)

    def unary(self, table: Any) -> Array:
        """Scores of labels at new positions, shape (positions, labels)."""
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


def _add_kernels(scores: Array, kernels: Kernels, coef: Array, table: Any) -> None:
    """scores += sum_f K_f(new, support) coef_f."""
    if kernels is None or not coef.any() or not len(scores):
        return
    used = np.flatnonzero(np.any(coef != 0.0, axis=(1, 2)))
    for rows, block in kernels.only(used).astype(np.float64).cross(table):
        for f in used:
            scores[rows] += block[f] @ coef[f]
