"""Roles of columns: which column of a data file is what, and labels from cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.disk import TooLargeError
from manykernels.cli.errors import MOST_LISTED
from manykernels.kernels.columns import matching

_COLUMN_POSITION = re.compile(r"-?\d+", re.ASCII)
# Not 007: leading zeros belong to a name. At most what an integer of 64 bits holds.
_WHOLE_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,17})(\.0*)?", re.ASCII)
EVENT_WORDS = {"true": 1, "false": 0}


class TableError(ValueError):
    """A data file that cannot be read, or that lacks what was asked for."""


@dataclass(frozen=True)
class DataRows:
    """Rows with what belongs to them.

    Attributes
    ----------
    X : array or CSR of shape (n, d), or array of shape (n, n_train, n_kernels)
    names : list of str or None
        Names of the d columns.
    y, event, weight, group, index : array of shape (n,) or None
        Labels are text where the file has no types. With events, y are
        the times of these. The index names the rows.
    """

    X: Any
    names: list[str] | None = None
    y: Any = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    event: np.ndarray | None = None
    index: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def holds_kernels(self) -> bool:
        """Whether X holds kernel values instead of columns."""
        return len(self.X.shape) == 3

    def take(self, rows: np.ndarray) -> DataRows:
        """Return some of the rows."""
        parts: dict[str, Any] = {
            name: None if values is None else values[rows]
            for name, values in vars(self).items()
            if name != "names"
        }
        return replace(self, **parts)


@dataclass(frozen=True)
class ColumnPlan:
    """Positions of the columns of one file by their roles."""

    names: list[str] | None
    features: list[int]
    places: dict[str, int | None]  # by role: target, event, weight, group, index
    lenient: bool = False  # whether numbers may be missing

    @property
    def labels(self) -> set[int]:
        """Columns that need not be numbers."""
        roles = self.places.keys() - {"weight"}
        return {j for role in roles if (j := self.places[role]) is not None}

    @property
    def feature_names(self) -> list[str] | None:
        return None if self.names is None else self.titles(self.features)

    def titles(self, columns: Sequence[int]) -> list[str]:
        """Columns in an error message: names, or positions where there are none."""
        return [self.names[j] if self.names else str(j) for j in columns]


@dataclass(frozen=True)
class Roles:
    """Which column is what, by name or by position (from the end if negative).

    Attributes
    ----------
    target, weight, group, event, index : str or None
        With events, the target is their times. The index names the rows.
    drop : sequence of str
        Columns to leave out; patterns such as ``id*`` are fine.
    features : sequence of str or None
        Exactly these, in this order, where the file has names; all others otherwise.
    n_features : int or None
        How many there must be.
    lenient : bool
        Whether there may be no features at all, and numbers that are missing.

    Examples
    --------
    >>> roles = Roles(target="y", drop=["id"])
    >>> roles.plan(["id", "a", "y", "b"], 4).feature_names
    ['a', 'b']
    """

    target: str | None = None
    weight: str | None = None
    group: str | None = None
    drop: Sequence[str] = ()
    features: Sequence[str] | None = None
    n_features: int | None = None
    event: str | None = None
    index: str | None = None
    lenient: bool = False

    @property
    def columns(self) -> dict[str, str | None]:
        roles = ("target", "event", "weight", "group", "index")
        return {role: getattr(self, role) for role in roles}

    def require_apart(self, places: dict[str, Any]) -> None:
        """Raise if one column has two roles."""
        known: dict[Any, str] = {}
        for role, place in places.items():
            option = self.option(role)
            if place is not None and place in known:
                raise TableError(
                    f"expected a column of its own for --{option}, got that of "
                    f"--{known[place]}; name another, or leave one of the two out."
                )
            known[place] = option

    def option(self, role: str) -> str:
        """Name of the option for a role: with events, the target is their time."""
        return "time" if role == "target" and self.event is not None else role

    def wanted_names(self) -> set[str]:
        """Names by which a first line is known to be a header."""
        columns = self.columns.values()
        names = {
            name for name in columns if name and not _COLUMN_POSITION.fullmatch(name)
        }
        return names | set(self.features or ())

    def plan(self, names: list[str] | None, n_columns: int) -> ColumnPlan:
        """Return the position of every column; raise if one is missing."""
        twice = [name for name, n in Counter(names or ()).items() if name and n > 1]
        if twice:
            raise TableError(
                f"expected every column name once, got {twice[0]!r} twice; rename one."
            )
        columns = self.columns
        if self.index and names and not names[0] and self.index not in names:
            columns["index"] = "0"  # R writes no name above the names of rows
        places = {
            role: None if wanted is None else find_column(wanted, names, n_columns)
            for role, wanted in columns.items()
        }
        self.require_apart(places)
        if names is not None and self.features is not None:
            place = {name: j for j, name in enumerate(names)}
            missing = [name for name in self.features if name not in place]
            if missing:
                raise TableError(
                    f"expected all {len(self.features)} columns of the training data, "
                    f"got none named {listed(missing)}; add what is missing."
                )
            features = [place[name] for name in self.features]
        else:
            found = [j for d in self.drop for j in _find_all(d, names, n_columns)]
            others = {*found, *places.values()}
            features = [j for j in range(n_columns) if j not in others]
        self._check(features, names)
        return ColumnPlan(names, features, places, self.lenient)

    def _check(self, features: Sequence[int], names: list[str] | None) -> None:
        """Raise if there are no features, too many, or some without a name."""
        if not features and not self.lenient:
            raise TableError(
                "expected columns to learn from, got none beside the target and those "
                "left out; check --drop and --target."
            )
        self.require_count(len(features))
        for j in features:
            if names is not None and not names[j]:
                raise TableError(
                    f"expected a name for every column, got none for column {j} "
                    f"(counted from 0); name it, leave it out with --drop {j}, or name "
                    "rows by it with --index."
                )

    def require_count(self, found: int) -> None:
        """Raise if a file does not have as many columns as the training data."""
        if self.n_features is not None and found != self.n_features:
            raise TableError(
                f"expected {self.n_features} columns as in training, got {found}; "
                "leave out the others with --drop."
            )


def find_column(wanted: str, names: list[str] | None, n_columns: int) -> int:
    """Position of one column.

    Examples
    --------
    >>> find_column("b", ["a", "b"], 2), find_column("-1", None, 4)
    (1, 3)
    """
    if names is not None and wanted in names:
        return names.index(wanted)
    if _COLUMN_POSITION.fullmatch(wanted) and -n_columns <= int(wanted) < n_columns:
        return int(wanted) % n_columns
    if names is None:
        raise TableError(
            f"expected a column between 0 and {n_columns - 1}, got {wanted!r} for a "
            "file without column names; count from 0, or from -1 at the end."
        )
    close = get_close_matches(wanted, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "choose one of these."
    raise TableError(
        f"expected one of the columns {listed(names)}, got {wanted!r}; {hint}"
    )


def _find_all(wanted: str, names: list[str] | None, n_columns: int) -> list[int]:
    found = matching(wanted, names or [])
    return found or [find_column(wanted, names, n_columns)]


def as_labels(values: np.ndarray) -> np.ndarray:
    """Labels to learn: integers, booleans or text.

    Examples
    --------
    >>> as_labels(np.array(["1", "-1", "+1"], dtype=object))
    array([ 1, -1,  1])
    >>> as_labels(np.array(["1", "b"], dtype=object)).tolist()
    ['1', 'b']
    >>> as_labels(np.array([0.0, 2.0]))
    array([0, 2])
    """
    if values.dtype.kind in "bi":
        return values
    numeric = values.dtype.kind in "uf"
    if numeric and (values == np.floor(values)).all() and np.abs(values).max() < 2**63:
        return values.astype(np.int64)
    texts = [str(value) for value in values]
    # Labels become integers only if all of them are written as such: 007 is a name.
    odd = [text for text in texts if not _WHOLE_NUMBER.fullmatch(text)]
    if not odd and not numeric:
        return np.array([_to_int(text) for text in texts], dtype=np.int64)
    if numeric or all(is_number(t) and not re.fullmatch(r"[+-]?\d+", t) for t in texts):
        raise TableError(
            f"expected whole numbers or text as labels, got {(odd or texts)[0]!r}; "
            "name another column as --target, or put the values into classes."
        )
    return np.array(texts, dtype=object)


def as_values(values: np.ndarray) -> np.ndarray:
    """Numbers to predict.

    Examples
    --------
    >>> as_values(np.array(["1", "2.5"], dtype=object))
    array([1. , 2.5])
    """
    cells = values.tolist()
    numbers = np.array([float(v) if is_number(v) else np.nan for v in cells])
    odd = ~np.isfinite(numbers)
    if odd.any():
        row = int(np.argmax(odd))
        raise TableError(
            f"expected finite numbers to predict, got {str(values[row])!r} in row "
            f"{row + 1}; name another column as --target, or learn classes."
        )
    return numbers


def as_times(times: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Times with events, as scikit-learn's splitters and the estimator take them.

    Examples
    --------
    >>> as_times(np.array([2.5, 4.0]), np.array(["true", "0"], dtype=object)).tolist()
    [(True, 2.5), (False, 4.0)]
    """
    found = np.zeros(len(times), dtype=[("event", bool), ("time", float)])
    pairs = zip(times.tolist(), events.tolist(), strict=True)
    for row, (time, event) in enumerate(pairs):
        code = EVENT_WORDS.get(str(event).lower(), event)
        if not is_number(code) or float(code) not in (0.0, 1.0):
            raise TableError(
                "expected 1 or true for a row whose event was seen, 0 or false for one "
                f"that was not, got {str(event)!r} in row {row + 1}; name another "
                "column as --event, or code it so."
            )
        if not is_number(time) or not 0.0 < float(time) < np.inf:
            raise TableError(
                f"expected positive times, got {str(time)!r} in row {row + 1}; name "
                "another column as --time, or leave the row out."
            )
        found[row] = float(code) == 1.0, float(time)
    return found


def labels_like(values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Classes of a model by the labels in a file.

    Examples
    --------
    >>> labels_like(np.array(["2", "1"], dtype=object), np.array([1, 2]))
    array([2, 1])
    """
    # Files differ in how they write a number: 1, 1.0 and +1 are one class.
    place = {_key(label): k for k, label in enumerate(classes.tolist())}
    index = [place.get(_key(value), -1) for value in values.tolist()]
    if -1 in index:
        row = index.index(-1)
        raise TableError(
            f"expected labels that the model knows, {listed(classes.tolist())}, got "
            f"{str(values[row])!r} in row {row + 1}; leave such rows out."
        )
    return classes[np.array(index, dtype=np.intp)]


def is_number(cell: Any) -> bool:
    """Whether a cell is a number, or text that other programs would read as one."""
    if isinstance(cell, Real | Decimal):
        return True
    # Python reads 1_0 as ten, which no other program writes.
    if not isinstance(cell, str) or "_" in cell:
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _to_int(text: str) -> int:
    return int(text.partition(".")[0])


def _key(label: Any) -> str:
    """The same text for 1, 1.0 and "+1", and text as it is."""
    text = str(label)
    return str(_to_int(text)) if _WHOLE_NUMBER.fullmatch(text) else text


def listed(names: Sequence[Any]) -> str:
    """Names in an error message, not all of them if there are many."""
    more = len(names) - MOST_LISTED
    text = ", ".join(repr(str(name)) for name in names[:MOST_LISTED])
    return f"{text} and {more} more" if more > 0 else text


@contextmanager
def readable(
    expected: str, action: str = "copy the original, or name its format with --format"
) -> Iterator[None]:
    """Raise one sentence in place of what libraries raise for broken bytes."""
    try:
        yield
    except (TableError, TooLargeError):
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise TableError(
            f"expected {expected}, but it cannot be read ({why}); {action}."
        ) from error


def require_rows(n_rows: int) -> None:
    """Raise if a file has no rows."""
    if n_rows == 0:
        raise TableError(
            "expected at least one row of data, got none; check that the file is the "
            "one you meant."
        )


def require_finite(X: Any, names: Sequence[str] | None) -> None:
    """Raise if a table holds NaN or infinity, with the first such row and column."""
    if np.isfinite(X.data if sp.issparse(X) else X).all():
        return
    cells = sp.coo_matrix(X)
    bad = ~np.isfinite(cells.data)
    row, column, value = (v[bad][0] for v in (cells.row, cells.col, cells.data))
    title = repr(names[column]) if names else str(column)
    what = "a missing value" if np.isnan(value) else "infinity"
    raise TableError(
        f"expected a finite number in every cell, got {what} in row {row + 1} of "
        f"column {title}; fill it in, or leave out the row or the column."
    )


def require_entries(missing: np.ndarray, where: str) -> None:
    """Raise if a label, weight or group is missing, with the first such row."""
    if missing.any():
        raise TableError(
            f"expected an entry in every row of {where}, got none in row "
            f"{int(np.argmax(missing)) + 1}; fill it in or leave the row out."
        )
