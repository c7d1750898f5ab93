"""Kernels as short texts, ``kind[:param=value[,param=value...]][@columns]``.

Names of kernels, ``kind[(param=value, ...)][#2][@columns]``, are such texts as well.
`as_kernels` reads every other description of kernels too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote

from manykernels.base.quoted import quoted
from manykernels.kernels.base import SHARED_FIELDS, Kernel, require_approximation
from manykernels.kernels.columns import (
    COLUMN_RANGE,
    INTEGER,
    Columns,
    escape,
    unescape,
    write_columns,
)
from manykernels.kernels.functions import (
    RBF,
    BSpline,
    ChiSquared,
    Constant,
    Cosine,
    Custom,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
)
from manykernels.kernels.matrices import Distance, Precomputed

BUILT_IN_KERNELS: dict[str, type[Kernel]] = {
    cls.kind: cls
    for cls in (
        Linear,
        Polynomial,
        RBF,
        Laplacian,
        ChiSquared,
        Intersection,
        Cosine,
        BSpline,
        Constant,
        Distance,
        Precomputed,
    )
}
ALIASES = {"poly": "polynomial", "gaussian": "rbf", "chi2": "chi_squared"}

# Kind, brackets, parameters; "#2" is the number of a copy.
_NAME = re.compile(r"([^:(#]+)(?:(\()(.*)\))?(?:#\d+)?\s*", re.DOTALL)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MAX_RANGE_COLUMNS = 10_000_000  # a typing error must not cost all the memory
PARAMETER_WORDS = {"none": None, "true": True, "false": False}


def default_kernels() -> list[Kernel]:
    """Return linear, quadratic, and Gaussian kernels at 0.1, 1, 10 times scale.

    >>> [kernel.label for kernel in default_kernels()][:2]
    ['linear', 'polynomial(degree=2, gamma=scale)']
    """
    return [
        Linear(),
        Polynomial(2, gamma="scale"),
        RBF("0.1*scale"),
        RBF("scale"),
        RBF("10*scale"),
    ]


VIEW_WIDTHS = ("0.0625*median", "0.25*median", "median", "4*median", "16*median")


def view_kernels(view: str) -> list[Kernel]:
    """Return the default kernels of a view: linear, and Gaussian ones of five widths.

    >>> [kernel.label for kernel in view_kernels("mrna")][:2]
    ['linear@mrna', 'rbf(gamma=0.0625*median)@mrna']
    """
    return [Linear(columns=view), *(RBF(gamma, columns=view) for gamma in VIEW_WIDTHS)]


def as_kernels(spec: Any = None) -> list[Kernel]:
    """Return a list of kernels from any accepted description.

    Parameters
    ----------
    spec : None, Kernel, str, callable or sequence of these
        None for :func:`default_kernels`; a string holds one kernel or several
        separated by ";" (see :func:`parse_kernel`); a callable k(X, Y) is wrapped in
        Custom; "precomputed" stands for every matrix of a given stack.

    Examples
    --------
    >>> as_kernels("linear; rbf:gamma=0.5@0-13")[0]
    Linear()
    >>> as_kernels("precomputed")
    [Precomputed()]
    """
    if spec is None:
        return default_kernels()
    # Texts are sequences too.
    several = isinstance(spec, Sequence) and not isinstance(spec, str)
    kernels: list[Kernel] = []
    for item in spec if several else [spec]:
        if isinstance(item, Kernel):
            kernels.append(item)
        elif isinstance(item, str):
            kernels += map(parse_kernel, filter(str.strip, item.split(";")))
        elif isinstance(item, type) and issubclass(item, Kernel):
            raise TypeError(
                f"expected a kernel, got the class {item.__name__}; write "
                f"{item.__name__}() with brackets."
            )
        elif callable(item):
            kernels.append(Custom(item))
        else:
            raise TypeError(
                f"expected a kernel, a string or a callable, got {quoted(item)}; see "
                f"manykernels.kernels for what there is."
            )
    if not kernels:
        raise ValueError(
            "expected at least one kernel, got an empty list; name one, or pass None "
            "for the default kernels."
        )
    return kernels


def approximate_kernels(
    kernels: Sequence[Kernel], approximate: Any, rank: int | None = None
) -> list[Kernel]:
    """Approximate every kernel that has no approximation or explicit features yet.

    Parameters
    ----------
    kernels : sequence of Kernel
    approximate : {"nystroem", "random_features", None}
    rank : int, optional

    Examples
    --------
    >>> approximate_kernels([Linear(), RBF(0.5)], "nystroem", 100)
    [Linear(), RBF(gamma=0.5, approximate='nystroem', rank=100)]
    """
    require_approximation(approximate, rank, "all kernels")
    if approximate is None:
        return list(kernels)
    options = {"approximate": approximate, "rank": rank}
    return [k if k.has_features else replace(k, **options) for k in kernels]


def parse_kernel(text: str) -> Kernel:
    """Read one kernel from a text.

    Columns are a name or pattern, an index ``3``, an inclusive range ``0-13``, a slice
    ``0:14``, or several joined by ``+``. Special characters inside names are written
    as %XX, as in web addresses: ``%2B`` for +, ``%3A`` for :, and ``%2A`` for a star
    that is no wildcard.

    Examples
    --------
    >>> parse_kernel("rbf:gamma=0.5@pixel*")
    RBF(gamma=0.5, columns='pixel*')
    >>> parse_kernel("polynomial:degree=2,center=true@0-2+5")
    Polynomial(degree=2, columns=(0, 1, 2, 5), center=True)

    The names that fitted kernels get by default are such texts too:

    >>> parse_kernel("rbf(gamma=0.1*scale)#2@b_*")
    RBF(gamma='0.1*scale', columns='b_*')
    """
    # A name of a fitted kernel has its parameters in brackets, a text behind ":".
    head, at, where = text.strip().partition("@")
    parts = _NAME.fullmatch(head)
    kind, _, options = head.partition(":") if parts is None else parts.groups("")
    name = ALIASES.get(kind.strip().lower(), kind.strip().lower())
    if name not in BUILT_IN_KERNELS:
        close = get_close_matches(name, BUILT_IN_KERNELS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "choose one of these."
        raise ValueError(
            f"kernel kind must be one of {', '.join(BUILT_IN_KERNELS)}, got "
            f"{quoted(kind.strip())}; {hint}"
        )
    cls = BUILT_IN_KERNELS[name]
    settings = _parse_options(cls, options) if options.strip() else {}
    if at:
        settings["columns"] = _parse_columns(where, text)
    return cls(**settings)


def format_kernel(kernel: Kernel) -> str:
    """Write a kernel so that :func:`parse_kernel` reads it back.

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> format_kernel(RBF("0.1*scale", columns=[0, 1, 2], normalize=None))
    'rbf:gamma=0.1*scale,normalize=none@0-2'
    """
    if BUILT_IN_KERNELS.get(kernel.kind) is not type(kernel):
        raise ValueError(
            f"only built-in kernels can be written as text, got {quoted(kernel)}; keep "
            f"the object itself."
        )
    settings = kernel.settings()
    columns = settings.pop("columns", None)
    options = ",".join(f"{key}={_format_value(v)}" for key, v in settings.items())
    where = "" if columns is None else write_columns(columns)
    # "3" alone is a single index, which is not equal to a list of one.
    if isinstance(columns, tuple) and where.isdigit():
        where = f"{where}-{where}"  # to be read back as a list of one
    return kernel.kind + (f":{options}" if options else "") + (where and f"@{where}")


def _parse_options(cls: type[Kernel], options: str) -> dict[str, Any]:
    known = [f.name for f in fields(cls) if f.name not in SHARED_FIELDS]
    known += [name for name in SHARED_FIELDS if name != "columns"]
    settings: dict[str, Any] = {}
    for option in options.split(","):
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in known or not equals:
            raise ValueError(
                f"parameters of {cls.kind} are {', '.join(known)}, written as "
                f"name=value, got {quoted(option.strip())}; choose among these."
            )
        if key in settings:
            raise ValueError(
                f"each parameter may come once, got {key!r} twice; leave one out."
            )
        settings[key] = unquote(value) if key == "name" else _parse_value(value)
    return settings


def _parse_value(value: str) -> Any:
    if value.lower() in PARAMETER_WORDS:
        return PARAMETER_WORDS[value.lower()]
    if INTEGER.fullmatch(value):
        return int(value)
    return float(value) if _FLOAT.fullmatch(value) else unquote(value)


def _parse_columns(where: str, text: str) -> Columns:
    columns: list[Any] = []
    parts = list(map(str.strip, where.split("+")))
    if not all(parts):
        raise ValueError(
            f"columns must follow '@' and each '+', got {quoted(text)}; write for "
            f"instance rbf@0-13 or rbf@age+pixel*, and a '+' inside a name as %2B."
        )
    for part in parts:
        if INTEGER.fullmatch(part):
            columns.append(int(part))
        elif ends := COLUMN_RANGE.fullmatch(part):
            first, last = int(ends[1]), int(ends[2])
            if last < first:
                raise ValueError(
                    f"a range of columns must go upwards, got {quoted(part)} in "
                    f"{quoted(text)}; write {last}-{first}."
                )
            if last - first >= MAX_RANGE_COLUMNS:
                raise ValueError(
                    f"a range of columns must hold at most {MAX_RANGE_COLUMNS}, got "
                    f"{quoted(part)} in {quoted(text)}; correct it, or write a slice "
                    "such as 0:14."
                )
            columns += range(first, last + 1)
        else:
            columns.append(_parse_slice(part, text) if ":" in part else unescape(part))
    if len(parts) == len(columns) == 1 and not COLUMN_RANGE.fullmatch(parts[0]):
        return columns[0]  # type: ignore[no-any-return]
    for k, column in enumerate(columns):
        # A slice of names among others is a column of a view: "mrna:age+mrna:dose".
        if isinstance(column, slice):
            named = column.start, column.stop
            if column.step is not None or {*map(type, named)} != {str}:
                raise ValueError(
                    f"a slice of columns must stand alone, got {quoted(text)}; write a "
                    "range such as 0-13 to join it with others, and ':' and '+' inside "
                    "a name as %3A and %2B."
                )
            columns[k] = ":".join(named)
    return tuple(columns)


def _parse_slice(part: str, text: str) -> slice:
    """Read numbers as Python does; a slice of names includes its last one."""
    ends: list[Any] = []
    for end in map(str.strip, part.split(":")):
        name = unescape(end) or None  # an end may be left out
        ends.append(int(end) if INTEGER.fullmatch(end) else name)
    if len(ends) > 3 or (len(ends) == 3 and (ends[2] == 0 or type(ends[2]) is str)):
        raise ValueError(
            f"a slice of columns must be first:last or first:last:step with a step "
            f"other than 0, got {quoted(part)} in {quoted(text)}; write for instance "
            "0:14."
        )
    return slice(*ends)


def _format_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return escape(value) if isinstance(value, str) else repr(value)
