"""Several tables about the same rows, as people have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.tables import table_rows

RESERVED = ":@;+*?[]%,="  # have a meaning where kernels are written as text


@dataclass(frozen=True)
class ViewSource:
    """One table as it came, and how its rows are called."""

    table: Any
    ids: Any = None  # one name per row, or None where rows are known by position
    columns: Any = None  # one name per column, or None where they are positions


class Views:
    """Tables about the same rows: row i of every view is the same sample.

    Tables with an index are joined by it: the rows are all that are in some table, in
    order of appearance, and a row that a table does not have lacks that view. Arrays
    are joined by position. Slicing takes rows and copies nothing, so that scikit-learn
    splits Views like any table: in `train_test_split`, `cross_val_predict` and
    `GridSearchCV`.

    Parameters
    ----------
    tables : dict, list, data frame with two levels of columns, MuData or AnnData
        One table per view: arrays, CSR matrices or data frames. Names of a list are
        "view0", "view1", ...
    rows : sequence, optional
        Which rows to take, by their names in the index, and their order.
    layers : dict or str, optional
        Of MuData or AnnData: the layer to read instead of X, by the name of the view.

    Attributes
    ----------
    names : list of str
        Of the views.
    index : array or None
        Names of the rows; None where they are known by position.
    index_name : str or None
        Name of the index, where some table has one.
    shape : tuple
        Rows, and columns of all views together.

    Examples
    --------
    >>> views = Views({"a": [[1.0], [2.0]], "b": [[3.0, 4.0], [5.0, 6.0]]})
    >>> views.shape, views[[1]].shape
    ((2, 3), (1, 3))
    >>> views
    Views of 2 rows
      a: 1 column, all rows
      b: 2 columns, all rows
    """

    names: list[str]
    index: np.ndarray | None
    index_name: str | None
    shape: tuple[int, int]
    ndim = 2

    def __init__(self, tables: Any, rows: Any = None, *, layers: Any = None) -> None:
        sources = read_sources(tables, layers)
        self.sources = sources
        self.names = list(sources)
        self.index, self._places = align(sources, rows)
        called = [getattr(source.ids, "name", None) for source in sources.values()]
        names = [str(name) for name in called if name is not None]
        self.index_name = names[0] if names and self.index is not None else None
        self._set_shape()

    def _set_shape(self) -> None:
        n_rows = len(next(iter(self._places.values())))
        n_columns = sum(source.table.shape[1] for source in self.sources.values())
        self.shape = n_rows, n_columns

    def __len__(self) -> int:
        """Count the rows."""
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Views:
        """Some rows: positions, a slice or a mask."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]
        try:
            chosen = np.atleast_1d(np.arange(len(self))[_positions(rows)])
        except (IndexError, TypeError) as error:
            raise IndexError(
                f"Views are sliced by rows: positions, a slice or a mask of {len(self)}"
                f" rows, got {rows!r:.60}; use .table(name) for one of the views."
            ) from error
        # A slice shares the tables: only the positions of its rows are new.
        part = object.__new__(Views)
        part.sources, part.names = self.sources, self.names
        part.index_name = self.index_name
        part.index = None if self.index is None else self.index[chosen]
        part._places = {name: at[chosen] for name, at in self._places.items()}
        part._set_shape()
        return part

    def __array__(self, *options: Any, **more: Any) -> np.ndarray:
        """Refuse: scalers and models for one table would mix the views up."""
        raise TypeError(
            f"expected one table, got views ({', '.join(self.names)}), which only the "
            "MKL estimators read; scale with their scale= instead of a scaler in a "
            "Pipeline, or take one view with .table(name)."
        )

    def table(self, name: str) -> Any:
        """One view, as it came, with the rows of it that are here."""
        if name not in self.sources:
            raise KeyError(
                f"expected the name of a view, one of {', '.join(self.names)}, got "
                f"{name!r}; choose one of these."
            )
        return table_rows(self.sources[name].table, self.rows_of(name))

    def rows_of(self, name: str) -> np.ndarray:
        """Where the rows that have a view are in its table."""
        places = self._places[name]
        return np.asarray(places[places >= 0])

    def has(self, name: str) -> np.ndarray:
        """Which rows have a view, shape (n,)."""
        return np.asarray(self._places[name] >= 0)

    def unused(self, name: str) -> int:
        """How many rows of a table are not among the rows."""
        used = np.unique(self.rows_of(name))
        return int(self.sources[name].table.shape[0]) - len(used)

    def __repr__(self) -> str:
        """A line per view: what matched, and what did not."""
        n = len(self)
        lines = [f"Views of {n} row{'s' * (n != 1)}"]
        for name, source in self.sources.items():
            width = source.table.shape[1]
            n_present = int(self.has(name).sum())
            rows = (
                "all rows"
                if n_present == n
                else f"{n_present} rows, {n - n_present} lack it"
            )
            extra = self.unused(name)
            more = f", {extra} of its rows not used" if extra else ""
            lines.append(f"  {name}: {width} column{'s' * (width != 1)}, {rows}{more}")
        return "\n".join(lines)


def _positions(rows: Any) -> Any:
    if isinstance(rows, slice):
        return rows
    positions = np.asarray(rows)
    return positions.astype(np.intp) if positions.size == 0 else positions


# --- what counts as several tables ----------------------------------------------------


def are_views(X: Any) -> bool:
    """Whether X is several tables rather than one.

    Examples
    --------
    >>> are_views({"a": [[1.0]]}), are_views([[1.0], [2.0]])
    (True, False)
    >>> are_views([np.ones((2, 1)), np.ones((2, 3))])
    True
    """
    if isinstance(X, np.ndarray) or sp.issparse(X):  # dok_matrix is a mapping
        return False
    if isinstance(X, Views | Mapping) or hasattr(X, "obs_names"):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(len(getattr(one, "shape", ())) == 2 for one in X)
    return getattr(getattr(X, "columns", None), "nlevels", 1) > 1


def is_annotated(X: Any) -> bool:
    """Whether X is AnnData or MuData: observations with names and annotations."""
    return hasattr(X, "obs_names") and hasattr(X, "obs")


def as_views(X: Any) -> Views:
    """Views as they are, and what stands for such."""
    return X if isinstance(X, Views) else Views(X)


def read_sources(tables: Any, layers: Any = None) -> dict[str, ViewSource]:
    """One source per view, from any of the forms that views come in."""
    if isinstance(tables, Views):
        return tables.sources
    named = _by_name(tables)
    chosen = _by_view(layers, named)
    sources = {
        name: _source(name, one, chosen.get(name)) for name, one in named.items()
    }
    _check_names(sources)
    return sources


def _by_name(tables: Any) -> dict[Any, Any]:
    """A table per view."""
    if isinstance(tables, Mapping):
        return dict(tables)
    if is_annotated(tables):
        return dict(tables.mod) if hasattr(tables, "mod") else {"X": tables}
    if not are_views(tables):
        raise TypeError(
            "views must be a dict of tables, a list of arrays or a data frame with two "
            f"levels of columns, got {type(tables).__name__}; pass for instance "
            "{'mrna': table, 'clinical': other}."
        )
    if hasattr(tables, "columns"):
        return _levels(tables)
    return {f"view{v}": table for v, table in enumerate(tables)}


def _by_view(layers: Any, named: Mapping[Any, Any]) -> dict[Any, Any]:
    """The layer that is wanted of each view."""
    if isinstance(layers, str):
        layers = dict.fromkeys(named, layers)
    chosen = dict(layers or {})
    if odd := [name for name in chosen if name not in named]:
        raise ValueError(
            f"layers must name views, which are {', '.join(map(str, named))}, got "
            f"{odd[0]!r}; choose one of these."
        )
    return chosen


def _check_names(named: Mapping[Any, ViewSource]) -> None:
    if not named:
        raise ValueError("views must hold at least one table, got none; pass one.")
    for name in named:
        good = isinstance(name, str) and name and not set(name) & set(RESERVED)
        if not good or name != name.strip():
            raise ValueError(
                "views must have names that are texts without spaces at the ends and "
                f"without any of {RESERVED}, got {name!r}; rename it."
            )


def _source(name: Any, table: Any, layer: Any = None) -> ViewSource:
    """A table of two dimensions, with the names that it brings along."""
    if is_annotated(table):
        return _annotated(name, table, layer)
    if layer is not None:
        raise TypeError(
            f"layers are those of AnnData or MuData, got {type(table).__name__} for "
            f"view {name!r}; leave the layer out."
        )
    table = _as_table(name, table)
    if sp.issparse(table):
        return ViewSource(sp.csr_array(table))
    columns = getattr(table, "columns", None)
    ids = getattr(table, "index", None)
    return ViewSource(
        table, ids, None if columns is None else _column_names(name, columns)
    )


def _as_table(name: Any, table: Any) -> Any:
    """Something with rows and columns."""
    if table is None or isinstance(table, str | bytes):
        raise TypeError(
            f"view {name!r} must be a table of rows and columns, got {table!r:.60}; "
            "pass an array, a CSR matrix or a data frame."
        )
    if len(getattr(table, "shape", ())) == 1 and hasattr(table, "to_frame"):
        table = table.to_frame()
    if not hasattr(table, "shape"):
        try:
            table = np.asarray(table)
        except ValueError:
            table = np.empty(0)
    if len(table.shape) != 2:
        raise ValueError(
            f"view {name!r} must be a table of rows and columns, got "
            f"{len(table.shape)} dimension{'s' * (len(table.shape) != 1)}; reshape it."
        )
    if table.shape[1] == 0:
        raise ValueError(
            f"view {name!r} must have at least one column, got none; leave it out."
        )
    return table


def _column_names(name: Any, columns: Any) -> list[str]:
    names = [str(column) for column in columns]
    if len(set(names)) < len(names):
        twice = next(column for column in names if names.count(column) > 1)
        raise ValueError(
            f"columns of view {name!r} must have different names, got {twice!r} more "
            "than once; rename them."
        )
    return names


def _levels(frame: Any) -> dict[Any, Any]:
    """The first level of the columns names the view."""
    tables = {}
    for name in dict.fromkeys(frame.columns.get_level_values(0)):
        table = frame[name]
        if getattr(table.columns, "nlevels", 1) > 1:
            table = table.set_axis(
                ["_".join(map(str, c)) for c in table.columns], axis=1
            )
        tables[str(name)] = table
    return tables


def _annotated(name: Any, data: Any, layer: Any) -> ViewSource:
    """X or a layer of AnnData, with the names of observations and variables."""
    if hasattr(data, "mod"):
        raise TypeError(
            f"view {name!r} must be one table, got MuData with several; pass the "
            "MuData itself, or one of its modalities."
        )
    if layer is not None and layer not in data.layers:
        raise ValueError(
            f"layer of view {name!r} must be one of {', '.join(data.layers)}, got "
            f"{layer!r}; choose one of these."
        )
    table = data.X if layer is None else data.layers[layer]
    table = sp.csr_array(table) if sp.issparse(table) else np.asarray(table)
    return ViewSource(
        _as_table(name, table), data.obs_names, _column_names(name, data.var_names)
    )


# --- rows -----------------------------------------------------------------------------


def align(
    sources: Mapping[str, ViewSource], rows: Any = None
) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
    """Names of the rows, and where each is in every table: -1 where it is not."""
    if not any(has_index(source.ids) for source in sources.values()):
        return None, _by_position(sources, rows)
    without = [name for name, source in sources.items() if source.ids is None]
    if without:
        raise ValueError(
            "views must all have an index or none of them, got one for some and none "
            f"for {without[0]!r}; pass data frames with an index, or arrays only."
        )
    ids = {name: names_of(source.ids) for name, source in sources.items()}
    for name, own in ids.items():
        require_different(own, f"the index of view {name!r}")
    if rows is None:
        named = (row for own in ids.values() for row in own.tolist())
        wanted = names_of(dict.fromkeys(named))
    else:
        wanted = names_of(rows)
        require_different(wanted, "rows")
    places = {name: find(own, wanted) for name, own in ids.items()}
    # Rows may lack some views, but a row in no view holds nothing to learn from.
    lost = np.all([at < 0 for at in places.values()], axis=0)
    if lost.any():
        first = wanted[lost].tolist()[0]
        raise ValueError(
            f"rows must be in the index of some view, got {first!r}, which "
            f"is in none, and {int(lost.sum())} such in all; leave them out."
        )
    return wanted, places


def names_of(rows: Any) -> np.ndarray:
    """Names of rows in one dimension, also where a name has several levels."""
    rows = list(rows)
    # NumPy would make columns of the levels of a name.
    if any(isinstance(row, tuple) for row in rows):
        return np.array([*rows, None], dtype=object)[:-1]
    return np.asarray(rows)


def _by_position(sources: Mapping[str, ViewSource], rows: Any) -> dict[str, np.ndarray]:
    counts = {name: int(source.table.shape[0]) for name, source in sources.items()}
    if len(set(counts.values())) > 1:
        sizes = ", ".join(f"{n} in {name!r}" for name, n in counts.items())
        raise ValueError(
            f"views without an index must have the same number of rows, got {sizes}; "
            "pass data frames whose index names the rows, or rows of NaN for samples "
            "that lack a view."
        )
    if rows is not None:
        raise ValueError(
            "rows are chosen by their names, got views without an index; slice the "
            "views instead, as in views[rows]."
        )
    return {name: np.arange(n) for name, n in counts.items()}


def has_index(ids: Any) -> bool:
    """Whether rows have names: a plain count from 0 is none.

    Examples
    --------
    >>> has_index(None), has_index(["ann", "bob"])
    (False, True)
    """
    # A list has a method `index`.
    if ids is None or callable(ids):  # as of a list
        return False
    names = np.asarray(ids)
    return not (
        names.dtype.kind in "iu" and np.array_equal(names, np.arange(len(names)))
    )


def require_different(ids: np.ndarray, what: str) -> None:
    """Raise where the same name stands for several rows."""
    seen = set()
    for one in ids.tolist():
        if one in seen:
            raise ValueError(
                f"{what} must name every row once, got {one!r} more than once; drop "
                "duplicates first."
            )
        seen.add(one)


def find(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted name is among the known ones; -1 where it is not."""
    place = {one: k for k, one in enumerate(known.tolist())}
    return np.array([place.get(one, -1) for one in wanted.tolist()], dtype=np.intp)
