"""Kernels of a labeler: on labels and on pairs of labels, before and after a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    ListOf,
    Maybe,
    Part,
    StoredWord,
    require_all,
    storable,
)
from manykernels.inputs.groups import kernel_templates
from manykernels.kernels import Kernel, Linear
from manykernels.kernels.base import unique_names
from manykernels.kernels.columns import Columns, exact, matching
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.structured.chain_blocks import ChainBlocks

MOST_ATTRIBUTES = 200  # of tokens that get a kernel each by default

FORMS = ("dense", "sparse", "explicit")

Kernels = KernelSet | None


def label_kernels(
    kernels: Any, groups: Any, names: Sequence[str] | None
) -> list[Kernel]:
    """The kernels that score labels; `names` are the columns of tokens, if any."""
    specs = _described(kernels, names)
    if kernels is None and names is not None:
        specs = [Linear()] if groups else attribute_kernels(names)
    return specs if groups is None else grouped_kernels(groups, specs, names)


def edge_kernels(edges: Any, names: Sequence[str] | None) -> list[Kernel]:
    """The kernels that score pairs of labels."""
    if edges is None:
        return []
    if isinstance(edges, Mapping):
        return grouped_kernels(edges, [Linear()], names)
    return _described(edges, names)


def _described(kernels: Any, names: Sequence[str] | None) -> list[Kernel]:
    """Kernels from texts; a ";" in the name of an attribute cuts a text in two."""
    try:
        return as_kernels(kernels)
    except ValueError as error:
        if not any(";" in name for name in names or ()):
            raise
        reason = str(error).removesuffix(".")
        raise ValueError(
            f"{reason}; a ';' inside a name is written %3B in the text of a kernel."
        ) from error


def grouped_kernels(
    groups: Any, kernels: Sequence[Kernel], names: Sequence[str] | None
) -> list[Kernel]:
    """Kernels ``linear@group`` for every group of the columns of tokens.

    Parameters
    ----------
    groups : dict
        For every group a pattern with ``*`` or ``?``, a prefix, or a function that
        takes a column's name and says whether it belongs.
    kernels : sequence of Kernel
        What every group gets.
    names : sequence of str or None
        Of the columns; None where positions are rows of numbers.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> found = grouped_kernels({"word": "word="}, [Linear()], ["tag=N", "word=*"])
    >>> found[0].label, found[0].columns
    ('linear@word', 'word=*')
    """
    if names is None:
        raise ValueError(
            "groups are for token dicts, whose columns have names, got arrays; name "
            "columns in the kernels, as in 'linear@0-13'."
        )
    if not isinstance(groups, Mapping) or not groups:
        raise TypeError(
            "groups must be a dict from names to patterns, prefixes or functions, got "
            f"{groups!r}; write for instance {{'word': 'word=*'}}."
        )
    templates = kernel_templates(kernels)
    return [
        replace(kernel, columns=columns, name=f"{kernel.label}@{group}")
        for group, rule in groups.items()
        for columns in [_columns(group, rule, names)]
        for kernel in templates
    ]


def attribute_kernels(names: Sequence[str]) -> list[Kernel]:
    """A linear kernel for every attribute of tokens; one for all if there are too many.

    The attribute of a column is what stands before its "=".

    Examples
    --------
    >>> [(k.label, k.columns) for k in attribute_kernels(["bias", "word=a", "word=b"])]
    [('linear@bias', ('bias',)), ('linear@word', ('word=*',))]
    """
    patterns: dict[str, dict[str, None]] = {}
    for name in names:
        attribute, is_text, _ = name.partition("=")
        pattern = exact(attribute) + ("=*" if is_text else "")
        patterns.setdefault(attribute, {})[pattern] = None
    if not 1 < len(patterns) <= MOST_ATTRIBUTES:
        return [Linear()]
    return [
        Linear(columns=tuple(chosen), name=f"linear@{attribute}")
        for attribute, chosen in patterns.items()
    ]


def _columns(group: str, rule: str | Callable[[str], Any], names: Any) -> Columns:
    if callable(rule):
        chosen = [place for place, name in enumerate(names) if rule(name)]
    elif isinstance(rule, str):
        rule = rule if any(c in rule for c in "*?") else exact(rule) + "*"
        chosen = matching(rule, names)
    else:
        raise TypeError(
            f"group {group!r} must be a pattern, a prefix or a function, got {rule!r}; "
            "write for instance 'word=*'."
        )
    if not chosen:
        raise ValueError(
            f"group {group!r} must hold a column, got none for {rule!r}; columns are "
            f"named as {', '.join(map(repr, names[:3]))}."
        )
    return tuple(chosen) if callable(rule) else rule


@storable(
    names=ListOf(Part(str), "kernels"),
    forms=ListOf(StoredWord(*FORMS), "kernels"),
    dense=Maybe(Part(KernelSet)),
    sparse=Maybe(Part(KernelSet)),
    explicit=Maybe(Part(KernelSet)),
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
    forms: list[str]  # of each kernel
    dense: Kernels
    sparse: Kernels
    explicit: Kernels
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
        forms = [_form(kernel, table) for kernel in specs]
        for kernel in edges:
            if _form(kernel, table) != "explicit":
                raise ValueError(
                    "edges must be linear or approximate kernels, which have features, "
                    f"got {kernel.label!r}; choose another or approximate='nystroem'."
                )

        def fitted(chosen: Sequence[Kernel], precision: Any) -> Kernels:
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

        def of_form(form: str) -> list[Kernel]:
            pairs = zip(specs, forms, strict=True)
            return [kernel for kernel, its_form in pairs if its_form == form]

        return cls(
            unique_names([kernel.label for kernel in specs]),
            forms,
            fitted(of_form("dense"), dtype),
            fitted(of_form("sparse"), dtype),
            fitted(of_form("explicit"), np.float64),
            unique_names([kernel.label for kernel in edges]),
            fitted(edges, np.float64),
        )

    def blocks_of(self, *forms: str) -> list[int]:
        """Which blocks have one of the forms, in the order of the forms."""
        return [
            block
            for form in forms
            for block, its_form in enumerate(self.forms)
            if its_form == form
        ]

    @property
    def n_reference(self) -> int:
        """Positions that kernel values are computed with."""
        valued = self.dense or self.sparse
        return 0 if valued is None else valued.n_reference

    @property
    def feature_columns(self) -> list[int]:
        return [] if self.explicit is None else self.explicit.n_feature_columns()

    @property
    def edge_columns(self) -> int:
        return 0 if self.edges is None else sum(self.edges.n_feature_columns())

    def blocks(
        self,
        features: Sequence[Any],
        edges: Sequence[Any],
        n_positions: int,
        limit: Any,
    ) -> ChainBlocks:
        """Values of all kernels between the reference positions; features as given."""
        dtype = np.float64 if self.dense is None else self.dense.dtype
        n_dense = self.forms.count("dense")
        n_bytes = stack_bytes(n_positions, n_dense, np.dtype(dtype).itemsize)
        if n_dense:
            require_memory(
                n_bytes,
                limit,
                f"storing {n_dense} kernels of {n_positions} x {n_positions} positions",
            )
        # One row of all kernels lies together: a visit adds whole rows to the scores.
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
            self.blocks_of("dense", "sparse"),
            self.blocks_of("explicit"),
            edges,
            [len(self.names) + f for f in range(len(self.edge_names))],
        )

    def training_blocks(self, n_positions: int, limit: Any) -> ChainBlocks:
        """Blocks of the training positions."""
        features = [] if self.explicit is None else self.explicit.features() or []
        edges = [] if self.edges is None else self.edges.features() or []
        return self.blocks(features, edges, n_positions, limit)

    def blocks_after(self, n_old: int, table: Any, limit: Any) -> ChainBlocks:
        """Blocks of old positions, without explicit features, followed by new ones."""
        features, edges = (
            [] if part is None else _after(n_old, part.new_features(table))
            for part in (self.explicit, self.edges)
        )
        return self.blocks(features, edges, n_old + table.shape[0], limit)

    def take(self, support: np.ndarray) -> SequenceKernels:
        """Some of the reference positions, and no features of training positions."""
        return replace(
            self,
            dense=self.dense and self.dense.take(support),
            sparse=self.sparse and self.sparse.take(support),
            explicit=self.explicit and self.explicit.without_rows(),
            edges=self.edges and self.edges.without_rows(),
        )

    def extend(self, table: Any) -> SequenceKernels:
        """Reference positions followed by new ones."""
        return replace(
            self,
            dense=self.dense and self.dense.extend(table),
            sparse=self.sparse and self.sparse.extend(table),
        )

    @property
    def fitted(self) -> list[Kernel]:
        """All kernels as they were fitted, in the order of the names."""
        sets = [part for part in (self.dense, self.sparse, self.explicit) if part]
        kernels = [kernel for part in sets for kernel in part.kernels]
        places = self.blocks_of(*FORMS)
        return [kernel for _, kernel in sorted(zip(places, kernels, strict=True))]

    def require_sound(self) -> None:
        """Raise a ValueError where the kernels are not those of the names."""
        parts = {form: getattr(self, form) for form in FORMS}
        counts = {f: 0 if part is None else part.n_kernels for f, part in parts.items()}
        present = [part for part in (*parts.values(), self.edges) if part is not None]
        n_edges = 0 if self.edges is None else self.edges.n_kernels
        require_all(
            "the kernels of sequences",
            {
                "kernels": all(
                    counts[form] == self.forms.count(form) for form in FORMS
                ),
                "columns": len({part.n_columns for part in present}) == 1,
                "rows": all(
                    part.holds_rows and part.n_reference == self.n_reference
                    for part in (self.dense, self.sparse)
                    if part is not None
                ),
                "features": self.explicit is None or self.explicit.is_explicit,
                "edges": self.edges is None or self.edges.is_explicit,
                "edge names": len(self.edge_names) == n_edges,
            },
        )


def kept_kernels(
    specs: Sequence[Kernel], edges: Sequence[Kernel], norms: Array
) -> tuple[list[Kernel], list[Kernel], list[str]]:
    """Return kernels and edges with a norm, and the names of the others."""
    names = unique_names([kernel.label for kernel in specs])
    names += unique_names([kernel.label for kernel in edges])
    kept, n = norms[:-1] > 0.0, len(specs)
    if not kept[:n].any():
        raise ValueError(
            "refit_C needs kernels that the first fit has left, got none; choose a "
            "larger C."
        )
    return (
        [specs[f] for f in np.flatnonzero(kept[:n]).tolist()],
        [edges[f] for f in np.flatnonzero(kept[n:]).tolist()],
        [names[f] for f in np.flatnonzero(~kept)],
    )


def _after(n_old: int, features: Sequence[Any]) -> list[Any]:
    """Explicit features behind rows of zeros."""
    return [
        sp.vstack([sp.csr_matrix((n_old, phi.shape[1])), sp.csr_matrix(phi)])
        for phi in features
    ]


def _form(kernel: Kernel, table: Any) -> str:
    if kernel.family == "given":
        raise ValueError(
            "SequenceLabeler needs kernels on feature columns, got "
            f"{kernel.label!r}, which reads given matrices; pass features of the "
            "positions instead."
        )
    # Centering would fill a sparse table.
    if kernel.has_features and not (kernel.center and sp.issparse(table)):
        return "explicit"
    return "sparse" if kernel.compact and not kernel.center else "dense"
