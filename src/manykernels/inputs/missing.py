"""Rows that lack a view: not seen by its kernels, or completed from other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from manykernels.base.stored import (
    Count,
    ListOf,
    Real,
    Table,
    Wholes,
    require_all,
    storable,
)
from manykernels.inputs.joined import JoinedTable
from manykernels.kernels.widths import distance_quantile, inverse

STRATEGIES = ("rescale", "zero", "complete", "refuse")
NEIGHBORS = 10


def stretched(table: JoinedTable) -> JoinedTable:
    r"""Rows times :math:`\sqrt{V / V_i}`, where row i has :math:`V_i` of V views.

    The mean over the views of a row's values with itself is then the same for all.
    """
    present = table.missed()
    if all(one is None for one in present):
        return table
    every = np.ones(table.shape[0], dtype=bool)
    counts = np.sum([every if p is None else p for p in present], axis=0)
    share = np.maximum(counts, 1) / len(present)
    return replace(table, stretch=1.0 / np.sqrt(share))


@storable(
    tables=ListOf(Table("rows", None), "views"),
    has=Wholes("rows", "views", low=0, below=2),
    gammas=ListOf(Real(low=0.0), "views"),
    neighbors=Count(low=1),
)
@dataclass
class Completion:
    r"""A view that a row lacks, as the mean of its nearest rows that have it.

    Rows are near where the views that both have are alike: by the mean over these of
    :math:`\exp(-\|x - y\|^2 / m)`, with m the median squared distance in a view.

    Attributes
    ----------
    tables : list of arrays or CSR matrices
        The training rows, one table per view.
    has : int array of shape (rows, views)
        1 where a row has a view.
    gammas : list of float
        1 / m for every view.
    neighbors : int
        How many rows a mean is over.
    """

    tables: list[Any]
    has: np.ndarray
    gammas: list[float]
    neighbors: int = NEIGHBORS

    @classmethod
    def fit(cls, table: JoinedTable, copies: np.ndarray) -> Completion:
        """Remember the rows and choose the widths."""
        every = np.ones(table.shape[0], dtype=bool)
        has = np.column_stack([every if p is None else p for p in table.present])
        gammas = []
        for values, here in zip(table.tables, has.T, strict=True):
            weight = copies * here
            median, _ = distance_quantile(values, weight, "sqeuclidean", 0.5)
            gammas.append(float(inverse(median)))
        kept = copies > 0.0
        tables = [values[kept] for values in table.tables]
        return cls(tables, has[kept].astype(np.int64), gammas)

    def apply(self, table: JoinedTable) -> JoinedTable:
        """The table with all views that can be completed; others stay absent."""
        tables, present = list(table.tables), list(table.present)
        for v, here in enumerate(table.present):
            lacking = np.array([], int) if here is None else np.flatnonzero(~here)
            if here is None or not len(lacking):
                continue
            weights = self._weights(table, lacking, v)
            near = weights.any(axis=1)
            tables[v] = _with_rows(
                tables[v], lacking[near], weights[near], self.tables[v]
            )
            completed = here.copy()
            completed[lacking[near]] = True
            present[v] = None if completed.all() else completed
        return replace(table, tables=tables, present=present)

    def _weights(self, table: JoinedTable, rows: np.ndarray, view: int) -> np.ndarray:
        """How much each training row counts in the mean, shape (rows, training)."""
        total = np.zeros((len(rows), len(self.has)))
        shared = np.zeros_like(total)
        for v, values in enumerate(self.tables):
            if v == view:
                continue
            here = table.present[v]
            own = np.ones(len(rows)) if here is None else here[rows].astype(float)
            both = np.outer(own, self.has[:, v])
            alike = rbf_kernel(table.tables[v][rows], values, gamma=self.gammas[v])
            total += both * alike
            shared += both
        alike = np.divide(total, shared, out=np.zeros_like(total), where=shared > 0.0)
        alike *= self.has[:, view]
        few = min(self.neighbors, alike.shape[1])
        least = np.partition(alike, -few, axis=1)[:, [-few]]
        return _shares(np.where(alike >= least, alike, 0.0))

    def require_sound(self) -> None:
        """Rows and views must be as many everywhere."""
        agree = {"rows": len({t.shape[0] for t in self.tables} | {len(self.has)}) == 1}
        require_all("Completion", agree)


def _shares(weights: np.ndarray) -> np.ndarray:
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)


def _with_rows(table: Any, rows: np.ndarray, weights: np.ndarray, source: Any) -> Any:
    """A table whose rows at some positions are weighted means of other rows."""
    if not sp.issparse(table):
        out = np.array(table)
        out[rows] = weights @ source
        return out
    keep = np.ones(table.shape[0])
    keep[rows] = 0.0
    put = sp.csr_array(
        (np.ones(len(rows)), (rows, np.arange(len(rows)))),
        shape=(table.shape[0], len(rows)),
    )
    means = sp.csr_array(weights) @ sp.csr_array(source)
    return sp.csr_array(sp.diags_array(keep) @ table + put @ means)


def rows_without_views(table: JoinedTable) -> Sequence[int]:
    """Rows that lack every view."""
    present = table.missed()
    masks = [one for one in present if one is not None]
    if not present or len(masks) < len(present):
        return []
    found: list[int] = np.flatnonzero(~np.any(masks, axis=0)).tolist()
    return found
