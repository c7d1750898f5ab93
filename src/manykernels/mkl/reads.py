"""What every kernel of a fitted model reads, and which rows have it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from manykernels.inputs.groups import GroupKernels
from manykernels.inputs.views import as_views
from manykernels.kernels import select_columns
from manykernels.kernels.columns import write_columns


class Presence(NamedTuple):
    """Rows that have what each kernel reads, and what they are multiplied with."""

    has: np.ndarray  # (rows, kernels) of booleans
    stretch: np.ndarray  # (rows,), of all kernels, for the views that a row lacks


def kernel_views(model: Any) -> list[str]:
    """For every kernel its group, the views that it reads, or its columns.

    What is no kernel among the names, a nugget, stands for itself.
    """
    n_kernels = len(model._model.kernels.kernels)
    return [*_owners(model), *model.kernel_names_[n_kernels:]]


def presence(model: Any, X: Any) -> Presence:
    """Everything is there unless rows lack views; a nugget reads none."""
    reader = model._reader
    n_rows = _count_rows(model, X) if reader is None else len(as_views(X))
    shape = (n_rows, len(model.kernel_names_))
    everywhere = Presence(np.ones(shape, dtype=bool), np.ones(n_rows))
    if reader is None:
        return everywhere
    table = reader.read(as_views(X), model._used(reader.shell, None))
    if all(one is None for one in table.present):
        return everywhere
    every = np.ones(n_rows, dtype=bool)
    views = np.column_stack([every if p is None else p for p in table.present])
    touched = _views_read(model)
    everywhere.has[:, : len(touched)] = ~(~views @ touched.T)
    stretch = model._prepared(table).stretch
    return everywhere if stretch is None else everywhere._replace(stretch=stretch)


def _count_rows(model: Any, X: Any) -> int:
    table = model._check_X(X, reset=False)
    return int((table[0] if isinstance(table, list) else table).shape[0])


def _owners(model: Any) -> list[str]:
    groups, kernels = model.kernels, model._model.kernels.kernels
    if isinstance(groups, GroupKernels) and len(groups) == len(kernels):
        return list(groups.groups)
    if model._reader is None:
        return _columns_read(model)
    names = model._reader.names
    return [
        "+".join(names[v] for v in np.flatnonzero(row)) or "constant"
        for row in _views_read(model)
    ]


def _columns_read(model: Any) -> list[str]:
    """Columns as the first kernel on them writes them; given kernels stand alone."""
    shell = np.empty((0, model.n_features_in_))
    features = getattr(model, "feature_names_in_", None)
    written: dict[tuple[int, ...], str] = {}
    names = []
    fitted = model._model.kernels
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


def _views_read(model: Any) -> np.ndarray:
    """Which kernel reads which view, shape (n_kernels, n_views)."""
    shell = model._reader.shell
    starts = [span.start for span in shell.views.values()]
    names, kernels = model._reader.feature_names, model._model.kernels.kernels
    found = np.zeros((len(kernels), len(starts)), dtype=bool)
    for f, kernel in enumerate(kernels):
        if kernel.family != "constant":
            chosen = select_columns(kernel.columns, shell, names)
            places = np.arange(shell.shape[1])[chosen]
            found[f, np.searchsorted(starts, places, side="right") - 1] = True
    return found
