"""Which kernels belong together, and which rows have what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class KernelParts:
    """Parts of a model: single kernels, or sums of the kernels of one view.

    Attributes
    ----------
    names : list of str
        Of the parts.
    position : int array of shape (n_kernels,)
        The part that each kernel belongs to.

    Examples
    --------
    >>> parts = KernelParts.of_names(["acids", "color", "acids"])
    >>> parts.names, parts.sum(np.array([1.0, 2.0, 3.0]), axis=0)
    (['acids', 'color'], array([4., 2.]))
    """

    names: list[str]
    position: np.ndarray

    @classmethod
    def of_names(cls, names: Sequence[str]) -> KernelParts:
        """One name per kernel; parts are in order of appearance."""
        unique = list(dict.fromkeys(names))
        return cls(unique, np.array([unique.index(name) for name in names]))

    @classmethod
    def of(cls, model: Any, by: str) -> KernelParts:
        """Single kernels, or the kernels of every view together."""
        if by == "kernel":
            names = list(model.kernel_names_)
            return cls(names, np.arange(len(names)))
        return cls.of_names(model.kernel_views_)

    def sum(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Sums over the kernels of every part."""
        # Single kernels are summed already.
        if np.array_equal(self.position, np.arange(values.shape[axis])):
            return values
        shape = list(values.shape)
        shape[axis] = len(self.names)
        sums = np.zeros(shape)
        by_part, by_kernel = (np.moveaxis(a, axis, 0) for a in (sums, values))
        np.add.at(by_part, self.position, by_kernel)
        return sums


@dataclass(frozen=True)
class PartPresence:
    """Rows that have what each part reads, and how the model rescales rows.

    Attributes
    ----------
    has : bool array of shape (rows, parts)
        A part of several kernels is present if any of these is.
    stretch : array of shape (rows,)
        Multiplies a row in every kernel, for the views that it lacks.
    """

    has: np.ndarray
    stretch: np.ndarray

    @classmethod
    def of(cls, model: Any, X: Any, parts: KernelParts, n_rows: int) -> PartPresence:
        """Of the parts of a fitted model."""
        presence = model.kernel_presence(X)
        has = np.zeros((n_rows, len(parts.names)), dtype=bool)
        np.logical_or.at(has.T, parts.position, presence.has.T)
        return cls(has, presence.stretch)

    def take(self, rows: Any) -> PartPresence:
        """Some of the rows."""
        return PartPresence(self.has[rows], self.stretch[rows])
