"""What every kernel of a fitted model reads, and which rows have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from manykernels.inputs.groups import GroupKernels
from manykernels.inputs.view_table import ViewReader
from manykernels.inputs.views import as_views
from manykernels.kernels.columns import select_columns, write_columns
from manykernels.kernels.kernel_set import KernelSet


class KernelPresence(NamedTuple):
    """Rows that have what each kernel reads, and what they are multiplied with."""

    has: np.ndarray  # (rows, kernels) of booleans
    stretch: np.ndarray  # (rows,), of all kernels, for the views that a row lacks


def kernel_views(estimator: Any, fitted: KernelSet, names: Sequence[str]) -> list[str]:
    """For every kernel its group, the views that it reads, or its columns.

    The estimator has read its X, if nothing else. What is no kernel among the names, a
    nugget, stands for itself.
    """
    return [*_owners(estimator, fitted), *names[fitted.n_kernels :]]


def presence(model: Any, X: Any) -> KernelPresence:
    """Rows have everything unless they lack views; a nugget reads none."""
    reader = model._reader
    n_rows = _count_rows(model, X) if reader is None else len(as_views(X))
    shape = (n_rows, len(model.kernel_names_))
    everywhere = KernelPresence(np.ones(shape, dtype=bool), np.ones(n_rows))
    if reader is None:
        return everywhere
    table = reader.read(as_views(X), model._used(reader.no_rows))
    if all(one is None for one in table.present):
        return everywhere
    every = np.ones(n_rows, dtype=bool)
    views = np.column_stack([every if p is None else p for p in table.present])
    touched = _views_read(reader, model._model.kernels)
    everywhere.has[:, : len(touched)] = ~(~views @ touched.T)
    stretch = model._preparation.apply(table).stretch
    return everywhere if stretch is None else everywhere._replace(stretch=stretch)


def _count_rows(model: Any, X: Any) -> int:
    table = model._check_new(X)
    return int((table[0] if isinstance(table, list) else table).shape[0])


def _owners(estimator: Any, fitted: KernelSet) -> list[str]:
    groups, reader = estimator.kernels, estimator._reader
    if isinstance(groups, GroupKernels) and len(groups) == fitted.n_kernels:
        return list(groups.groups)
    if reader is None:
        features = getattr(estimator, "feature_names_in_", None)
        return _columns_read(fitted, estimator.n_features_in_, features)
    return [
        "+".join(reader.names[v] for v in np.flatnonzero(row)) or "constant"
        for row in _views_read(reader, fitted)
    ]


def _columns_read(fitted: KernelSet, n_columns: int, features: Any) -> list[str]:
    """Columns as the first kernel on them writes them; given kernels stand alone."""
    shell = np.empty((0, n_columns))
    written: dict[tuple[int, ...], str] = {}
    names = []
    for kernel, name in zip(fitted.kernels, fitted.names, strict=True):
        if kernel.family in ("given", "constant"):
            names.append(name)
            continue
        chosen = np.arange(shell.shape[1])[
            select_columns(kernel.columns, shell, features)
        ]
        every = len(chosen) == shell.shape[1]
        text = "all columns" if every else write_columns(kernel.columns)
        names.append(written.setdefault(tuple(np.sort(chosen).tolist()), text))
    return names


def _views_read(reader: ViewReader, fitted: KernelSet) -> np.ndarray:
    """Which kernel reads which view, shape (n_kernels, n_views)."""
    shell, names = reader.no_rows, reader.feature_names.tolist()
    starts = [span.start for span in shell.views.values()]
    reads = np.zeros((fitted.n_kernels, len(starts)), dtype=bool)
    for f, kernel in enumerate(fitted.kernels):
        if kernel.family != "constant":
            chosen = select_columns(kernel.columns, shell, names)
            places = np.arange(shell.shape[1])[chosen]
            reads[f, np.searchsorted(starts, places, side="right") - 1] = True
    return reads
