"""Kernels that come from outside: any function, given kernels, given distances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from manykernels.base.arrays import Values
from manykernels.kernels import bandwidth
from manykernels.kernels.base import Kernel, Normalize, callable_name, require_positive


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

    def validate(self) -> None:
        """The function can be called."""
        if not callable(self.function):
            raise TypeError(
                f"function of custom must be callable as function(X, Y), got "
                f"{self.function!r}; pass the function itself."
            )

    @property
    def title(self) -> str:
        """The function's own name."""
        return callable_name(self.function)


@dataclass(frozen=True, repr=False)
class Precomputed(Kernel):
    """A given kernel matrix, K[i, j] = k(x_i, x_j).

    ``columns=k`` picks matrix k of the given stack; without it there is one such kernel
    per matrix. The default normalization is "trace": rows of a new matrix hold
    k(x, x_j) for the training rows only, so k(x, x) of a new row is not known.

    Examples
    --------
    >>> from manykernels.kernels import KernelSet, Precomputed
    >>> KernelSet.fit([Precomputed()], [[4.0, 2.0], [2.0, 4.0]]).stack()
    array([[[1. , 0.5],
            [0.5, 1. ]]], dtype=float32)
    """

    normalize: Normalize = field(default="trace", kw_only=True)

    kind: ClassVar[str] = "precomputed"
    family: ClassVar[str] = "given"
    form: ClassVar[str] = "given"
    check_psd: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Distance(Kernel):
    r"""A given distance matrix, :math:`k(x_i, x_j) = \exp(-d_{ij} / scale)`.

    Parameters
    ----------
    scale : float or str
        Positive number; "mean" = mean distance over the pairs of different training
        rows; or a multiple, "2*mean".

    Examples
    --------
    >>> from manykernels.kernels import Distance, KernelSet
    >>> KernelSet.fit([Distance()], [[0.0, 2.0], [2.0, 0.0]]).stack().round(3)
    array([[[1.   , 0.368],
            [0.368, 1.   ]]], dtype=float32)
    """

    scale: float | str = "mean"

    kind: ClassVar[str] = "distance"
    family: ClassVar[str] = "given"
    form: ClassVar[str] = "given"
    nonnegative: ClassVar[bool] = True
    check_psd: ClassVar[bool] = True

    def validate(self) -> None:
        """Scale is positive or "mean"."""
        require_positive(self, "scale", ("mean",))

    def resolve(self, values: Any) -> Kernel:
        """Put a number in place of "mean"; `values` is the training matrix."""
        return replace(self, scale=bandwidth.mean_distance(self.scale, values))

    def apply(self, block: Values) -> Values:
        """exp(-block / scale)."""
        block *= -1.0 / float(self.scale)
        return np.exp(block, out=block)
