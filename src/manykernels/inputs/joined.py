"""Tables of the same rows side by side, each in a form of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Selection, Values


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
        Views that no kernel reads: nobody misses them.

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

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns of all views together."""
        return int(self.tables[0].shape[0]), sum(t.shape[1] for t in self.tables)

    @property
    def nbytes(self) -> int:
        """Of all numbers."""
        return sum(_nbytes(table) for table in self.tables)

    @cached_property
    def views(self) -> Mapping[str, range]:
        """Positions of the columns of every view."""
        ends = np.cumsum([0, *(table.shape[1] for table in self.tables)]).tolist()
        return dict(zip(self.names, map(range, ends, ends[1:]), strict=True))

    def __getitem__(self, rows: Any) -> JoinedTable:
        """Some of the rows."""
        present = [None if one is None else one[rows] for one in self.present]
        stretch = None if self.stretch is None else self.stretch[rows]
        tables = [table[rows] for table in self.tables]
        return replace(self, tables=tables, present=present, stretch=stretch)

    def missed(self) -> list[Values | None]:
        """Which rows have each of the views that some kernel reads."""
        return [one for v, one in enumerate(self.present) if v not in self.unread]

    def pick(self, columns: Selection) -> Any:
        """Some columns: as their view has them, or joined where there are several."""
        parts = [self.tables[v][:, places] for v, places in self._touched(columns)]
        if len(parts) == 1:
            return parts[0]
        if any(map(sp.issparse, parts)):
            return sp.csr_array(sp.hstack(parts))
        return np.hstack(parts)

    def factors(self, columns: Selection) -> Values | None:
        """What multiplies each row in a kernel on these columns; None for nothing.

        Zero where the row lacks one of the views.
        """
        present = [self.present[v] for v, _ in self._touched(columns)]
        masks = [mask for mask in present if mask is not None]
        if not masks:
            return self.stretch
        seen = np.all(masks, axis=0).astype(np.float64)
        return seen if self.stretch is None else seen * self.stretch

    def _touched(self, columns: Selection) -> list[tuple[int, Selection]]:
        """(view, places among its columns) for the views that columns belong to."""
        chosen = np.arange(self.shape[1])[columns]
        found: list[tuple[int, Selection]] = []
        for v, span in enumerate(self.views.values()):
            own = chosen[(chosen >= span.start) & (chosen < span.stop)] - span.start
            if len(own) == len(span) and np.array_equal(own, np.arange(len(span))):
                found.append((v, slice(None)))
            elif len(own):
                found.append((v, own))
        return found


def _nbytes(table: Any) -> int:
    parts: Sequence[Any] = (table,)
    if sp.issparse(table):
        parts = (table.data, table.indices, table.indptr)
    return sum(int(part.nbytes) for part in parts)
