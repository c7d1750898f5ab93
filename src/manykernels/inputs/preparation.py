"""What becomes of the numbers of X before kernels read them: scales, missing views."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from manykernels.base.stored import (
    TEXTS,
    Count,
    Floats,
    ListOf,
    Maybe,
    Part,
    Real,
    StoredWord,
    Table,
    Wholes,
    require_all,
    storable,
)
from manykernels.inputs.scaling import (
    SAVED_STEPS,
    Shift,
    Step,
    apply_steps,
    fit_steps,
    require_plain,
)
from manykernels.inputs.view_table import JoinedTable
from manykernels.kernels.kernel_set import row_copies
from manykernels.kernels.widths import distance_quantile, inverse

MISSING_STRATEGIES = ("rescale", "zero", "complete", "refuse")

logger = logging.getLogger(__name__)


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
    neighbors: int = 10

    @classmethod
    def fit(cls, table: JoinedTable, copies: np.ndarray) -> Completion:
        """Remember the rows and choose the widths."""
        every = np.ones(table.shape[0], dtype=bool)
        has = np.column_stack([every if p is None else p for p in table.present])
        gammas = []
        for values, mask in zip(table.tables, has.T, strict=True):
            # The median heuristic: half of the pairs are nearer than the width.
            median, _ = distance_quantile(values, copies * mask, "sqeuclidean", 0.5)
            gammas.append(float(inverse(median)))
        # Rows without weight must not complete other rows.
        kept = copies > 0.0
        tables = [values[kept] for values in table.tables]
        return cls(tables, has[kept].astype(np.int64), gammas)

    def apply(self, table: JoinedTable) -> JoinedTable:
        """The table with all views that can be completed; others stay absent."""
        tables, present = list(table.tables), list(table.present)
        for v, mask in enumerate(table.present):
            if mask is None or mask.all():
                continue
            lacking = np.flatnonzero(~mask)
            weights = self._weights(table, lacking, v)
            near = weights.any(axis=1)
            tables[v] = _with_rows(
                tables[v], lacking[near], weights[near], self.tables[v]
            )
            completed = mask.copy()
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
            mask = table.present[v]
            has = np.ones(len(rows)) if mask is None else mask[rows].astype(float)
            both = np.outer(has, self.has[:, v])
            alike = rbf_kernel(table.tables[v][rows], values, gamma=self.gammas[v])
            total += both * alike
            shared += both
        alike = np.divide(total, shared, out=np.zeros_like(total), where=shared > 0.0)
        # Only rows that have the view can lend it.
        alike *= self.has[:, view]
        # All rows that are as near as the last neighbor count: ties have no order.
        few = min(self.neighbors, alike.shape[1])
        least = np.partition(alike, -few, axis=1)[:, [-few]]
        weights = np.where(alike >= least, alike, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)

    def require_sound(self) -> None:
        agree = {"rows": len({t.shape[0] for t in self.tables} | {len(self.has)}) == 1}
        require_all("Completion", agree)


def _with_rows(table: Any, rows: np.ndarray, weights: np.ndarray, source: Any) -> Any:
    """A table whose rows at some positions are weighted means of other rows."""
    if not sp.issparse(table):
        out = np.array(table)
        out[rows] = weights @ source
        return out
    # Rows of a sparse table are replaced by products: assigning them is slow.
    keep = np.ones(table.shape[0])
    keep[rows] = 0.0
    put = sp.csr_array(
        (np.ones(len(rows)), (rows, np.arange(len(rows)))),
        shape=(table.shape[0], len(rows)),
    )
    means = sp.csr_array(weights) @ sp.csr_array(source)
    return sp.csr_array(sp.diags_array(keep) @ table + put @ means)


@storable(
    names=TEXTS,
    steps=ListOf(ListOf(Part(*SAVED_STEPS))),
    blanks=ListOf(Floats(None)),
    missing=StoredWord(*MISSING_STRATEGIES),
    completion=Maybe(Part(Completion)),
    counts=Wholes(None, low=0),
)
@dataclass
class Preparation:
    """Scaling of one table, or of every view and for rows that lack one.

    Attributes
    ----------
    names : list of str
        Of the views; one empty name for a plain table.
    steps : list of lists
        The scaling of every view, see :mod:`manykernels.inputs.scaling`.
    blanks : list of arrays
        Stands in a dense row that lacks the view; kernels ignore it.
    missing : str
        One of `MISSING_STRATEGIES`.
    completion : Completion or None
    counts : int array
        Training rows that have each view.
    """

    names: list[str]
    steps: list[list[Step]]
    blanks: list[np.ndarray]
    missing: str
    completion: Completion | None
    counts: np.ndarray

    @classmethod
    def fit_table(
        cls, table: Any, wanted: Any, weight: np.ndarray
    ) -> tuple[Preparation, Any]:
        """Fit the scale of one table on rows of positive weight, and apply it."""
        copies = row_copies(weight, len(weight))
        steps, scaled = fit_steps(wanted, table, copies)
        _require_usable(scaled, table)
        count = np.array([np.count_nonzero(weight)])
        prepared = cls([""], [steps], [np.zeros(0)], "rescale", None, count)
        if logger.isEnabledFor(logging.INFO):
            prepared._log_constants()
        return prepared, scaled

    @classmethod
    def fit_views(
        cls, table: JoinedTable, wanted: Any, missing: str, weight: np.ndarray
    ) -> tuple[Preparation, JoinedTable]:
        """Fit on rows of positive weight; also the table as kernels shall read it."""
        _require_some_view(table, weight)
        # Weights become copies, so that scales are those of the repeated rows.
        copies, by_view = row_copies(weight, len(weight)), _by_view(wanted, table.names)
        steps: list[list[Step]] = []
        blanks, counts, scaled = [], [], []
        for v, name in enumerate(table.names):
            rows = _RowsOfView(table.tables[v], table.present[v])
            counted = copies if rows.mask is None else copies * rows.mask
            counts.append(int(np.count_nonzero(counted)))
            out, own = rows.values, list[Step]()
            # A view that no kernel reads needs no scale, and may be absent everywhere.
            if v not in table.unread:
                if counts[-1] == 0:
                    raise ValueError(
                        f"view {name!r} must be there for some training row, got "
                        "none; leave it out."
                    )
                with _in_view(name):
                    own, out = fit_steps(by_view[name], out, counted[rows.index])
                    _require_usable(out, rows.values)
            steps.append(own)
            scaled.append(rows.put_back(out))
            blanks.append(_mean_row(scaled[-1], counted))
        prepared = cls(
            list(table.names), steps, blanks, missing, None, np.array(counts)
        )
        prepared._log_constants()
        # Kernels multiply absent rows by zero, which NaN would survive.
        whole = prepared._filled(replace(table, tables=scaled))
        if missing == "complete":
            prepared.completion = Completion.fit(whole, copies)
        return prepared, prepared._with_missing(whole)

    def apply(self, table: Any) -> Any:
        """New rows as the kernels shall read them."""
        if not isinstance(table, JoinedTable):
            scaled = apply_steps(self.steps[0], table)
            _require_usable(scaled, table)
            return scaled
        scaled = []
        for v, name in enumerate(self.names):
            rows = _RowsOfView(table.tables[v], table.present[v])
            out = rows.values
            if out.shape[0]:
                with _in_view(name):
                    out = apply_steps(self.steps[v], out)
                    _require_usable(out, rows.values)
            scaled.append(rows.put_back(out))
        return self._with_missing(self._filled(replace(table, tables=scaled)))

    def _filled(self, table: JoinedTable) -> JoinedTable:
        """Replace absent rows by the view's mean; kernels ignore them."""
        tables = list(table.tables)
        for v, mask in enumerate(table.present):
            if mask is not None and not sp.issparse(tables[v]):
                tables[v] = np.where(mask[:, None], tables[v], self.blanks[v])
        return replace(table, tables=tables)

    def _with_missing(self, table: JoinedTable) -> JoinedTable:
        """The chosen strategy for rows that lack a view."""
        if self.missing == "refuse":
            _require_all_views(table)
        if self.completion is not None:
            table = self.completion.apply(table)
        return table if self.missing == "zero" else rescale_present_views(table)

    def _log_constants(self) -> None:
        """Log per view how many columns are the same in all rows."""
        for name, steps in zip(self.names, self.steps, strict=True):
            count = 0
            for step in steps:
                if isinstance(step, Shift):
                    count += int(np.sum(step.factor == 0.0))
            if count:
                where = f"view {name!r}" if name else "the table"
                logger.info("%s: %d constant or unread columns ignored", where, count)

    def require_saveable(self) -> None:
        """Raise where a scale is an object that no file can hold."""
        for name, steps in zip(self.names, self.steps, strict=True):
            require_plain(steps, name)

    def require_sound(self) -> None:
        n = len(self.names)
        complete = self.completion is not None
        agree = {
            "views": len(self.steps) == len(self.blanks) == len(self.counts) == n > 0,
            "completion": complete == (self.missing == "complete"),
        }
        if self.completion is not None:
            agree["tables"] = len(self.completion.tables) == n
        require_all("Preparation", agree)

    def fits(self, widths: list[int]) -> bool:
        """Whether scaling and completion are for as many columns as the views have."""
        known = all(
            step.n_columns in (None, width)
            for steps, width in zip(self.steps, widths, strict=True)
            for step in steps
        )
        blank = all(len(b) in (0, w) for b, w in zip(self.blanks, widths, strict=True))
        tables = [] if self.completion is None else self.completion.tables
        return (
            known
            and blank
            and all(t.shape[1] == w for t, w in zip(tables, widths, strict=False))
        )


def warn_of_empty(table: JoinedTable) -> None:
    """Warn where new rows lack every view."""
    empty = table.rows_without_views()
    if empty:
        warnings.warn(
            f"Row {empty[0]} lacks every view, and {len(empty)} such in all: nothing "
            "is known of them, and their scores are zero.",
            UserWarning,
            stacklevel=6,
        )


def rescale_present_views(table: JoinedTable) -> JoinedTable:
    r"""Rows times :math:`\sqrt{V / V_i}`, where row i has :math:`V_i` of V views.

    The mean over the views of a row's values with itself is then the same for all.
    """
    present = table.present_of_read
    if all(mask is None for mask in present):
        return table
    every = np.ones(table.shape[0], dtype=bool)
    counts = np.sum([every if p is None else p for p in present], axis=0)
    # Rows without any view have no kernel in which a factor would count.
    share = np.maximum(counts, 1) / len(present)
    return replace(table, stretch=1.0 / np.sqrt(share))


class _RowsOfView:
    """The rows that have a view; all of a sparse table, whose other rows are empty."""

    def __init__(self, table: Any, mask: np.ndarray | None) -> None:
        # Rows that lack the view are left out of scaling: their numbers are NaN.
        self.mask = mask
        self.index: Any = slice(None)
        self.values, self._shape = table, table.shape
        if mask is not None and not sp.issparse(table):
            self.index, self.values = mask, table[mask]

    def put_back(self, values: Any) -> Any:
        """Values of these rows at their places, NaN in the others."""
        if isinstance(self.index, slice):
            return values
        out = np.full(self._shape, np.nan)
        out[self.index] = values
        return out


def _mean_row(table: Any, counted: np.ndarray) -> np.ndarray:
    """The mean of the rows that count; zeros where no row does."""
    if sp.issparse(table):
        return np.zeros(0)
    kept = counted > 0.0
    if not kept.any():
        return np.zeros(table.shape[1])
    return np.asarray(table[kept].mean(axis=0))


def _by_view(wanted: Any, names: list[str]) -> Mapping[str, Any]:
    """The scale of every view."""
    if not isinstance(wanted, Mapping):
        return dict.fromkeys(names, wanted)
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise ValueError(
            f"scale must name views, which are {', '.join(names)}, got "
            f"{unknown[0]!r}; choose among these."
        )
    return {name: wanted.get(name) for name in names}


@contextmanager
def _in_view(view: str) -> Iterator[None]:
    """Name the view in errors about its numbers."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not view or str(error).startswith("view "):
            raise
        raise type(error)(f"view {view!r}: {error}") from error


def _require_usable(values: Any, given: Any) -> None:
    """Raise where scaled values are not finite, or have another number of columns."""
    if values.shape != given.shape:
        raise ValueError(
            f"scale must keep the columns of a view, got {values.shape[1]} of "
            f"{given.shape[1]}; transform the view before fit."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum has finite terms, and needs no array of flags.
        if np.isfinite(values.sum()):
            return
    scaled = _bad_rows(values)
    if not scaled:
        return
    # The input is to blame unless it is finite itself.
    rows = _bad_rows(given)  # one NaN spoils the scale of a whole column
    if not rows:
        raise ValueError(
            f"values must be finite numbers after scaling, got an overflow in {scaled} "
            f"row{'s' * (scaled != 1)}; check that they are of the size of training "
            "rows."
        )
    raise ValueError(
        f"values must be finite or missing for a whole row, got NaN or infinity in "
        f"part of {rows} row{'s' * (rows != 1)}; fill them, for instance with "
        "scale='impute+standard'."
    )


def _bad_rows(values: Any) -> int:
    """How many rows, or entries of a sparse table, are not finite."""
    bad = ~np.isfinite(values.data if sp.issparse(values) else values)
    return int(bad.any(axis=1).sum()) if bad.ndim == 2 else int(bad.sum())


def _require_some_view(table: JoinedTable, weight: np.ndarray) -> None:
    empty = [row for row in table.rows_without_views() if weight[row] > 0.0]
    if empty:
        raise ValueError(
            f"every training row must have some view, got none for row {empty[0]}, "
            f"and {len(empty)} such in all; drop them."
        )


def _require_all_views(table: JoinedTable) -> None:
    for v, (name, mask) in enumerate(zip(table.names, table.present, strict=True)):
        if mask is not None and v not in table.unread:
            raise ValueError(
                "missing='refuse' needs all views of all rows, got "
                f"{int((~mask).sum())} rows that lack {name!r}; drop them, or choose "
                "missing='rescale' or 'complete'."
            )
