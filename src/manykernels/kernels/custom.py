"""Kernels given as functions of two tables, checked as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.kernels.base import Kernel, require_finite

DIAGONAL_ROWS = 16
SYMMETRY_ROWS = 32
SYMMETRY_TOLERANCE = 1e-4  # a function may compute in float32


@dataclass(frozen=True, repr=False)
class Custom(Kernel):
    """Any function of two tables, K = function(X, Y) with K[i, j] = k(x_i, y_j).

    A function with a ``diag(X)`` method (as scikit-learn's Gaussian process kernels
    have) is asked for k(x, x) through it; any other is called on small blocks of rows.

    Parameters
    ----------
    function : callable
        Takes arrays of shape (n, d) and (m, d), returns an array of shape (n, m).

    Examples
    --------
    >>> from sklearn.metrics.pairwise import laplacian_kernel
    >>> from manykernels.kernels import Custom, KernelSet
    >>> Custom(laplacian_kernel).label
    'laplacian_kernel'
    >>> KernelSet.fit([Custom(laplacian_kernel)], [[0.0], [1.0]]).stack().round(3)
    array([[[1.   , 0.368],
            [0.368, 1.   ]]], dtype=float32)
    """

    function: Callable[..., Values]

    kind: ClassVar[str] = "custom"
    family: ClassVar[str] = "custom"
    form: ClassVar[str] = "custom"
    check_psd: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """The function can be called."""
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(
                f"function of custom must be callable as function(X, Y), got "
                f"{self.function!r}; pass the function itself."
            )

    def resolve(
        self, values: Any, copies: Values, known: dict[Any, float] | None = None
    ) -> Kernel:
        """The kernel itself, if k(x, y) = k(y, x) on the first rows."""
        block = self.block(self.label, values[:SYMMETRY_ROWS], values[:SYMMETRY_ROWS])
        largest = float(np.abs(block).max(initial=0.0))
        gap = float(np.abs(block - block.T).max(initial=0.0))
        if gap > SYMMETRY_TOLERANCE * largest:
            raise ValueError(
                f"kernel {self.label!r} must be symmetric, got values that differ from "
                f"their mirror image by {gap / largest:.2g} of the largest; return "
                f"k(x, y) = k(y, x)."
            )
        return self

    def block(self, name: str, a: Values, b: Values) -> Values:
        """function(a, b), its shape and values checked; a copy that may be changed."""
        made: Any = self.function(a, b)
        made = np.array(made.toarray() if sp.issparse(made) else made, dtype=a.dtype)
        if made.shape != (len(a), len(b)):
            raise ValueError(
                f"kernel {name!r} must return shape {(len(a), len(b))} for tables of "
                f"{len(a)} and {len(b)} rows, got {made.shape}; return one value per "
                f"pair."
            )
        require_finite(made, name)
        return made

    def diagonal(self, name: str, values: Values) -> Values:
        """k(x, x), from the function's own ``diag`` or from small square blocks."""
        own = getattr(self.function, "diag", None)
        if callable(own):
            return np.asarray(own(values), dtype=np.float64)
        cuts = range(DIAGONAL_ROWS, len(values), DIAGONAL_ROWS)
        parts = [
            np.diagonal(self.block(name, part, part)).astype(np.float64)
            for part in np.split(values, cuts)
        ]
        return np.concatenate(parts)
