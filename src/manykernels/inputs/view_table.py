"""Views as one table of numbers, and how the views of a fit are found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Selection, Values
from manykernels.base.stored import (
    FLAG,
    TEXT,
    TEXTS,
    ListOf,
    Maybe,
    Names,
    require_all,
    storable,
)
from manykernels.base.tables import is_number, table_columns, table_rows
from manykernels.inputs.views import Views, ViewSource


@dataclass
class JoinedTable:
    """Views as one table: the columns of the first, then those of the second, ...

    Kernels choose columns by position and read them as their view has them, dense or
    sparse. A row may lack a view: kernels on that view then do not see the row.

    Attributes
    ----------
    tables : list of arrays or CSR matrices
        Numbers, one table per view.
    names : list of str
        Of the views.
    present : list of boolean arrays or None
        Which rows a view has; None for all of them.
    stretch : array of shape (n,) or None
        Multiplies a row in every kernel, to make up for views that it lacks.
    unread : tuple of int
        Views that no kernel reads, which a row may therefore lack.
    shape : tuple
        Rows, and columns of all views together.
    views : dict of ranges
        Positions of the columns of every view.

    Examples
    --------
    >>> tables = [np.array([[1.0], [2.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])]
    >>> both = JoinedTable(tables, ["a", "b"], [None, np.array([True, False])])
    >>> both.shape, both.views
    ((2, 3), {'a': range(0, 1), 'b': range(1, 3)})
    >>> both.pick(slice(1, 3)).tolist(), both.factors(slice(1, 3)).tolist()
    ([[3.0, 4.0], [0.0, 0.0]], [1.0, 0.0])
    """

    tables: list[Any]
    names: list[str]
    present: list[Values | None]
    stretch: Values | None = None
    unread: tuple[int, ...] = ()
    shape: tuple[int, int] = field(init=False)
    views: Mapping[str, range] = field(init=False)

    def __post_init__(self) -> None:
        ends = np.cumsum([0, *(table.shape[1] for table in self.tables)]).tolist()
        self.shape = int(self.tables[0].shape[0]), ends[-1]
        self.views = dict(zip(self.names, map(range, ends, ends[1:]), strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return sum(_nbytes(table) for table in self.tables)

    def __getitem__(self, rows: Any) -> JoinedTable:
        """Some of the rows."""
        present = [None if one is None else one[rows] for one in self.present]
        stretch = None if self.stretch is None else self.stretch[rows]
        tables = [table[rows] for table in self.tables]
        return replace(self, tables=tables, present=present, stretch=stretch)

    @property
    def present_of_read(self) -> list[Values | None]:
        """Which rows have each of the views that some kernel reads."""
        return [mask for v, mask in enumerate(self.present) if v not in self.unread]

    def rows_without_views(self) -> list[int]:
        """Rows that lack every view."""
        present = self.present_of_read
        masks = [mask for mask in present if mask is not None]
        if not present or len(masks) < len(present):
            return []
        empty: list[int] = np.flatnonzero(~np.any(masks, axis=0)).tolist()
        return empty

    def pick(self, columns: Selection) -> Any:
        """Some columns: as their view has them, or joined where there are several."""
        parts = [
            self.tables[v][:, places] for v, places in self._columns_by_view(columns)
        ]
        if len(parts) == 1:
            return parts[0]
        # One sparse view makes the columns sparse together: dense, they may not fit.
        if any(map(sp.issparse, parts)):
            return sp.csr_array(sp.hstack(parts))
        return np.hstack(parts)

    def factors(self, columns: Selection) -> Values | None:
        """Factor of each row in a kernel on these columns, or None.

        Zero where the row lacks one of the views.
        """
        present = [self.present[v] for v, _ in self._columns_by_view(columns)]
        masks = [mask for mask in present if mask is not None]
        if not masks:
            return self.stretch
        factors = np.all(masks, axis=0).astype(np.float64)
        return factors if self.stretch is None else factors * self.stretch

    def _columns_by_view(self, columns: Selection) -> list[tuple[int, Selection]]:
        """(view, places among its columns) for the views that columns belong to."""
        chosen = np.arange(self.shape[1])[columns]
        parts: list[tuple[int, Selection]] = []
        for v, span in enumerate(self.views.values()):
            inside = (chosen >= span.start) & (chosen < span.stop)
            places = chosen[inside] - span.start
            if np.array_equal(places, np.arange(len(span))):
                parts.append((v, slice(None)))
            elif len(places):
                parts.append((v, places))
        return parts


def _nbytes(table: Any) -> int:
    parts: Sequence[Any] = (table,)
    if sp.issparse(table):
        parts = (table.data, table.indices, table.indptr)
    return sum(int(part.nbytes) for part in parts)


@storable(
    names=TEXTS,
    columns=ListOf(Names()),
    named=ListOf(FLAG),
    sparse=ListOf(FLAG),
    index_name=Maybe(TEXT),
)
@dataclass
class ViewReader:
    """The views and columns of a fit, found again in any order.

    Attributes
    ----------
    names : list of str
        Of the views.
    columns : list of arrays of str
        Of every view; positions as text where a view came without names.
    named : list of bool
        Whether a view came with names of its columns.
    sparse : list of bool
        Whether a view came as a sparse matrix.
    index_name : str or None
        What the index of the rows was called.

    Examples
    --------
    >>> views = Views({"a": np.eye(2), "b": np.ones((2, 1))})
    >>> reader = ViewReader.of(views)
    >>> reader.feature_names.tolist()
    ['a:0', 'a:1', 'b:0']
    >>> reader.read(Views({"b": [[3.0]]}), np.ones(3, bool)).present
    [array([False]), None]
    """

    names: list[str]
    columns: list[np.ndarray]
    named: list[bool]
    sparse: list[bool]
    index_name: str | None = None

    @classmethod
    def of(cls, views: Views) -> ViewReader:
        """What the views of a fit have."""
        sources = views.sources.values()
        columns = []
        for source in sources:
            plain = range(source.table.shape[1])
            column_names = map(str, plain if source.columns is None else source.columns)
            columns.append(np.array([*column_names, None], dtype=object)[:-1])
        named = [source.columns is not None for source in sources]
        sparse = [sp.issparse(source.table) for source in sources]
        return cls(list(views.names), columns, named, sparse, views.index_name)

    @cached_property
    def feature_names(self) -> np.ndarray:
        """Of all columns: ``view:column``."""
        pairs = zip(self.names, self.columns, strict=True)
        qualified = [f"{name}:{column}" for name, own in pairs for column in own]
        return np.array([*qualified, None], dtype=object)[:-1]

    @property
    def no_rows(self) -> JoinedTable:
        """A table without rows, to choose columns of."""
        tables = [np.empty((0, len(own))) for own in self.columns]
        return JoinedTable(tables, self.names, [None] * len(tables))

    def read(self, views: Views, used: np.ndarray) -> JoinedTable:
        """Numbers of the used columns, zeros in the others; NaN is left in.

        A row lacks a view that is not among the views, or that has only NaN in the
        row's used columns.
        """
        # Views of fit may be missing in new rows, but no other can be read.
        unknown = [name for name in views.names if name not in self.names]
        if unknown:
            raise ValueError(
                f"views must be among those of fit, {', '.join(self.names)}, got "
                f"{unknown[0]!r}; leave it out, or rename it."
            )
        tables, present, unread = [], [], []
        for v, span in enumerate(self.no_rows.views.values()):
            places = np.flatnonzero(used[span])
            table, has_view = self._view(views, v, places)
            tables.append(table)
            present.append(None if has_view.all() else has_view)
            if not len(places):
                unread.append(v)
        return JoinedTable(tables, self.names, present, unread=tuple(unread))

    def _view(self, views: Views, v: int, used: np.ndarray) -> tuple[Any, np.ndarray]:
        """One view's numbers, and which rows have it."""
        name, width = self.names[v], len(self.columns[v])
        shape = (len(views), width)
        if name not in views.sources:
            blank = sp.csr_array(shape) if self.sparse[v] else np.zeros(shape)
            return blank, np.zeros(len(views), dtype=bool)
        source, has_view = views.sources[name], views.has(name)
        places = self._places(source, v)[used]
        rows = views.rows_of(name)
        if sp.issparse(source.table):
            # A product with a 0-1 matrix puts sparse columns in the order of fit.
            entries = (np.ones(len(used)), (places, used))
            picked = _ones(entries, (source.table.shape[1], width))
            return _sparse_part(name, source, has_view, rows, picked), has_view
        out = np.zeros(shape)
        if len(used):
            out[np.ix_(has_view, used)] = _numbers(name, source, rows, places)
            # NaN marks what a row lacks until scaling is done.
            out[~has_view] = np.nan
            has_view = has_view & ~np.isnan(out[:, used]).all(axis=1)
        return out, has_view

    def _places(self, source: ViewSource, v: int) -> np.ndarray:
        """Where the known columns are in a table."""
        known, width = self.columns[v], int(source.table.shape[1])
        # Without names the columns of fit are known by position only.
        if not self.named[v] or source.columns is None:
            if width != len(known):
                raise ValueError(
                    f"view {self.names[v]!r} must have {len(known)} columns as in fit, "
                    f"got {width}; pass the same columns in the same order."
                )
            return np.arange(width)
        place = {column: k for k, column in enumerate(source.columns)}
        missing = [column for column in known if column not in place]
        if missing:
            raise ValueError(
                f"view {self.names[v]!r} must have the columns of fit, got none called "
                f"{missing[0]!r}, and {len(missing)} such in all; add them, or leave "
                "the whole view out."
            )
        return np.array([place[column] for column in known], dtype=np.intp)

    def require_sound(self) -> None:

        n = len(self.names)
        different = all(len(set(own)) == len(own) > 0 for own in self.columns)
        agree = {
            "views": len(self.columns) == len(self.named) == len(self.sparse) == n > 0,
            "names": len(set(self.names)) == n and different,
        }
        require_all("ViewReader", agree)


def _numbers(
    name: str, source: ViewSource, rows: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Some rows and columns of a dense table as numbers; infinity is refused."""
    cells = table_columns(table_rows(source.table, rows), places)
    try:
        values = _floats(cells)
    except (TypeError, ValueError) as error:
        raise _no_numbers(name, source, cells, places) from error
    if np.isinf(values).any():
        column = int(np.argmax(np.isinf(values).any(axis=0)))
        raise ValueError(
            f"view {name!r} must hold finite numbers, got infinity in column "
            f"{_called(source, places[column])}; correct or drop it."
        )
    return values


def _floats(cells: Any) -> np.ndarray:
    """Cells as numbers; dates, which count nanoseconds, are none."""
    dtypes = getattr(cells, "dtypes", [getattr(cells, "dtype", None)])
    if any(getattr(dtype, "kind", None) in ("m", "M") for dtype in dtypes):
        raise TypeError("dates are no numbers")
    if hasattr(cells, "iloc"):  # pandas has numbers of its own that may be missing
        return np.asarray(cells.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(_plain(cells), dtype=np.float64)


def _plain(cells: Any) -> Any:
    return cells.to_numpy() if hasattr(cells, "to_numpy") else cells


def _no_numbers(
    name: str, source: ViewSource, cells: Any, places: np.ndarray
) -> ValueError:
    table = np.asarray(_plain(cells), dtype=object)
    for k, column in enumerate(table.T):
        odd = next((cell for cell in column if not is_number(cell)), None)
        if odd is not None:
            return ValueError(
                f"view {name!r} must hold numbers in the columns that kernels read, got"
                f" {odd!r} in column {_called(source, places[k])}; name the others, as "
                f"in 'rbf@{name}:a*', or turn it into numbers."
            )
    return ValueError(
        f"view {name!r} must hold numbers, got {table.dtype}; turn it into numbers."
    )


def _called(source: ViewSource, place: int) -> str:
    return repr(place if source.columns is None else source.columns[place])


def _sparse_part(
    name: str, source: ViewSource, has_view: np.ndarray, rows: np.ndarray, picked: Any
) -> Any:
    """Rows of a sparse table where a view is, empty ones where it is not.

    `picked` puts the columns in order.
    """
    chosen = sp.csr_array(source.table, dtype=np.float64)
    if not np.isfinite(chosen.data).all():
        raise ValueError(
            f"view {name!r} must hold finite numbers, got NaN or infinity in a sparse "
            "table; correct or drop such values."
        )
    put = (np.ones(len(rows)), (np.flatnonzero(has_view), rows))
    return sp.csr_array(_ones(put, (len(has_view), chosen.shape[0])) @ chosen @ picked)


def _ones(entries: Any, shape: tuple[int, int]) -> Any:
    return sp.csr_array(sp.coo_array(entries, shape=shape))
