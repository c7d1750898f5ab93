"""Which kernels belong together, and which rows have what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


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
        return cls.of_names(model.kernel_views_)

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
        """A part of several kernels is there where any of them is."""
        found = model.kernel_presence(X)
        has = np.zeros((n_rows, len(owners.names)), dtype=bool)
        np.logical_or.at(has.T, owners.position, found.has.T)
        return cls(has, found.stretch)

    def take(self, rows: Any) -> Presence:
        """Some of the rows."""
        return Presence(self.has[rows], self.stretch[rows])
