"""Times and events, in every shape that people keep them in: checked here, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.inputs.data import TrainingValues
from manykernels.inputs.refusals import plain_refusals

TIMES = ("time", "times", "duration", "survival_time", "t")
EVENTS = ("event", "events", "observed", "status", "death", "died", "e")
ADVICE = (
    "pass the pair (time, event), an array with these two columns, a data frame with "
    "the columns time and event, or a structured array of a boolean and a number"
)


@dataclass(frozen=True)
class TrainingTimes:
    """The rows to learn from: those with a positive weight.

    A row of weight zero is a row that is not there.
    """

    kept: np.ndarray  # positions in X
    target: np.ndarray  # (kept rows, 2): time less the intercept, 1 for an event or 0
    weight: np.ndarray  # positive weight of each kept row
    intercept: float = 0.0

    @classmethod
    @plain_refusals()
    def of(
        cls, X: Any, y: Any, sample_weight: Any = None, log: bool = True
    ) -> TrainingTimes:
        """Check times, events and weights of a checked X; take logarithms of times."""
        if y is None:
            # Opens as scikit-learn's own message does, for tools that look for it.
            raise ValueError(
                "This MKLSurvival estimator requires y to be passed, but the target y "
                f"is None; {ADVICE}."
            )
        time, event = read_times(y)
        _require_range(time, log)
        values = np.column_stack([time, event])
        rows = TrainingValues.of(X, values, sample_weight, center=False)
        _require_event(rows.target[:, 1])
        if log:
            rows.target[:, 0] = np.log(rows.target[:, 0])
        return cls(rows.kept, rows.target, rows.weight)

    def less(self, intercept: float) -> TrainingTimes:
        """The same rows with a constant taken off the times."""
        target = self.target - [intercept, 0.0]
        return replace(self, target=target, intercept=intercept)


def read_times(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Times as floats and events as booleans, from any shape of `y`.

    Examples
    --------
    >>> read_times(([5, 8.5], [1, 0]))
    (array([5. , 8.5]), array([ True, False]))
    >>> found = np.array([(True, 5.0)], dtype=[("died", bool), ("days", float)])
    >>> read_times(found)
    (array([5.]), array([ True]))
    """
    time, event = _two_columns(y)
    if len(time) != len(event):
        raise ValueError(
            f"y must have as many times as events, got {len(time)} times and "
            f"{len(event)} events; {ADVICE}."
        )
    return _finite(time), _flags(event)


def _two_columns(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The column of times and that of events, as they come."""
    if getattr(getattr(y, "dtype", None), "names", None):
        return _by_name({name: y[name] for name in y.dtype.names})
    if isinstance(y, Mapping) or hasattr(y, "columns"):
        names = y.columns if hasattr(y, "columns") else y
        return _by_name({name: y[name] for name in names})
    if _is_pair(y):
        return _column(y[0]), _column(y[1])
    table = _array(y)
    if table.ndim != 2 or table.shape[1] != 2:
        got = "one column" if table.ndim == 1 else f"the shape {table.shape}"
        raise ValueError(
            f"y must have a time and an event for every row, got {got}; {ADVICE}."
        )
    return table[:, 0], table[:, 1]


def _is_pair(y: Any) -> bool:
    """Whether these are two columns, not two rows: rows of a list have two entries."""
    if isinstance(y, tuple):
        return len(y) == 2
    return isinstance(y, list) and len(y) == 2 and all(_n_entries(v) > 2 for v in y)


def _n_entries(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") else 0


def _by_name(columns: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of which one is boolean, or those with the names of our lists."""
    found = {name: _column(values) for name, values in columns.items()}
    flags = [name for name, values in found.items() if values.dtype.kind == "b"]
    if len(found) == 2 and len(flags) == 1:
        (time,) = set(found) - set(flags)
        return found[time], found[flags[0]]
    times, events = _named(found, TIMES), _named(found, EVENTS)
    if len(times) != 1 or len(events) != 1:
        raise ValueError(
            "y must have one column of times and one of events, got the columns "
            f"{[str(name) for name in found][:8]}; name them 'time' and 'event', or "
            "pass the pair (time, event)."
        )
    return found[times[0]], found[events[0]]


def _named(columns: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    return [name for name in columns if str(name).lower() in names]


def _column(values: Any) -> np.ndarray:
    array = _array(values)
    if array.ndim != 1:
        raise ValueError(
            f"y must have one time and one event per row, got the shape {array.shape} "
            f"for one of the two; {ADVICE}."
        )
    return array


def _array(values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"y must have a time and an event for every row, got rows that differ; "
            f"{ADVICE}."
        ) from error


def _finite(values: np.ndarray) -> np.ndarray:
    """Times as float64."""
    times = _numbers(values)
    odd = ~np.isfinite(times)
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(
            f"y must have times that are finite numbers, got {values[row]!s} in row "
            f"{row}; drop such rows first."
        )
    return times


def _flags(values: np.ndarray) -> np.ndarray:
    """Events as booleans."""
    codes = _numbers(values)
    odd = (codes != 0.0) & (codes != 1.0)
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(
            "y must have events that are True or 1 where the event was seen and False "
            f"or 0 where it was not, got {values[row]!s} in row {row}; code them so, "
            "and put times before events in pairs and arrays."
        )
    return codes == 1.0


def _numbers(values: np.ndarray) -> np.ndarray:
    """As float64; NaN stands for everything that is no number."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([_number(value) for value in values.tolist()])


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _require_range(time: np.ndarray, log: bool) -> None:
    good = time > 0.0 if log else time >= 0.0
    if not good.all():
        row = int(np.argmin(good))
        wanted = "positive" if log else "at least zero"
        more = ", or pass time_scale='linear'" if log and time[row] == 0.0 else ""
        raise ValueError(
            f"y must have times that are {wanted}, got {time[row]:g} in row {row}; "
            f"correct or drop such rows{more}."
        )


def _require_event(event: np.ndarray) -> None:
    if not event.any():
        raise ValueError(
            f"y must have at least one event, got none in {len(event)} rows of "
            "positive weight; check that events are coded 1 and censored rows 0."
        )
