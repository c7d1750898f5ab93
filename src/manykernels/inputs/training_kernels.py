"""The kernels to fit: those asked for, on the columns or the views of X."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.inputs.parameters import read_approximation
from manykernels.inputs.views import Views
from manykernels.kernels import Kernel, approximate_kernels
from manykernels.kernels.columns import select_columns
from manykernels.kernels.grammar import as_kernels, view_kernels


def training_kernels(kernels: Any, X: Any, approximate: Any = None) -> list[Kernel]:
    """The kernels, with callable column selectors applied to X as it was passed.

    Selectors such as `make_column_selector` read the names and types of a data
    frame, which are gone once X has been checked. `approximate` is for kernels without
    an approximation of their own.
    """
    if isinstance(X, Views):
        specs = kernels_of_views(kernels, X.names)
    else:
        specs = as_kernels(kernels)
        # Most names are texts, and their types are compared at once.
        if not {*map(type, getattr(X, "columns", ()))} <= {str}:
            _require_text_names(specs, X)
        for k, kernel in enumerate(specs):
            if callable(kernel.columns):
                specs[k] = _with_selected_columns(kernel, X)
    if approximate is None:
        return specs
    return approximate_kernels(specs, *read_approximation(approximate))


def _require_text_names(kernels: Sequence[Kernel], X: Any) -> None:
    """Raise where kernels name columns, and some name of X is no text."""
    odd = [name for name in getattr(X, "columns", ()) if not isinstance(name, str)]
    if not odd:
        return
    for kernel in kernels:
        items = (
            kernel.columns if isinstance(kernel.columns, tuple) else [kernel.columns]
        )
        for item in items:
            if isinstance(item, str):
                raise ValueError(
                    f"X must have texts as column names for a kernel on {item!r}, got "
                    f"{odd[0]!r}; rename them, for instance with X.columns = "
                    "['_'.join(map(str, name)) for name in X.columns]."
                )


def _with_selected_columns(kernel: Kernel, X: Any) -> Kernel:
    if kernel.family == "given":
        raise TypeError(
            f"kernel {kernel.label!r} picks matrices of a stack by position, got the "
            f"selector {kernel.columns!r}; pass for instance columns=[0, 2]."
        )
    table = X if hasattr(X, "shape") else np.asarray(X)
    chosen = select_columns(kernel.columns, table, None)
    return replace(kernel, columns=np.arange(table.shape[1])[chosen].tolist())


def kernels_of_views(kernels: Any, views: Sequence[str]) -> list[Kernel]:
    """Kernels on views: one that names no columns is taken once for every view.

    Examples
    --------
    >>> [kernel.label for kernel in kernels_of_views("rbf; linear@b:0", ["a", "b"])]
    ['rbf@a', 'rbf@b', 'linear@b:0']
    """
    if kernels is None:
        return [kernel for name in views for kernel in view_kernels(name)]
    specs: list[Kernel] = []
    for kernel in as_kernels(kernels):
        columns = kernel.columns
        if callable(columns):
            raise TypeError(
                f"columns of views are chosen by name, got the selector {columns!r}; "
                "write for instance 'rbf@view' or 'rbf@view:a*'."
            )
        if columns is None and kernel.family != "constant":
            specs += [_on_view(kernel, name) for name in views]
            continue
        if isinstance(columns, str) and columns not in views:
            # "view:a*" names columns in a view, "view" all of it.
            name, colon, rest = columns.partition(":")
            if colon and name in views:
                kernel = replace(kernel, columns=slice(name, rest))
        specs.append(kernel)
    return specs


def _on_view(kernel: Kernel, view: str) -> Kernel:
    name = None if kernel.name is None else f"{kernel.name}@{view}"
    return replace(kernel, columns=view, name=name)
