"""What every kernel specification has in common: columns, name, normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from manykernels.base.arrays import Values

Columns: TypeAlias = (
    None
    | int
    | str
    | slice
    | Sequence[int]
    | Sequence[str]
    | Values
    | Callable[..., Any]
)
Normalize: TypeAlias = Literal["diagonal", "trace"] | None
Approximate: TypeAlias = Literal["nystroem", "random_features"] | None

SHARED_FIELDS = ("columns", "name", "normalize", "center", "approximate", "rank")
APPROXIMATIONS = ("nystroem", "random_features")
DEFAULT_RANK = 300


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
        Which columns the kernel reads; see :func:`select_columns`.
    name : str, optional
        Display name; made from the parameters if not given.
    normalize : {"diagonal", "trace", None}
        Unit diagonal, unit mean training diagonal, or values left as they are.
    center : bool
        Center in feature space with the means of the training rows.
    approximate : {"nystroem", "random_features", None}
        Replace k by <phi(x), phi(y)> with few columns: landmarks drawn from the
        training rows, or random features where the kernel has them. Centering and
        normalization then speak of the approximate kernel.
    rank : int, optional
        Columns of phi, 300 if not given. Nyström takes at most one per training row;
        random Fourier features come in pairs, so an odd rank is raised by one.

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
    unit_diagonal: ClassVar[bool] = False
    explicit: ClassVar[bool] = False
    # Random features: "gaussian" or "cauchy" frequencies, or a "sketch" of powers.
    random_map: ClassVar[str | None] = None
    compact: ClassVar[bool] = False
    nonnegative: ClassVar[bool] = False
    accepts_sparse: ClassVar[bool] = False
    check_psd: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Validate shared options and make ``columns`` comparable."""
        object.__setattr__(self, "columns", _plain_columns(self.columns))
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
        _check_approximation(self)
        self.validate()

    def validate(self) -> None:
        """Check the ranges of the kernel's own parameters."""

    def resolve(self, values: Any) -> Kernel:
        """Return the same kernel with numbers in place of data-driven settings."""
        return self

    def apply(self, block: Values) -> Values:
        """Turn a block of this kernel's `form` into kernel values, in place."""
        return block

    def diagonal_of(self, squares: Values) -> Values:
        """k(x, x) from the diagonal of this kernel's `form`, float64."""
        return self.apply(np.array(squares, dtype=np.float64))

    @property
    def has_features(self) -> bool:
        """Whether k(x, y) = <phi(x), phi(y)> with a phi that can be written down."""
        return self.explicit or self.approximate is not None

    @property
    def label(self) -> str:
        """Readable name: ``name`` if given, else kind, parameters and columns."""
        if self.name is not None:
            return self.name
        inside = ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in self.settings().items()
            if key not in ("columns", "name", "function")
        )
        where = "" if self.columns is None else f"@{describe_columns(self.columns)}"
        return self.title + (f"({inside})" if inside else "") + where

    @property
    def title(self) -> str:
        """The first word of the automatic label."""
        return self.kind

    def settings(self) -> dict[str, Any]:
        """Fields that differ from their defaults, own parameters first."""
        own = sorted(fields(self), key=lambda field: field.name in SHARED_FIELDS)
        values = {field.name: getattr(self, field.name) for field in own}
        return {
            field.name: values[field.name]
            for field in own
            if not _is_default(field, values[field.name])
        }

    def __repr__(self) -> str:
        """Show only what differs from the defaults."""
        inside = ", ".join(f"{k}={v!r}" for k, v in self.settings().items())
        return f"{type(self).__name__}({inside})"


def describe_columns(columns: Columns) -> str:
    """Short text for a column choice: ``3``, ``0-13+28-41``, ``pixel*``."""
    if callable(columns):
        return callable_name(columns)
    if isinstance(columns, tuple):
        parts = column_parts(columns)
        return "+".join(parts if len(parts) <= 4 else [*parts[:3], "..."])
    return column_parts((columns,))[0]


def column_parts(columns: Sequence[Any]) -> list[str]:
    """Text of each element, with runs of two or more indices as ``first-last``."""
    if columns and all(isinstance(item, bool) for item in columns):
        columns = [i for i, kept in enumerate(columns) if kept]
    parts: list[str] = []
    runs: list[list[int]] = []
    for item in columns:
        if isinstance(item, int) and runs and item == runs[-1][1] + 1 and item > 0:
            runs[-1][1] = item
            parts[-1] = f"{runs[-1][0]}-{item}"
        elif isinstance(item, int):
            runs.append([item, item])
            parts.append(str(item))
        else:
            runs.clear()
            parts.append(_slice_text(item) if isinstance(item, slice) else str(item))
    return parts


def require_positive(kernel: Kernel, name: str, words: tuple[str, ...] = ()) -> None:
    """Raise unless a parameter is a positive finite number or an allowed word."""
    value = getattr(kernel, name)
    if isinstance(value, str) and words:
        split_factor(value, words, f"{kernel.kind} {name}")
        return
    # A whole number may be too large for a float.
    if not is_number(value) or not 0 < value <= np.finfo(float).max:
        choice = "".join(f", '{word}'" for word in words)
        raise ValueError(
            f"{name} of {kernel.kind} must be a positive number{choice}, got "
            f"{value!r}; choose a value in that range."
        )


def split_factor(text: str, words: tuple[str, ...], what: str) -> tuple[float, str]:
    """Read ``"scale"`` or ``"0.1*scale"`` as a factor and a word.

    >>> split_factor("0.1*scale", ("scale", "median"), "rbf gamma")
    (0.1, 'scale')
    """
    number, _, word = text.rpartition("*")
    try:
        factor = float(number) if number else 1.0
    except ValueError:
        factor = np.nan
    if word.strip() not in words or not 0 < factor < np.inf or text.startswith("*"):
        raise ValueError(
            f"{what} must be a positive number, {' or '.join(map(repr, words))}, or a "
            f"multiple such as '0.1*{words[0]}', got {text!r}; correct its spelling."
        )
    return factor, word.strip()


def is_number(value: Any) -> bool:
    """Whether a value is a real number (and not a boolean)."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def require_approximation(word: Any, what: str) -> None:
    """Raise unless a word names an approximation or is None."""
    if word is not None and word not in APPROXIMATIONS:
        raise ValueError(
            f"approximate must be 'nystroem', 'random_features' or None, got {word!r}; "
            f"choose one of these for {what}."
        )


def _check_approximation(kernel: Kernel) -> None:
    """Raise unless `approximate` and `rank` make sense for this kernel."""
    word, rank = kernel.approximate, kernel.rank
    require_approximation(word, kernel.kind)
    require_rank(rank, kernel.kind)
    if word is None and rank is not None:
        raise ValueError(
            f"rank of {kernel.kind} counts the columns of an approximation, got "
            f"rank={rank} without one; add approximate='nystroem' or leave rank out."
        )
    if word is not None and kernel.family == "given":
        raise ValueError(
            f"approximate needs a kernel on feature columns, got {kernel.kind}, whose "
            f"values are given; leave approximate out."
        )
    if word == "random_features" and kernel.random_map is None:
        advice = "use approximate='nystroem'"
        if kernel.explicit:
            advice = "leave approximate out, its exact features are as good"
        raise ValueError(
            f"approximate='random_features' needs a kernel with random features, got "
            f"{kernel.kind}, which has none; {advice}."
        )


def require_rank(rank: Any, what: str) -> None:
    """Raise unless a rank is None or a whole number of at least 1."""
    whole = isinstance(rank, Integral) and not isinstance(rank, bool)
    if rank is not None and not (whole and rank >= 1):
        raise ValueError(
            f"rank of {what} must be a whole number >= 1, got {rank!r}; choose for "
            f"instance 300."
        )


def _plain_columns(columns: Any) -> Any:
    """Lists and arrays as tuples of Python scalars, so that ``==`` works."""
    if columns is None or callable(columns) or isinstance(columns, str | slice):
        return columns
    if isinstance(columns, bool | np.bool_):
        raise TypeError(
            f"columns must be indices, names, a mask, a slice or a callable, got "
            f"{columns!r}; wrap a mask of one column in a list."
        )
    if isinstance(columns, Integral):
        return int(columns)
    try:
        items = columns.tolist() if hasattr(columns, "tolist") else list(columns)
    except TypeError:
        items = [columns]
    return tuple(_plain_item(item) for item in items)


def _plain_item(item: Any) -> Any:
    if isinstance(item, str):
        return str(item)
    if isinstance(item, bool | np.bool_):
        return bool(item)
    if isinstance(item, Integral):
        return int(item)
    raise TypeError(
        f"columns must be indices, names, a mask, a slice or a callable, got an "
        f"element {item!r}; list whole numbers or names."
    )


def _slice_text(item: slice) -> str:
    ends = ["" if end is None else str(end) for end in (item.start, item.stop)]
    step = [] if item.step is None else [str(item.step)]
    return ":".join(ends + step)


def _is_default(field: Field[Any], value: Any) -> bool:
    default = field.default
    return default is not MISSING and type(default) is type(value) and default == value


def callable_name(function: Callable[..., Any]) -> str:
    """Name of a function, looking through ``functools.partial``."""
    inner = getattr(function, "func", function)
    return getattr(inner, "__name__", type(inner).__name__)
