"""What every kernel specification has in common: columns, name, options, widths."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.base.quoted import quoted
from manykernels.kernels.columns import (
    Columns,
    callable_name,
    escape,
    plain_columns,
    write_columns,
)

Normalize: TypeAlias = Literal["diagonal", "trace"] | None
Approximate: TypeAlias = Literal["nystroem", "random_features"] | None

# A number from the training values and how many copies each row stands for.
WidthRule: TypeAlias = Callable[[Any, Values], float]
# For every parameter that is a width, the words that it may be and their rules.
Widths: TypeAlias = Mapping[str, Mapping[str, WidthRule]]

SHARED_FIELDS = ("columns", "name", "normalize", "center", "approximate", "rank")
APPROXIMATIONS = ("nystroem", "random_features")
DEFAULT_RANK = 300  # columns of phi: their matrix costs less than one of kernel values
# A kernel in a text that reads given matrices has one of these first words.
READS_MATRICES = re.compile(r"(?:^|;)\s*(?:precomputed|distance)(?=[:@;(#\s]|$)", re.I)
# Of the largest value: asymmetry and negative eigenvalues up to this are rounding of
# matrices that were computed in single precision.
VALUE_RTOL = 1e-5
# The smallest number of a precision with all its digits, and the largest.
RANGES: dict[Any, tuple[float, float]] = {}
for _limits in (np.finfo(np.float32), np.finfo(np.float64)):
    RANGES[_limits.dtype] = float(_limits.tiny / _limits.eps), float(_limits.max)


class InnerProductCurve(NamedTuple):
    """f(t) = (slope t + offset) ** degree, or exp(slope t + offset) for degree 0."""

    slope: float
    offset: float
    degree: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Kernel:
    r"""A kernel on some columns, after centering and normalization.

    .. math::
        \bar k(x, y) = k(x, y) - \mu(x) - \mu(y) + \bar\mu, \qquad
        \hat k(x, y) = \bar k(x, y) / \sqrt{\bar k(x, x)\, \bar k(y, y)}

    with :math:`\mu(x)` the mean of :math:`k(x, x_j)` over the training rows.
    The first step is taken with ``center=True``, the second with
    ``normalize="diagonal"``.

    Parameters
    ----------
    columns : None, int, str, slice, sequence or callable
        Columns that the kernel reads: all, an index, a name or pattern (``*``, ``?``),
        a slice, several of these, a boolean mask, or a function of X that returns any
        of the former. Where X has views, their names stand for all their columns, and
        ``slice("view", what)`` for some.
    name : str, optional
        Display name; made from the parameters if not given.
    normalize : {"diagonal", "trace", None}
        Unit diagonal, unit mean training diagonal, or values left as they are.
    center : bool
        Center in feature space with the means of the training rows.
    approximate : {"nystroem", "random_features", None}
        Replace k by <phi(x), phi(y)> with few columns: landmarks drawn from the
        training rows, or random features where the kernel has them. Centering and
        normalization are then those of the approximate kernel.
    rank : int, optional
        Columns of phi, 300 if not given. Nyström takes at most one per different
        training row; random Fourier features come in pairs, so an odd rank is raised
        by one.

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> RBF(0.5, columns="pixel*")
    RBF(gamma=0.5, columns='pixel*')
    >>> RBF(0.5, columns="pixel*").label
    'rbf(gamma=0.5)@pixel*'
    """

    columns: Columns = None
    name: str | None = None
    normalize: Normalize = "diagonal"
    center: bool = False
    approximate: Approximate = None
    rank: int | None = None

    # The name in the text grammar.
    kind: ClassVar[str] = "kernel"
    # The pairwise quantity that kernels on the same columns can share.
    family: ClassVar[str] = "dot"
    # What `apply` receives, derived from that quantity.
    form: ClassVar[str] = "dot"
    # Positive parameters, and words that stand for a number from the training rows.
    widths: ClassVar[Widths] = {}
    unit_diagonal: ClassVar[bool] = False
    explicit: ClassVar[bool] = False
    # Random features: "gaussian" or "cauchy" frequencies, or a "sketch" of powers.
    random_map: ClassVar[str | None] = None
    compact: ClassVar[bool] = False
    nonnegative: ClassVar[bool] = False
    accepts_sparse: ClassVar[bool] = False
    check_psd: ClassVar[bool] = False
    # Of one kernel: k(x, y) = <phi(x), phi(y)> with a phi that can be written down.
    has_features: ClassVar[bool]

    def __post_init__(self) -> None:
        # Kernels are frozen, so that fits and sets can share them.
        object.__setattr__(self, "columns", plain_columns(self.columns))
        for key, value in vars(self).items():
            if isinstance(value, np.generic):
                object.__setattr__(self, key, value.item())
        if self.normalize not in ("diagonal", "trace", None):
            raise ValueError(
                f"normalize must be 'diagonal', 'trace' or None, got "
                f"{self.normalize!r}; choose one of these for {self.kind}."
            )
        if not isinstance(self.center, bool):
            raise ValueError(
                f"center must be True or False, got {self.center!r}; "
                f"choose one of these for {self.kind}."
            )
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(
                f"name must be a string or None, got {self.name!r}; "
                f"give {self.kind} a name in words."
            )
        if self.approximate is not None or self.rank is not None:
            _check_approximation(self)
        phi = self.explicit or self.approximate is not None
        object.__setattr__(self, "has_features", phi)
        for name, rules in self.widths.items():
            read_width(getattr(self, name), tuple(rules), f"{name} of {self.kind}")

    def resolve(
        self, values: Any, copies: Values, known: dict[Any, float] | None = None
    ) -> Kernel:
        """Return the kernel with numbers in place of words such as "scale".

        Parameters
        ----------
        values : array or CSR of shape (n, d)
            Training rows on the kernel's columns, or the given training matrix.
        copies : array of shape (n,)
            How many rows each row stands for.
        known : dict, optional
            Numbers computed for other kernels on the same rows; new ones are added.
        """
        known = {} if known is None else known
        numbers: dict[str, Any] = {}
        for name, rules in self.widths.items():
            factor, word = read_width(getattr(self, name), tuple(rules), name)
            if word is not None:
                rule = rules[word]
                # "0.1*median" and "10*median" need the same pairwise distances.
                if rule not in known:
                    with np.errstate(over="ignore", invalid="ignore"):
                        known[rule] = rule(values, copies)
                # So tiny that their inverse is infinite: any number will do.
                number = factor * known[rule]
                if not number > 0.0:  # so large that their squares are
                    raise out_of_range(self.label, np.float64, np.inf)
                numbers[name] = min(number, np.finfo(float).max)
        return replace(self, **numbers) if numbers else self

    def apply(self, block: Values) -> Values:
        """Turn a block of this kernel's `form` into kernel values, in place."""
        return block

    def curve(self) -> InnerProductCurve | None:
        """Return f with k(x, y) = s(x) s(y) f(<x, y> + l(x) + l(y)), if there is one.

        Such kernels are computed in one pass over a tile of inner products.
        """
        return None

    @property
    def label(self) -> str:
        """Readable name: ``name`` if given, else kind, parameters and columns.

        Kind, parameters and columns of a built-in kernel can be parsed again.
        """
        if self.name is not None:
            return self.name
        title, parts, where = self.kind, [], ""
        for key, value in self.settings().items():
            if key == "function":
                title = callable_name(value)
            elif key != "columns":
                parts.append(f"{key}={_shown(value)}")
            elif callable(value):
                where = f"@{callable_name(value)}"
            else:
                where = f"@{write_columns(value)}"
        return title + (f"({', '.join(parts)})" if parts else "") + where

    def settings(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, parameters first."""
        parameters: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for field in fields(self):
            value, default = getattr(self, field.name), field.default
            comparable = default is not MISSING and type(default) is type(value)
            if not (comparable and default == value):
                is_option = field.name in SHARED_FIELDS
                (options if is_option else parameters)[field.name] = value
        return parameters | options

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.settings().items())
        return f"{type(self).__name__}({inside})"


def _shown(value: Any) -> str:
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return escape(value) if isinstance(value, str) else repr(value)


def require_approximation(word: Any, rank: Any, what: str) -> None:
    """Raise unless a word names an approximation or is None, and a rank counts."""
    if word is not None and word not in APPROXIMATIONS:
        raise ValueError(
            "approximate must be 'nystroem', 'random_features' or None, got "
            f"{quoted(word)}; choose one of these for {what}."
        )
    whole = isinstance(rank, Integral) and not isinstance(rank, bool)
    if rank is not None and not (whole and rank >= 1):
        raise ValueError(
            f"rank of {what} must be a whole number >= 1, got {quoted(rank)}; choose "
            "for instance 300."
        )


def _check_approximation(kernel: Kernel) -> None:
    """Raise unless `approximate` and `rank` make sense for this kernel."""
    word, rank = kernel.approximate, kernel.rank
    require_approximation(word, rank, kernel.kind)
    if word is None:
        raise ValueError(
            f"rank of {kernel.kind} counts the columns of an approximation, got "
            f"rank={rank} without one; add approximate='nystroem' or leave rank out."
        )
    if kernel.family == "given":
        raise ValueError(
            f"approximate needs a kernel on feature columns, got {kernel.kind}, whose "
            f"values are given; leave approximate out."
        )
    # Only kernels that are the mean of products of random functions have such maps.
    if word == "random_features" and kernel.random_map is None:
        advice = "use approximate='nystroem'"
        if kernel.explicit:
            advice = "leave approximate out, its exact features are as good"
        raise ValueError(
            f"approximate='random_features' needs a kernel with random features, got "
            f"{kernel.kind}, which has none; {advice}."
        )


def reads_matrices(spec: Any) -> bool:
    """Return whether kernels read given kernel or distance matrices, not columns.

    Texts are searched and not parsed, as every prediction needs the answer.

    Examples
    --------
    >>> reads_matrices("precomputed"), reads_matrices(["rbf@0-13", "linear"])
    (True, False)
    """
    one = isinstance(spec, str | Kernel) or not isinstance(spec, Sequence)
    for item in [spec] if one else spec:
        if isinstance(item, Kernel) and item.family == "given":
            return True
        if isinstance(item, str) and READS_MATRICES.search(item):
            return True
    return False


def unique_names(labels: Sequence[str]) -> list[str]:
    """Return labels with "#2", "#3" added to repeated ones, before the columns.

    >>> unique_names(["rbf@a*", "linear", "rbf@a*"])
    ['rbf@a*', 'linear', 'rbf#2@a*']
    """
    # The number stands before "@": such a name is still a text that can be parsed.
    names: list[str] = []
    for label in labels:
        count, name = 1, label
        head, at, where = label.partition("@")
        while name in names:
            count += 1
            name = f"{head}#{count}{at}{where}"
        names.append(name)
    return names


def read_width(
    value: Any, words: tuple[str, ...], what: str
) -> tuple[float, str | None]:
    """Return the factor and the word of a number, of "scale", or of "0.1*scale".

    >>> read_width("0.1*scale", ("scale", "median"), "gamma of rbf")
    (0.1, 'scale')
    >>> read_width(0.5, ("scale", "median"), "gamma of rbf")
    (0.5, None)
    """
    factor, word = value, None
    if isinstance(value, str):
        number, star, word = value.rpartition("*")
        try:
            factor = float(number) if star else 1.0
        except ValueError:
            factor = np.nan
        word = word.strip()
    is_number = isinstance(factor, Real) and not isinstance(factor, bool)
    # A whole number may be too large for a float.
    in_range = is_number and 0 < factor <= np.finfo(float).max
    if not in_range or word not in (None, *words):
        raise ValueError(
            f"{what} must be a positive number, {' or '.join(map(repr, words))}, or a "
            f"multiple such as '0.1*{words[0]}', got {value!r}; choose one of these."
        )
    return factor, word


def inverse_variance(values: Any, copies: Values) -> float:
    """Return 1 / (n_features * variance over all entries), as scikit-learn's SVC."""
    n_columns = values.shape[1]
    shares = copies / (copies.sum() * n_columns)
    if sp.issparse(values):
        entries = values.tocoo()
        weights, data = shares[entries.coords[0]], entries.data.astype(np.float64)
        mean = weights @ data
        variance = weights @ np.square(data) - mean**2
    elif (copies == copies[0]).all():
        variance = np.var(values, dtype=np.float64)
    else:
        mean = shares @ values.sum(axis=1, dtype=np.float64)
        variance = shares @ np.square(values - mean).sum(axis=1, dtype=np.float64)
    return 1.0 / (n_columns * float(variance)) if variance > 0 else 1.0


def inverse_roots(squares: Values, floor: float = 0.0) -> Values:
    """Return 1 / sqrt(s), and 0 where s is not above the floor."""
    roots = np.sqrt(np.where(squares > floor, squares, 0.0))
    return np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)


def require_finite(block: Values, name: str) -> None:
    """Raise if a block of a given or custom kernel holds NaN or infinity."""
    if not np.isfinite(block).all():
        raise ValueError(
            f"kernel {name!r} must hold finite numbers, got NaN or infinity; correct "
            f"the kernel or its input."
        )


class OutOfRangeError(ValueError):
    """A precision cannot hold the values of a kernel."""


def require_range(values: Values, name: str, dtype: Any, family: str = "dot") -> None:
    """Raise if squares of rows, or k(x, x), leave the range of a precision."""
    least, most = RANGES[np.dtype(dtype)]
    # The smallest positive value matters as well: its digits are lost below the range.
    for value in (values.max(initial=0.0), values.min(where=values > 0.0, initial=1.0)):
        if not (least <= value <= most or value <= 0.0):
            raise out_of_range(name, dtype, value, family)


def out_of_range(
    name: str, dtype: Any, value: float, family: str = "dot"
) -> OutOfRangeError:
    """Return the error for a value that a precision cannot hold."""
    what = "values of X whose squares and products are"
    advice = "rescale its columns, for instance with a StandardScaler in a Pipeline"
    if family == "given":
        what, advice = "values", "multiply the matrix by a number"
    least, most = RANGES[np.dtype(dtype)]
    return OutOfRangeError(
        f"kernel {name!r} needs {what} between {least:.2g} and {most:.2g}, got "
        f"{value:.2g}; {advice}."
    )


def require_nonnegative(values: Values, name: str) -> None:
    """Raise if a kernel defined for values >= 0 gets others."""
    smallest = float(values.min()) if values.size else 0.0
    if smallest < 0:
        raise ValueError(
            f"kernel {name!r} needs values that are not negative, got {smallest:.4g}; "
            f"shift or rescale them, or choose another kernel."
        )
