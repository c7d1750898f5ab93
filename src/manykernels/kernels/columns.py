"""Column choices: indices, names, patterns, masks, slices or a selector function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import compress
from numbers import Integral
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np

from manykernels.base.arrays import Selection, Values
from manykernels.base.stored import Wholes

# How columns are written in texts, where names must not look like anything else. Whole
# numbers have at most 18 digits: they fit in 64 bits.
COLUMN_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)
INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
SPECIAL = re.compile(r"[%+@;:,=]")
# A wildcard or backslash that stands for itself; alone or with the characters that are
# written as codes in a name, or with all characters but wildcards.
ESCAPED = r"\\[*?\\]"
ESCAPED_OR_SPECIAL = re.compile(ESCAPED + "|" + SPECIAL.pattern)
PLAIN = re.compile(r"[^*?\\]", re.DOTALL)
ESCAPED_OR_PLAIN = re.compile(ESCAPED + "|" + PLAIN.pattern, re.DOTALL)
WILD = re.compile(r"[*?\\]")
TOKEN = re.compile(r"\\([*?\\])|([*?])|(.)", re.DOTALL)  # itself, wild, plain
WILDCARDS = {"*": ".*", "?": "."}

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


def plain_columns(columns: Any) -> Any:
    """Return lists and arrays as tuples of Python scalars, so that ``==`` works."""
    if columns is None or callable(columns) or isinstance(columns, str | slice):
        return columns
    if isinstance(columns, Integral) and not isinstance(columns, bool):
        return int(columns)
    if isinstance(columns, bool | np.bool_):
        raise TypeError(
            f"columns must be indices, names, a mask, a slice or a callable, got "
            f"{columns!r}; wrap a mask of one column in a list."
        )
    # Dataclasses compare fields with "==", which must be one truth value.
    try:
        items = columns.tolist() if hasattr(columns, "tolist") else list(columns)
    except TypeError:
        items = [columns]
    plain: list[Any] = []
    for item in items:
        if not isinstance(item, str | bool | np.bool_ | Integral):
            raise TypeError(
                f"columns must be indices, names, a mask, a slice or a callable, got "
                f"an element {item!r}; list whole numbers or names."
            )
        plain.append(item.item() if isinstance(item, np.generic) else item)
    return tuple(plain)


def select_columns(
    columns: Columns, X: Any, feature_names: Sequence[str] | None = None
) -> Selection:
    """Return the positions of the chosen columns of X.

    Parameters
    ----------
    columns : None, int, str, slice, sequence or callable
        All columns, an index, a name or pattern, a slice, several of these, a boolean
        mask, or a function that takes X and returns any of the former. In a pattern
        ``*`` stands for any characters and ``?`` for one; `exact` writes a name
        that has them. Where X has views, their names stand for all their columns, and
        ``slice("view", what)`` for some: a name or pattern, an index, or a range such
        as "0-13".
    X : array, sparse matrix, data frame or joined views, (n_samples, n_features)
        Only its shape, column names and views are read.
    feature_names : sequence of str, optional
        Names of the columns; taken from a data frame if not given.

    Returns
    -------
    ndarray of int, or slice

    Examples
    --------
    >>> X = np.zeros((2, 4))
    >>> select_columns("pixel*", X, ["pixel0", "pixel1", "age", "pixel2"])
    array([0, 1, 3])
    >>> select_columns(slice(0, 2), X)
    slice(0, 2, None)
    """
    chosen: Any = columns(X) if callable(columns) else columns
    if callable(chosen):
        raise TypeError(
            f"a column selector must return names or indices, got {chosen!r}; "
            f"return a list of columns."
        )
    names = getattr(X, "columns", None) if feature_names is None else feature_names
    n = int(X.shape[1])
    # Slices are kept: their columns are views of the table, not copies.
    if chosen is None:
        return slice(0, n)
    views: Mapping[str, range] = getattr(X, "views", {})
    if isinstance(chosen, slice):
        if chosen.start in views and isinstance(chosen.start, str):
            return _in_view(chosen, () if names is None else names, views)
        return _checked_slice(chosen, n, names)
    if isinstance(chosen, str) and chosen in views:
        return slice(views[chosen].start, views[chosen].stop)
    if isinstance(chosen, str | int | np.integer):
        chosen = (chosen,)
    items = chosen.tolist() if hasattr(chosen, "tolist") else list(chosen)
    if items and isinstance(items[0], bool | np.bool_):
        index = _from_mask(items, n)
    else:
        index = []
        for item in items:
            if isinstance(item, str):
                known = item in views
                index += views[item] if known else _from_name(item, names, views)
            elif isinstance(item, slice):
                index += range(n)[item]
            elif (
                isinstance(item, int | np.integer)
                and not isinstance(item, bool)
                and -n <= item < n
            ):
                index.append(int(item) % n)
            else:
                raise _not_a_position(item, n)
    # A kernel on no column would be constant without being called so.
    if len(index) == 0:
        raise ValueError(
            f"a kernel needs at least one column, got none from {chosen!r}; "
            f"check the column choice."
        )
    return np.asarray(index, dtype=np.intp)


def _not_a_position(item: Any, n: int) -> Exception:
    if isinstance(item, bool | np.bool_) or not isinstance(item, int | np.integer):
        return TypeError(
            f"columns must be all indices and names or all booleans, got {item!r} "
            f"among them; use one sort."
        )
    return ValueError(
        f"column index must be between {-n} and {n - 1}, got {item}; X has {n} columns."
    )


def _from_name(
    name: str, names: Sequence[str] | None, views: Mapping[str, range] | None = None
) -> list[int]:
    if names is None:
        raise ValueError(
            f"column {name!r} is a name but X has no column names; pass a data frame "
            f"or feature names, or use indices."
        )
    # Names become texts only now: kernels on positions must not wait for thousands.
    names = list(map(str, names))
    positions = matching(name, names)
    if not positions:
        close = get_close_matches(name, names, n=1, cutoff=0.0)
        hint = f"; the closest name is {close[0]!r}" if close else ""
        if views:
            raise ValueError(
                f"{name!r} is neither a view nor a column of one, and the views are "
                f"{', '.join(views)}{hint}."
            )
        raise ValueError(f"column {name!r} is not among the columns of X{hint}.")
    return positions


def matching(pattern: str, names: Sequence[str]) -> list[int]:
    r"""Return the positions of the names that a pattern matches.

    ``*`` stands for any characters and ``?`` for one; after a backslash they stand for
    themselves. No other character is special.

    Examples
    --------
    >>> matching("w[0]=*", ["w[0]=the", "w[0]=*", "w[1]=cat"])
    [0, 1]
    >>> matching(r"w[0]=\*", ["w[0]=the", "w[0]=*", "w[1]=cat"])
    [1]
    """
    if not WILD.search(pattern):
        return [names.index(pattern)] if pattern in names else []
    text = ""
    for itself, wild, plain in TOKEN.findall(pattern):
        text += WILDCARDS[wild] if wild else re.escape(itself or plain)
    matches = list(map(re.compile(text, re.DOTALL).fullmatch, names))
    return [*compress(range(len(names)), matches)]


def exact(name: str) -> str:
    r"""Return a pattern that matches this name only.

    Examples
    --------
    >>> print(exact("HLA-A*02"))
    HLA-A\*02
    """
    return re.sub(r"([*?\\])", r"\\\1", name)


def _in_view(
    columns: slice, names: Sequence[str], views: Mapping[str, range]
) -> Selection:
    view, what, span = columns.start, columns.stop, views[columns.start]
    if columns.step is not None:
        raise ValueError(
            f"columns of a view must be a name, an index or a range, got a step "
            f"{columns.step!r} for {view!r}; write for instance {view}:0-13."
        )
    if isinstance(what, str) and (ends := COLUMN_RANGE.fullmatch(what)):
        first, last = int(ends[1]), int(ends[2])
        what = slice(first, last + 1) if last < len(span) else last
    # Beyond its last column the positions are those of the next view.
    if isinstance(what, int) and not -len(span) <= what < len(span):
        raise ValueError(
            f"column index of the view {view!r} must be below {len(span)}, got {what}; "
            "count from 0."
        )
    if isinstance(what, str):
        named = _from_name(f"{exact(view)}:{what}", names, views)
        return np.asarray(named, dtype=np.intp)
    chosen = span if what is None else np.arange(span.start, span.stop)[what]
    return np.atleast_1d(np.asarray(chosen, dtype=np.intp))


def _from_mask(mask: Sequence[Any], n: int) -> list[int]:
    mixed = [item for item in mask if not isinstance(item, bool | np.bool_)]
    if mixed:
        raise TypeError(
            f"columns must be all indices and names or all booleans, got {mixed[0]!r} "
            f"among them; use one sort."
        )
    if len(mask) != n:
        raise ValueError(
            f"a column mask must have one entry per column ({n}), got {len(mask)}; "
            f"make them agree."
        )
    return np.flatnonzero(mask).tolist()


def _checked_slice(columns: slice, n: int, names: Sequence[str] | None) -> Selection:
    ends = {type(end) for end in (columns.start, columns.stop) if end is not None}
    if str in ends and len(ends) > 1:
        raise TypeError(
            f"a slice of columns must go from name to name or from index to index, got "
            f"{columns.start!r} to {columns.stop!r}; use one sort."
        )
    if str in ends:
        try:
            first, last = (
                None if end is None else _from_name(end, names)[0]
                for end in (columns.start, columns.stop)
            )
        except ValueError as error:
            hint = "a ':' inside a name is written %3A in the text of a kernel"
            raise ValueError(f"{str(error)[:-1]}; {hint}.") from None
        # As in pandas, a slice of names includes its last one.
        columns = slice(first, None if last is None else last + 1, columns.step)
    index = range(n)[columns]
    if len(index) == 0:
        raise ValueError(
            f"a kernel needs at least one column, got none from {columns!r} of {n} "
            f"columns; check the column choice."
        )
    if index.step < 0:
        return np.asarray(index, dtype=np.intp)
    return slice(index.start, index.stop, None if index.step == 1 else index.step)


def as_table(X: Any) -> Any:
    """Return X with two dimensions: array, sparse matrix or data frame as it is."""
    table = X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) != 2:
        raise ValueError(
            f"kernels on feature columns need X of shape (n_samples, n_features), got "
            f"{len(table.shape)} dimensions; use Precomputed for a stack of kernels."
        )
    return table


def row_factors(X: Any, columns: Selection, family: str) -> Values | None:
    """Return what multiplies the rows in kernels of a family on some columns.

    Only tables of views have such factors, for rows that lack a view; a constant
    reads no column.
    """
    if family == "constant" or not hasattr(X, "factors"):
        return None
    factors: Values | None = X.factors(columns)
    return factors


def count_columns(columns: Selection, n_columns: int) -> int:
    """Count chosen columns; a file may claim any number of them."""
    if isinstance(columns, slice):
        return len(range(n_columns)[columns])
    Wholes(None, low=0, below=n_columns).check("columns of a kernel", columns, {})
    return len(columns)


def write_columns(columns: Any) -> str:
    """Return a column choice as text: ``3``, ``0-13+28-41``, ``pixel*``.

    :func:`parse_kernel` reads it back; a mask is written as the columns that it picks.
    """
    if callable(columns):
        raise ValueError(
            f"a column selector function cannot be written as text, got {columns!r}; "
            f"use names or indices."
        )
    if isinstance(columns, slice):
        ends = [columns.start, columns.stop]
        ends += [] if columns.step is None else [columns.step]
        return ":".join("" if end is None else write_columns(end) for end in ends)
    if isinstance(columns, tuple):
        if columns and isinstance(columns[0], bool):
            columns = np.flatnonzero(columns).tolist()
        runs: list[list[Any]] = []  # consecutive columns are written as a range
        for item in columns:
            last = runs[-1][1] if runs else None
            if isinstance(item, int) and isinstance(last, int) and 0 < item == last + 1:
                runs[-1][1] = item
            else:
                runs.append([item, item])
        parts: list[str] = []
        for first, last in runs:
            parts.append(write_columns(first) if first == last else f"{first}-{last}")
        return "+".join(parts)
    if not isinstance(columns, str):
        return str(columns)
    # A column named "3" is not the column at position 3.
    is_number = INTEGER.fullmatch(columns) or COLUMN_RANGE.fullmatch(columns)
    everything = is_number or columns != columns.strip()
    unsafe = ESCAPED_OR_PLAIN if everything else ESCAPED_OR_SPECIAL
    return unsafe.sub(_percent_code, columns)


def escape(text: str) -> str:
    """Return a text with special characters as %XX, all if it begins with a space."""
    unsafe = PLAIN if text != text.strip() else SPECIAL
    return unsafe.sub(_percent_code, text)


def _percent_code(found: re.Match[str]) -> str:
    # Of a wildcard after a backslash only the wildcard remains.
    return "".join(f"%{byte:02X}" for byte in found[0][-1].encode())


def unescape(text: str) -> str:
    r"""Return a column as before :func:`write_columns`: %2A is a star, no wildcard.

    Examples
    --------
    >>> print(unescape("word%3D*"), unescape("word%3D%2A"))
    word=* word=\*
    """
    kept = re.sub("%(2A|3F|5C)", lambda code: "\\" + unquote(code[0]), text, flags=re.I)
    return unquote(kept)


def callable_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, looking through ``functools.partial``."""
    inner = getattr(function, "func", function)
    return getattr(inner, "__name__", type(inner).__name__)
