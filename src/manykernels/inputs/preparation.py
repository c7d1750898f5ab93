"""What a model does to the numbers of its views before any kernel reads them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.stored import (
    TEXTS,
    Floats,
    ListOf,
    Maybe,
    OneOf,
    Part,
    Wholes,
    require_all,
    storable,
)
from manykernels.inputs.joined import JoinedTable
from manykernels.inputs.missing import (
    STRATEGIES,
    Completion,
    rows_without_views,
    stretched,
)
from manykernels.inputs.scaling import (
    STEPS,
    Shift,
    Step,
    apply_steps,
    fit_steps,
    read_scale,
    require_plain,
)
from manykernels.kernels.widths import row_copies

logger = logging.getLogger(__name__)


@storable(
    names=TEXTS,
    steps=ListOf(ListOf(Part(*STEPS))),
    blanks=ListOf(Floats(None)),
    missing=OneOf(*STRATEGIES),
    completion=Maybe(Part(Completion)),
    counts=Wholes(None, low=0),
)
@dataclass
class Preparation:
    """Scaling of every view, and what becomes of rows that lack one.

    Attributes
    ----------
    names : list of str
        Of the views; one empty name for a plain table.
    steps : list of lists
        The scaling of every view, see :mod:`manykernels.inputs.scaling`.
    blanks : list of arrays
        What stands in a dense row that lacks the view; no kernel sees it.
    missing : str
        See :data:`manykernels.inputs.missing.STRATEGIES`.
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
    def fit(
        cls, table: JoinedTable, scale: Any, missing: str, weight: np.ndarray
    ) -> tuple[Preparation, JoinedTable]:
        """Fit on the rows of positive weight; also the prepared table."""
        empty = [row for row in rows_without_views(table) if weight[row] > 0.0]
        if empty:
            raise ValueError(
                f"every training row must have some view, got none for row {empty[0]}, "
                f"and {len(empty)} such in all; drop them."
            )
        copies, wanted = row_copies(weight, len(weight)), _by_view(scale, table.names)
        steps: list[list[Step]] = []
        blanks, counts = [], []
        for v, name in enumerate(table.names):
            here = table.present[v]
            own = copies if here is None else copies * here
            counts.append(int(np.count_nonzero(own)))
            blanks.append(np.zeros(0))
            if v in table.unread:
                steps.append([])
                continue
            if counts[-1] == 0:
                raise ValueError(
                    f"view {name!r} must be there for some training row, got none; "
                    "leave it out."
                )
            with _in_view(name):
                steps.append(fit_steps(wanted[name], table.tables[v], own))
        found = cls(list(table.names), steps, blanks, missing, None, np.array(counts))
        found._log_constants()
        scaled = found._scaled(table)
        for v, values in enumerate(scaled.tables):
            if not sp.issparse(values):
                here = scaled.present[v]
                kept = weight > 0.0 if here is None else (weight > 0.0) & here
                blank = np.zeros(values.shape[1])
                unread = v in table.unread
                found.blanks[v] = blank if unread else values[kept].mean(axis=0)
        if missing == "complete":
            found.completion = Completion.fit(found._filled(scaled), copies)
        return found, found._present(scaled)

    def apply(self, table: JoinedTable) -> JoinedTable:
        """New rows as the kernels shall see them."""
        return self._present(self._scaled(table))

    def _scaled(self, table: JoinedTable) -> JoinedTable:
        """Every view scaled; rows that lack it are left at NaN."""
        tables = []
        for v, name in enumerate(self.names):
            with _in_view(name):
                tables.append(self._scale(v, table.tables[v], table.present[v]))
        return replace(table, tables=tables)

    def _scale(self, v: int, values: Any, here: np.ndarray | None) -> Any:
        steps = self.steps[v]
        if here is None or sp.issparse(values):
            out = apply_steps(steps, values)
        else:
            out = np.full(values.shape, np.nan)
            if here.any():
                out[here] = apply_steps(steps, values[here])
        if out.shape != values.shape:
            raise ValueError(
                f"scale must keep the columns of a view, got {out.shape[1]} of "
                f"{values.shape[1]}; transform the view before fit."
            )
        if here is None or sp.issparse(out):  # rows of which would be a copy
            _require_finite(out, values)
        else:
            _require_finite(out[here], values[here])
        return out

    def _filled(self, table: JoinedTable) -> JoinedTable:
        """No NaN any more: what is absent holds some numbers that nobody sees."""
        tables = list(table.tables)
        for v, here in enumerate(table.present):
            if here is not None and not sp.issparse(tables[v]):
                tables[v] = np.where(here[:, None], tables[v], self.blanks[v])
        return replace(table, tables=tables)

    def _present(self, table: JoinedTable) -> JoinedTable:
        """The chosen way with rows that lack a view."""
        table = self._filled(table)
        if self.missing == "refuse":
            _require_all_views(table)
        if self.completion is not None:
            table = self.completion.apply(table)
        return table if self.missing == "zero" else stretched(table)

    def _log_constants(self) -> None:
        """One line per view about columns that are the same in all rows."""
        for name, steps in zip(self.names, self.steps, strict=True):
            fixed = [step for step in steps if isinstance(step, Shift)]
            count = sum(int(np.sum(step.factor == 0.0)) for step in fixed)
            if count:
                where = f"view {name!r}" if name else "the table"
                logger.info("%s: %d constant or unread columns ignored", where, count)

    def require_saveable(self) -> None:
        """Raise where a scale is an object that no file can hold."""
        for name, steps in zip(self.names, self.steps, strict=True):
            require_plain(steps, name)

    def require_sound(self) -> None:
        """As many of everything as there are views, with as many columns."""
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
        """Whether scaling and completion know as many columns as the views have."""
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
    """Warn where nothing is known of a new row."""
    empty = rows_without_views(table)
    if empty:
        warnings.warn(
            f"Row {empty[0]} lacks every view, and {len(empty)} such in all: nothing "
            "is known of them, and their scores are zero.",
            UserWarning,
            stacklevel=6,
        )


def _by_view(scale: Any, names: list[str]) -> Mapping[str, Any]:
    """What is wanted for every view."""
    wanted = read_scale(scale)
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
    """Errors about numbers say which view they are in, where it has a name."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not view or str(error).startswith("view "):
            raise
        raise type(error)(f"view {view!r}: {error}") from error


def _require_finite(values: Any, given: Any) -> None:
    """Raise where scaled numbers are none, because those given are not, or overflow."""
    scaled = _bad_rows(values)
    if not scaled:
        return
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


def _require_all_views(table: JoinedTable) -> None:
    for v, (name, here) in enumerate(zip(table.names, table.present, strict=True)):
        if here is not None and v not in table.unread:
            raise ValueError(
                "missing='refuse' needs all views of all rows, got "
                f"{int((~here).sum())} rows that lack {name!r}; drop them, or choose "
                "missing='rescale' or 'complete'."
            )
