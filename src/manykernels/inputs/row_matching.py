"""y, weights and groups brought into the order of views, or the other way round."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from manykernels.base.tables import table_rows
from manykernels.inputs.views import (
    Views,
    are_views,
    as_views,
    find,
    has_index,
    is_annotated,
    names_of,
    require_different,
)
from manykernels.inputs.wrappers import from_other_libraries


def match_rows(X: Any, y: Any, *others: Any) -> tuple[Any, ...]:
    """X, y, and what else has an entry per row, in one order of rows.

    X comes back as `Views` or as the one table that it is, in NumPy. Where views and y
    have an index, rows are those in both, in the order of y.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [30.0, 40.0, 50.0]}, index=["a", "b", "c"])
    >>> y = pd.Series([1, 0], index=["c", "a"])
    >>> with warnings.catch_warnings(action="ignore"):
    ...     X, y = match_rows({"clinic": table}, y)
    >>> X.index.tolist(), y.tolist()
    (['c', 'a'], [1, 0])
    """
    X, y, *others = map(from_other_libraries, (X, y, *others))  # type: ignore[assignment]
    if not are_views(X):
        return X, y, *others
    if is_annotated(X):
        y = _annotation(X, y)
    views = as_views(X)
    ids = getattr(y, "index", None)
    if views.index is None or not has_index(ids):
        # Views that the user made have the order that the user chose.
        if y is not None and views is not X:
            _require_one_order(views)
        return views, y, *others
    # The order of y wins: splitters and metrics are given y as it is.
    names = names_of(ids)
    require_different(names, "the index of y")
    places = find(views.index, names)
    both = np.flatnonzero(places >= 0)
    if len(both) == 0:
        first, other = names.tolist()[0], views.index.tolist()[0]
        raise ValueError(
            f"the index of y must name rows of the views, got {first!r} and others, "
            f"none of which is among {other!r} and others; check both."
        )
    _warn_of_unmatched(len(names) - len(both), len(views) - len(both))
    chosen = [None if one is None else _values(one, names)[both] for one in others]
    return views[places[both]], table_rows(y, both), *chosen


def _require_one_order(views: Views) -> None:
    """Raise where y goes by position and tables differ in the order of their rows."""
    for name in views.names:
        if np.any(np.diff(views.rows_of(name)) < 0):
            raise ValueError(
                "y must have an index where tables have their rows in different orders,"
                f" got none, and {name!r} has another order than the tables before it; "
                "pass y as a Series with the names of the rows, or X as "
                "mk.Views(tables, rows=names) in the order of y."
            )


def _annotation(X: Any, y: Any) -> Any:
    """y, or the columns of the observations' annotations that it names."""
    names = [y] if isinstance(y, str) else y
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        return y
    unknown = [name for name in names if name not in X.obs]
    if unknown and isinstance(y, str):
        raise ValueError(
            f"y must name a column of obs, one of {', '.join(map(str, X.obs))}, got "
            f"{y!r}; choose one of these."
        )
    return y if unknown else X.obs[y]  # a list of texts may be labels


def _warn_of_unmatched(without_views: int, without_y: int) -> None:
    parts = []
    if without_views:
        parts.append(f"{without_views} rows of y are in no view")
    if without_y:
        parts.append(f"{without_y} rows of the views are not in y")
    if parts:
        warnings.warn(
            f"Rows were matched by index: {' and '.join(parts)}; these were left out.",
            UserWarning,
            stacklevel=5,
        )


def _values(vector: Any, ids: np.ndarray) -> np.ndarray:
    """Weights or groups in the order of y: by index where they have one."""
    index = getattr(vector, "index", None)
    values = np.asarray(vector)
    if has_index(index):
        places = find(names_of(index), ids)
        if (places < 0).any():
            raise ValueError(
                "weights and groups must have an entry for every row of y, got none "
                f"for {ids[places < 0][0]!r}; add it."
            )
        return values[places]
    if values.shape != ids.shape:
        raise ValueError(
            "weights and groups must have one entry per row of y, which are "
            f"{len(ids)}, got {values.shape}; pass as many."
        )
    return values
