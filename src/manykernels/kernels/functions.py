"""Kernels on feature columns, each a formula with its parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import additive_chi2_kernel

from manykernels.base.arrays import Values
from manykernels.device.base import EXPONENTIAL
from manykernels.kernels.base import (
    VALUE_RTOL,
    InnerProductCurve,
    Kernel,
    Widths,
    inverse_variance,
    require_finite,
)
from manykernels.kernels.widths import (
    inverse,
    inverse_columns,
    inverse_median,
    low_distance,
    spread_rows,
)

CUSTOM_BLOCK_ROWS = 32  # in a call of a user's function for checks and k(x, x)


@dataclass(frozen=True, repr=False)
class Linear(Kernel):
    r"""Inner product, :math:`k(x, y) = x^\top y`.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([Linear(normalize=None)], [[1.0, 2.0], [3.0, 4.0]]).stack()
    array([[[ 5., 11.],
            [11., 25.]]], dtype=float32)
    """

    kind: ClassVar[str] = "linear"
    explicit: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = True

    def curve(self) -> InnerProductCurve:
        return InnerProductCurve(1.0, 0.0, 1)


@dataclass(frozen=True, repr=False)
class Cosine(Kernel):
    r"""Cosine of the angle, :math:`k(x, y) = x^\top y / (\|x\| \|y\|)`, 0 at x = 0.

    Examples
    --------
    >>> from manykernels.kernels import Cosine
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> float(KernelSet.fit([Cosine()], [[3.0, 4.0], [1.0, 0.0]]).stack()[0, 0, 1])
    0.6000000238418579
    """

    kind: ClassVar[str] = "cosine"
    form: ClassVar[str] = "cosine"
    unit_diagonal: ClassVar[bool] = True
    explicit: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = True

    def curve(self) -> InnerProductCurve:
        return InnerProductCurve(1.0, 0.0, 1)


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    r"""Polynomial, :math:`k(x, y) = (\gamma\, x^\top y + c_0)^{degree}`.

    Parameters
    ----------
    degree : int
        Positive whole number.
    gamma : float or str
        Positive number, or "scale" = 1 / (n_features * variance), or "0.1*scale".
    coef0 : float
        Not negative, as the kernel would not be positive semi-definite.

    Examples
    --------
    >>> from manykernels.kernels import Polynomial
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> kernels = KernelSet.fit([Polynomial(2, normalize=None)], [[1.0], [2.0]])
    >>> kernels.stack()
    array([[[ 4.,  9.],
            [ 9., 25.]]], dtype=float32)
    """

    degree: int = 3
    gamma: float | str = 1.0
    coef0: float = 1.0

    kind: ClassVar[str] = "polynomial"
    widths: ClassVar[Widths] = {"gamma": {"scale": inverse_variance}}
    random_map: ClassVar[str | None] = "sketch"
    accepts_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_degree(self, self.degree)
        number = isinstance(self.coef0, Real) and not isinstance(self.coef0, bool)
        # A power of <x, y> + c is a sum of powers with weights that c >= 0 keeps >= 0.
        if not number or not 0 <= self.coef0 < np.inf:
            raise ValueError(
                f"coef0 of polynomial must be a number >= 0, got {self.coef0!r}; a "
                f"negative one does not give a positive semi-definite kernel."
            )

    def apply(self, block: Values) -> Values:
        if self.gamma != 1.0:
            block *= float(self.gamma)
        if self.coef0 != 0.0:
            block += self.coef0
        return integer_power(block, self.degree)

    def curve(self) -> InnerProductCurve:
        return InnerProductCurve(float(self.gamma), float(self.coef0), self.degree)


@dataclass(frozen=True, repr=False)
class RBF(Kernel):
    r"""Gaussian, :math:`k(x, y) = \exp(-\gamma \|x - y\|^2)`.

    Parameters
    ----------
    gamma : float or str
        Positive number; "scale" = 1 / (n_features * variance); "median" = 1 / median
        squared distance on at most 1000 training rows; or a multiple, "0.1*scale".

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([RBF(0.5)], [[0.0], [1.0]]).stack().round(3)
    array([[[1.   , 0.607],
            [0.607, 1.   ]]], dtype=float32)
    """

    gamma: float | str = "scale"

    kind: ClassVar[str] = "rbf"
    widths: ClassVar[Widths] = {
        "gamma": {"scale": inverse_variance, "median": inverse_median("sqeuclidean")}
    }
    random_map: ClassVar[str | None] = "gaussian"
    form: ClassVar[str] = "squared_distance"
    unit_diagonal: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = True

    def apply(self, block: Values) -> Values:
        block *= -float(self.gamma)
        return np.exp(block, out=block)

    def curve(self) -> InnerProductCurve:
        # exp(-gamma ||x - y||^2): the squared norms are among l(x) and l(y).
        return InnerProductCurve(2.0 * float(self.gamma), 0.0, EXPONENTIAL)


@dataclass(frozen=True, repr=False)
class Laplacian(Kernel):
    r"""Laplacian, :math:`k(x, y) = \exp(-\gamma \|x - y\|_1)`.

    Parameters
    ----------
    gamma : float or str
        Positive number; "scale" = 1 / n_features; "median" = 1 / median L1 distance
        on at most 1000 training rows; or a multiple, "0.1*scale".

    Examples
    --------
    >>> from manykernels.kernels import Laplacian
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([Laplacian(1.0)], [[0.0], [1.0]]).stack().round(3)
    array([[[1.   , 0.368],
            [0.368, 1.   ]]], dtype=float32)
    """

    gamma: float | str = "scale"

    kind: ClassVar[str] = "laplacian"
    widths: ClassVar[Widths] = {
        "gamma": {"scale": inverse_columns, "median": inverse_median("cityblock")}
    }
    random_map: ClassVar[str | None] = "cauchy"
    family: ClassVar[str] = "manhattan"
    form: ClassVar[str] = "manhattan"
    unit_diagonal: ClassVar[bool] = True

    def apply(self, block: Values) -> Values:
        block *= -float(self.gamma)
        return np.exp(block, out=block)


def _inverse_mean_chi_squared(values: Any, copies: Values) -> float:
    """1 / mean chi-squared distance between different rows."""
    rows, copies = spread_rows(values, copies)
    total = -(copies @ additive_chi2_kernel(rows) @ copies)
    return inverse(float(total) / max(1.0, copies.sum() * (copies.sum() - 1.0)))


@dataclass(frozen=True, repr=False)
class ChiSquared(Kernel):
    r"""Exponential chi-squared, :math:`\exp(-\gamma \sum_d (x_d-y_d)^2/(x_d+y_d))`.

    Parameters
    ----------
    gamma : float or str
        Positive number; "mean" = 1 / mean chi-squared distance on at most 1000
        training rows; or a multiple, "0.1*mean".

    Examples
    --------
    >>> from manykernels.kernels import ChiSquared
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([ChiSquared(1.0)], [[0.0], [1.0]]).stack().round(3)
    array([[[1.   , 0.368],
            [0.368, 1.   ]]], dtype=float32)
    """

    gamma: float | str = "mean"

    kind: ClassVar[str] = "chi_squared"
    widths: ClassVar[Widths] = {"gamma": {"mean": _inverse_mean_chi_squared}}
    family: ClassVar[str] = "chi_squared"
    form: ClassVar[str] = "chi_squared"
    unit_diagonal: ClassVar[bool] = True
    nonnegative: ClassVar[bool] = True

    def apply(self, block: Values) -> Values:
        block *= -float(self.gamma)
        return np.exp(block, out=block)


@dataclass(frozen=True, repr=False)
class Intersection(Kernel):
    r"""Histogram intersection, :math:`k(x, y) = \sum_d \min(x_d, y_d)`, x, y >= 0.

    Examples
    --------
    >>> from manykernels.kernels import Intersection
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> X = [[1.0, 2.0], [3.0, 0.0]]
    >>> KernelSet.fit([Intersection(normalize=None)], X).stack()
    array([[[3., 1.],
            [1., 3.]]], dtype=float32)
    """

    kind: ClassVar[str] = "intersection"
    family: ClassVar[str] = "intersection"
    form: ClassVar[str] = "intersection"
    nonnegative: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class BSpline(Kernel):
    r"""Compact spline, :math:`k(x, y) = \max(0, 1 - \|x - y\| / width)^{degree}`.

    Rows further apart than ``width`` give exactly zero, so the matrix is sparse. It is
    positive semi-definite on one column; on d columns for sure only if
    ``degree >= d // 2 + 1``, and nearly so when few entries are non-zero. Fitting
    checks this as for given matrices; ``psd="skip"`` takes the kernel as it is.

    Parameters
    ----------
    width : float or str
        Positive number; "sparse" = the distance below which 5 % of the pairs of at most
        1000 training rows lie; or a multiple, "2*sparse".
    degree : int
        Positive whole number.

    Examples
    --------
    >>> from manykernels.kernels import BSpline
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([BSpline(2.0)], [[0.0], [1.0], [5.0]]).stack()
    array([[[1. , 0.5, 0. ],
            [0.5, 1. , 0. ],
            [0. , 0. , 1. ]]], dtype=float32)
    """

    width: float | str = "sparse"
    degree: int = 1

    kind: ClassVar[str] = "bspline"
    widths: ClassVar[Widths] = {"width": {"sparse": low_distance}}
    form: ClassVar[str] = "squared_distance"
    unit_diagonal: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = True
    compact: ClassVar[bool] = True
    check_psd: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_degree(self, self.degree)

    def apply(self, block: Values) -> Values:
        # `block` holds squared distances.
        np.sqrt(block, out=block)
        block *= -1.0 / float(self.width)
        block += 1.0
        np.maximum(block, 0.0, out=block)
        return integer_power(block, self.degree)


@dataclass(frozen=True, repr=False)
class Constant(Kernel):
    """The bias kernel, k(x, y) = 1.

    Examples
    --------
    >>> from manykernels.kernels import Constant
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([Constant()], [[3.0], [4.0]]).stack()
    array([[[1., 1.],
            [1., 1.]]], dtype=float32)
    """

    kind: ClassVar[str] = "constant"
    family: ClassVar[str] = "constant"
    form: ClassVar[str] = "constant"
    unit_diagonal: ClassVar[bool] = True
    explicit: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Custom(Kernel):
    """Any function of two tables, K = function(X, Y) with K[i, j] = k(x_i, y_j).

    k(x, x) comes from a ``diag(X)`` method of the function, which scikit-learn's
    Gaussian process kernels have, or else from small square blocks.

    Parameters
    ----------
    function : callable
        Takes arrays of shape (n, d) and (m, d), returns an array of shape (n, m).

    Examples
    --------
    >>> from sklearn.metrics.pairwise import laplacian_kernel
    >>> from manykernels.kernels import Custom
    >>> from manykernels.kernels.kernel_set import KernelSet
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
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(
                f"function of custom must be callable as function(X, Y), got "
                f"{self.function!r}; pass the function itself."
            )

    def resolve(
        self, values: Any, copies: Values, known: dict[Any, float] | None = None
    ) -> Kernel:
        first = values[:CUSTOM_BLOCK_ROWS]
        block = self.block(self.label, first, first)
        largest = float(np.abs(block).max(initial=0.0))
        # Solvers read a row as a column; an asymmetric function has no optimum.
        gap = float(np.abs(block - block.T).max(initial=0.0))
        if gap > 10.0 * VALUE_RTOL * largest:  # single precision, and sums of many
            raise ValueError(
                f"kernel {self.label!r} must be symmetric, got values that differ from "
                f"their mirror image by {gap / largest:.2g} of the largest; return "
                f"k(x, y) = k(y, x)."
            )
        return self

    def block(self, name: str, a: Values, b: Values) -> Values:
        """Return a copy of function(a, b), with its shape and values checked."""
        made: Any = self.function(a, b)
        # A copy: the function may return memory of its own, and values are scaled here.
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
        """Return k(x, x) in float64."""
        diag = getattr(self.function, "diag", None)
        if callable(diag):
            return np.asarray(diag(values), dtype=np.float64)
        cuts = range(CUSTOM_BLOCK_ROWS, len(values), CUSTOM_BLOCK_ROWS)
        parts = [
            np.diagonal(self.block(name, part, part)).astype(np.float64)
            for part in np.split(values, cuts)
        ]
        return np.concatenate(parts)


def integer_power(block: Values, degree: int) -> Values:
    """Raise a block to a power in place, by repeated squaring.

    >>> integer_power(np.array([2.0, 3.0]), 5)
    array([ 32., 243.])
    """
    if degree == 1:
        return block
    # x^(2k+1) = x (x^2)^k: about log2(degree) passes over the block.
    odd = block.copy() if degree % 2 else None
    integer_power(np.square(block, out=block), degree // 2)
    if odd is not None:
        block *= odd
    return block


def _require_degree(kernel: Kernel, degree: Any) -> None:
    if not isinstance(degree, Integral) or isinstance(degree, bool) or degree < 1:
        raise ValueError(
            f"degree of {kernel.kind} must be a whole number >= 1, got {degree!r}; "
            f"choose 1, 2, 3 or more."
        )
