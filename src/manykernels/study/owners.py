"""Which kernels belong together, and which rows have what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.inputs.groups import GroupKernels
from manykernels.inputs.views import as_views
from manykernels.kernels import Kernel, select_columns
from manykernels.kernels.columns import write_columns


@dataclass(frozen=True)
class Owners:
    """Parts of a model: single kernels, or sums of the kernels of one view.

    Attributes
    ----------
    names : list of str
        Of the parts.
    position : int array of shape (n_kernels,)
        The part that each kernel belongs to.

    Examples
    --------
    >>> owners = Owners.of_names(["acids", "color", "acids"])
    >>> owners.names, owners.sum(np.array([1.0, 2.0, 3.0]), axis=0)
    (['acids', 'color'], array([4., 2.]))
    """

    names: list[str]
    position: np.ndarray

    @classmethod
    def of_names(cls, names: Sequence[str]) -> Owners:
        """One owner per kernel, by name, in order of appearance."""
        unique = list(dict.fromkeys(names))
        return cls(unique, np.array([unique.index(name) for name in names]))

    @classmethod
    def of(cls, model: Any, by: str) -> Owners:
        """Every kernel alone, or the kernels of every view together."""
        if by == "kernel":
            names = list(model.kernel_names_)
            return cls(names, np.arange(len(names)))
        return cls.of_names(_view_names(model))

    def sum(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Sums over the kernels of every part."""
        if np.array_equal(self.position, np.arange(values.shape[axis])):
            return values
        shape = list(values.shape)
        shape[axis] = len(self.names)
        out = np.zeros(shape)
        np.add.at(
            np.moveaxis(out, axis, 0), self.position, np.moveaxis(values, axis, 0)
        )
        return out


def _view_names(model: Any) -> list[str]:
    """For every kernel its group, the views that it reads, or its columns."""
    groups, kernels = model.kernels, model._fitted_kernels()
    if isinstance(groups, GroupKernels) and len(groups) == len(kernels):
        return groups.groups
    if getattr(model, "_reader", None) is not None:
        touched = _views_read(model)
        names = model._reader.names
        return [
            "+".join(names[v] for v in np.flatnonzero(row)) or "constant"
            for row in touched
        ]
    return _columns_read(model, kernels)


def _columns_read(model: Any, kernels: Sequence[Kernel]) -> list[str]:
    """Columns as the first kernel on them writes them; given kernels stand alone."""
    shell = np.empty((0, model.n_features_in_))
    features = getattr(model, "feature_names_in_", None)
    written: dict[tuple[int, ...], str] = {}
    names = []
    for kernel, name in zip(kernels, model.kernel_names_, strict=True):
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
    names, kernels = model._reader.feature_names, model._fitted_kernels()
    found = np.zeros((len(kernels), len(starts)), dtype=bool)
    for f, kernel in enumerate(kernels):
        if kernel.family != "constant":
            chosen = select_columns(kernel.columns, shell, names)
            places = np.arange(shell.shape[1])[chosen]
            found[f, np.searchsorted(starts, places, side="right") - 1] = True
    return found


@dataclass(frozen=True)
class Presence:
    """Rows that have what each part reads, and how the model stretches rows.

    Attributes
    ----------
    has : bool array of shape (rows, parts)
        A part of several kernels is there where any of them is.
    stretch : array of shape (rows,)
        Multiplies a row in every kernel, for the views that it lacks.
    """

    has: np.ndarray
    stretch: np.ndarray

    @classmethod
    def of(cls, model: Any, X: Any, owners: Owners, n_rows: int) -> Presence:
        """Everything is there unless rows lack views."""
        shape = (n_rows, len(owners.names))
        reader = getattr(model, "_reader", None)
        everywhere = cls(np.ones(shape, dtype=bool), np.ones(n_rows))
        if reader is None:
            return everywhere
        table = reader.read(as_views(X), model._used(reader.shell, None))
        if all(one is None for one in table.present):
            return everywhere
        every = np.ones(n_rows, dtype=bool)
        views = np.column_stack([every if p is None else p for p in table.present])
        lacked = ~views @ _views_read(model).T  # (rows, kernels)
        has = np.zeros(shape, dtype=bool)
        np.logical_or.at(has.T, owners.position, ~lacked.T)
        stretch = model._prepared(table).stretch
        return cls(has, everywhere.stretch if stretch is None else stretch)

    def take(self, rows: Any) -> Presence:
        """Some of the rows."""
        return Presence(self.has[rows], self.stretch[rows])
