"""What a data file means: which column is what, and the rows that come out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import scipy.sparse as sp

_POSITION = re.compile(r"-?\d+", re.ASCII)
MOST_NAMES = 8  # listed in an error


class TableError(ValueError):
    """A data file that cannot be read, or that lacks what was asked for."""


@dataclass(frozen=True)
class Sample:
    """Rows with what belongs to them.

    Attributes
    ----------
    X : array or CSR of shape (n, d), or array of shape (n, n_train, n_kernels)
    names : list of str or None
        Names of the d columns.
    y, weight, group : array of shape (n,) or None
        Labels are text where the file does not say what they are.
    """

    X: Any
    names: list[str] | None = None
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None

    def __len__(self) -> int:
        """Count the rows."""
        return int(self.X.shape[0])

    @property
    def given(self) -> bool:
        """Whether X holds kernel values instead of columns."""
        return len(self.X.shape) == 3

    def take(self, rows: np.ndarray) -> Sample:
        """Return the chosen rows."""
        by_row = {"y": self.y, "weight": self.weight, "group": self.group}
        chosen = {role: v if v is None else v[rows] for role, v in by_row.items()}
        return replace(self, X=self.X[rows], **chosen)


@dataclass(frozen=True)
class Plan:
    """Positions of the columns of one file."""

    names: list[str] | None
    features: list[int]
    target: int | None = None
    weight: int | None = None
    group: int | None = None

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, in their order."""
        return None if self.names is None else [self.names[j] for j in self.features]

    def titles(self, columns: Sequence[int]) -> list[str]:
        """Columns in an error message: names, or positions where there are none."""
        return [self.names[j] if self.names else str(j) for j in columns]


@dataclass(frozen=True)
class Roles:
    """Which column is what, by name or by position (from the end if negative).

    Attributes
    ----------
    target, weight, group : str or None
    drop : sequence of str
        Columns to leave out; globs such as ``id*`` are fine.
    features : sequence of str or None
        Exactly these, in this order, where the file has names; all others otherwise.
    n_features : int or None
        How many there must be.

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

    def asked(self) -> set[str]:
        """Names that a header must hold to be one; positions say nothing."""
        single = [self.target, self.weight, self.group]
        names = {name for name in single if name and not _POSITION.fullmatch(name)}
        return names | set(self.features or ())

    def plan(self, names: list[str] | None, n_columns: int) -> Plan:
        """Find every column, or say which is missing."""
        _require_different(names or [])
        target, weight, group = (
            None if wanted is None else find_column(wanted, names, n_columns)
            for wanted in (self.target, self.weight, self.group)
        )
        if names is not None and self.features is not None:
            features = _by_name(self.features, names)
        else:
            others = {j for d in self.drop for j in find_columns(d, names, n_columns)}
            others |= {j for j in (target, weight, group) if j is not None}
            features = [j for j in range(n_columns) if j not in others]
        self._check(features, names)
        return Plan(names, features, target, weight, group)

    def _check(self, features: Sequence[int], names: list[str] | None) -> None:
        """Raise where there are no features, too many, or some without a name."""
        if not features:
            raise TableError(
                "expected columns to learn from, got none beside the target and those "
                "left out; check --drop and --target."
            )
        require_count(len(features), self.n_features)
        for j in features:
            if names is not None and not names[j]:
                raise TableError(
                    f"expected a name for every column, got none for column {j} "
                    f"(counted from 0); name it, or leave it out with --drop {j}."
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
    if _POSITION.fullmatch(wanted) and -n_columns <= int(wanted) < n_columns:
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


def find_columns(wanted: str, names: list[str] | None, n_columns: int) -> list[int]:
    """Positions of all columns that a name, glob or position stands for."""
    found = [j for j, name in enumerate(names or ()) if fnmatchcase(name, wanted)]
    if found and wanted not in (names or ()):
        return found
    return [find_column(wanted, names, n_columns)]


def listed(names: Sequence[Any]) -> str:
    """Names in an error message, not all of them if there are many."""
    more = len(names) - MOST_NAMES
    text = ", ".join(repr(str(name)) for name in names[:MOST_NAMES])
    return f"{text} and {more} more" if more > 0 else text


def require_count(found: int, wanted: int | None) -> None:
    """Raise where a file has other columns than the model has seen."""
    if wanted is not None and found != wanted:
        raise TableError(
            f"expected {wanted} columns as in training, got {found}; leave out the "
            "others with --drop."
        )


def require_rows(n_rows: int) -> None:
    """Raise where a file has no rows."""
    if n_rows == 0:
        raise TableError(
            "expected at least one row of data, got none; check that the file is the "
            "one you meant."
        )


def require_finite(X: Any, names: Sequence[str] | None) -> None:
    """Raise if a table holds NaN or infinity, with the first such row and column."""
    bad = ~np.isfinite(X.data if sp.issparse(X) else X)
    if not bad.any():
        return
    if sp.issparse(X):
        coo = X.tocoo()
        row, column, value = (part[bad][0] for part in (coo.row, coo.col, coo.data))
    else:
        row, column = np.argwhere(bad)[0]
        value = X[row, column]
    title = repr(names[column]) if names else str(column)
    what = "a missing value" if np.isnan(value) else "infinity"
    raise TableError(
        f"expected a finite number in every cell, got {what} in row {row + 1} of "
        f"column {title}; fill it in, or leave out the row or the column."
    )


def require_entries(missing: np.ndarray, where: str) -> None:
    """Raise where a label, weight or group is missing, with the first such row."""
    if missing.any():
        raise TableError(
            f"expected an entry in every row of {where}, got none in row "
            f"{int(np.argmax(missing)) + 1}; fill it in or leave the row out."
        )


def _by_name(wanted: Sequence[str], names: list[str]) -> list[int]:
    place = {name: j for j, name in enumerate(names)}
    missing = [name for name in wanted if name not in place]
    if missing:
        raise TableError(
            f"expected all {len(wanted)} columns of the training data, got none named "
            f"{listed(missing)}; add what is missing."
        )
    return [place[name] for name in wanted]


def _require_different(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name and name in seen:
            raise TableError(
                f"expected every column name once, got {name!r} twice; rename one."
            )
        seen.add(name)
