"""Times until an event to predict, some of them censored; Harrell's concordance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from manykernels.hot.ranks import count_pairs
from manykernels.losses import CensoredEpsilonInsensitive
from manykernels.targets.base import (
    Gains,
    Predictions,
    Targets,
    missing_target,
    score_predictions,
    weighted_rows,
)

TIME_COLUMNS = ("time", "times", "duration", "survival_time", "t")
EVENT_COLUMNS = ("event", "events", "observed", "status", "death", "died", "e")
TIMES_ADVICE = (
    "pass the pair (time, event), an array with these two columns, a data frame with "
    "the columns time and event, or a structured array of a boolean and a number"
)


@dataclass(frozen=True, kw_only=True)
class Times(Targets):
    """Times and events of the rows of positive weight.

    Attributes
    ----------
    times : array of shape (rows, 2)
        Times, or their logarithms, and 1 for an event or 0 for a censored time.
    intercept : float
        The constant that costs least, or zero.
    loss : CensoredEpsilonInsensitive or None
    center : bool
        Whether the intercept is taken off the times to learn.

    Examples
    --------
    >>> times = Times.of(([1.0, 4.0, 9.0], [1, 1, 0]), log=False)
    >>> times.target.tolist()
    [[1.0, 1.0], [4.0, 1.0], [9.0, 0.0]]
    """

    times: np.ndarray
    intercept: float = 0.0
    loss: CensoredEpsilonInsensitive | None = None
    center: bool = False

    task: ClassVar[str] = "survival"
    metric: ClassVar[str] = "concordance"
    rows_per_gain: ClassVar[int] = 2

    @classmethod
    def of(
        cls,
        y: Any,
        sample_weight: Any = None,
        *,
        n_rows: int | None = None,
        log: bool = True,
        loss: CensoredEpsilonInsensitive | None = None,
        center: bool = False,
        owner: str = "MKLSurvival",
    ) -> Times:
        """Read and check times, events and weights; `n_rows` are those of X.

        `log` takes the logarithms of times; `center` needs a loss.
        """
        if y is None:
            raise missing_target(owner, TIMES_ADVICE)
        time, event = read_times(y)
        _require_range(time, log)
        kept, weight = weighted_rows(time, sample_weight, n_rows)
        time, event = time[kept], event[kept]
        _require_event(event)
        times = np.column_stack([np.log(time) if log else time, event])
        whole = cls(
            kept=kept,
            weight=weight,
            target=times,
            times=times,
            loss=loss,
            center=center,
        )
        return whole.take(slice(None))

    @property
    def y(self) -> np.ndarray:
        return self.times

    @property
    def strata(self) -> np.ndarray:
        """Every fold has the same share of events."""
        return self.times[:, 1]

    @property
    def n_outputs(self) -> int:
        return 1

    def take(self, rows: Any) -> Times:
        """Some of the rows, with an intercept of their own."""
        times, weight, intercept = self.times[rows], self.weight[rows], 0.0
        if self.center:
            assert self.loss is not None
            intercept = self.loss.best_constant(times, weight)
        return replace(
            self,
            kept=self.kept[rows],
            weight=weight,
            target=times - [intercept, 0.0],
            times=times,
            intercept=intercept,
        )

    def score(
        self,
        held_out: Times,
        scores: np.ndarray,
        scoring: Any = None,
        weighted: bool = False,
    ) -> np.ndarray:
        # Only the order of the scores counts: no intercept is added.
        weight = held_out.weight if weighted else None
        predictions = PredictedTimes(scores[:, 0])
        return np.array(
            [score_predictions(scoring, predictions, held_out.times, weight)]
        )

    def score_of(self, scores: np.ndarray) -> float:
        return concordance_index(self.times, -scores, self.weight)

    def scores_by(self, estimator: Any, X: Any) -> np.ndarray:
        """Higher for later events."""
        return -np.asarray(estimator.predict_risk(X)).reshape(-1, 1)

    def predictions(self, scores: np.ndarray) -> Predictions:
        return PredictedTimes(scores[:, 0])

    def gains(
        self,
        parts: np.ndarray,
        center: bool = True,
        variance: np.ndarray | None = None,
    ) -> Gains:
        r"""Parts of :math:`s_j - s_i` over all pairs in which i is known to come first.

        A row's gain sums its pairs, so every pair counts in both of its rows. Sums over
        the rows in order of their times take O(n log n).

        Examples
        --------
        >>> times = Times.of(([1.0, 2.0, 4.0], [1, 0, 1]), log=False)
        >>> gains = times.gains(np.array([[0.0], [5.0], [3.0]]))
        >>> gains.gain.ravel().tolist(), gains.count.tolist()
        ([8.0, 5.0, 3.0], [2.0, 1.0, 1.0])
        """
        # An event comes before what is censored at the same time.
        order = np.lexsort([-self.times[:, 1], self.times[:, 0]])
        gains = _pair_sums(parts[order], self.times[order], self.weight[order])
        back = np.argsort(order)
        return Gains(gains.gain[back], gains.count[back])


def _pair_sums(parts: np.ndarray, times: np.ndarray, weight: np.ndarray) -> Gains:
    """Gains of rows in order of their times; equal times and events make no pair."""
    changes = np.flatnonzero(np.any(np.diff(times, axis=0) != 0.0, axis=1)) + 1
    edges = np.concatenate([[0], changes, [len(times)]])
    tie = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    event = times[:, 1:]
    values = weight[:, None] * np.column_stack([np.ones(len(parts)), parts])
    later = (values.sum(axis=0) - _sums_before(values)[edges[tie + 1]]) * event
    earlier = _sums_before(values * event)[edges[tie]]
    gain = later[:, 1:] - later[:, :1] * parts + earlier[:, :1] * parts - earlier[:, 1:]
    return Gains(gain, later[:, 0] + earlier[:, 0])


def _sums_before(values: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])


class PredictedTimes(Predictions):
    """A survival model that predicts the given times, or what rises with them."""

    def __init__(self, times: Any = None) -> None:
        self.times = times

    def predict(self, X: Any) -> Any:
        """The times."""
        return self.times

    def predict_risk(self, X: Any) -> Any:
        """Higher for earlier events."""
        return -np.asarray(self.times)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Harrell's concordance."""
        return concordance_index(y, self.predict_risk(X), sample_weight)


# --- times and events from any form of y ----------------------------------------------


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
            f"{len(event)} events; {TIMES_ADVICE}."
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
            f"y must have a time and an event for every row, got {got}; {TIMES_ADVICE}."
        )
    return table[:, 0], table[:, 1]


def _is_pair(y: Any) -> bool:
    """Whether these are two columns, not two rows: rows of a list have two entries."""
    # A list of two rows would be two pairs of a time and an event.
    if isinstance(y, tuple):
        return len(y) == 2
    return isinstance(y, list) and len(y) == 2 and all(_n_entries(v) > 2 for v in y)


def _n_entries(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") else 0


def _by_name(columns: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of which one is boolean, or those with the usual names."""
    arrays = {name: _column(values) for name, values in columns.items()}
    # A boolean column can only be the events, whatever it is called.
    flags = [name for name, values in arrays.items() if values.dtype.kind == "b"]
    if len(arrays) == 2 and len(flags) == 1:
        (time,) = set(arrays) - set(flags)
        return arrays[time], arrays[flags[0]]
    times, events = _named(arrays, TIME_COLUMNS), _named(arrays, EVENT_COLUMNS)
    if len(times) != 1 or len(events) != 1:
        raise ValueError(
            "y must have one column of times and one of events, got the columns "
            f"{[str(name) for name in arrays][:8]}; name them 'time' and 'event', or "
            "pass the pair (time, event)."
        )
    return arrays[times[0]], arrays[events[0]]


def _named(columns: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    return [name for name in columns if str(name).lower() in names]


def _column(values: Any) -> np.ndarray:
    array = _array(values)
    if array.ndim != 1:
        raise ValueError(
            f"y must have one time and one event per row, got the shape {array.shape} "
            f"for one of the two; {TIMES_ADVICE}."
        )
    return array


def _array(values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"y must have a time and an event for every row, got rows that differ; "
            f"{TIMES_ADVICE}."
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


# --- Harrell's concordance ------------------------------------------------------------


def concordance_index(
    y: Any, risk: Any, sample_weight: Any = None, tied_tol: float = 1e-8
) -> float:
    """Share of comparable pairs in which the earlier event has the higher risk.

    A pair is comparable if it is known who came first: an event, and a row with a
    longer time or, without an event, the same time. Risks that differ by at most
    `tied_tol` count one half. 0.5 is what guessing gives. Takes O(n log n) time.

    Parameters
    ----------
    y : times and events, as in :class:`manykernels.MKLSurvival`
    risk : array of shape (n,)
        Higher for earlier events, as `predict_risk` gives it; minus a predicted time.
    sample_weight : array of shape (n,), optional
        A pair counts the product of its weights: k stands for k copies.
    tied_tol : float, default=1e-8

    Examples
    --------
    >>> time, event = [1, 2, 3, 4], [1, 1, 0, 1]
    >>> concordance_index((time, event), [4.0, 3.0, 2.0, 1.0])
    1.0
    >>> concordance_index((time, event), [4.0, 1.0, 2.0, 1.0])  # 3.5 of 5 pairs
    0.7
    """
    time, event = read_times(y)
    risk = _one_per_row("risk", risk, len(time))
    weight = np.ones(len(time))
    if sample_weight is not None:
        weight = _one_per_row("sample_weight", sample_weight, len(time))
    # From late to early times: every row is compared with those already counted.
    order = np.argsort(-time, kind="stable")
    time, event, risk, weight = (v[order] for v in (time, event, risk, weight))
    ranked = np.sort(risk)
    pairs, right, tied = count_pairs(
        np.searchsorted(ranked, risk),
        np.searchsorted(ranked, risk - tied_tol, side="left"),
        np.searchsorted(ranked, risk + tied_tol, side="right"),
        event,
        time,
        weight,
    )
    if pairs <= 0.0:
        raise ValueError(
            "y must have an event with a row that is known to be later, got no such "
            f"pair among {len(time)} rows; take more rows."
        )
    return float((right + 0.5 * tied) / pairs)


def _one_per_row(name: str, values: Any, n_rows: int) -> np.ndarray:
    numbers = np.asarray(values)
    numeric = numbers.dtype.kind in "biuf" and numbers.shape == (n_rows,)
    if not numeric or not np.isfinite(numbers).all():
        got = "some that are not" if numeric else f"{numbers.dtype} of {numbers.shape}"
        raise ValueError(
            f"{name} must hold one finite number for each of the {n_rows} rows of y, "
            f"got {got}; check it."
        )
    return numbers.astype(np.float64)
