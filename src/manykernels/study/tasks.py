"""What a kernel does for a prediction, row by row: labels, numbers, times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import r2_score

from manykernels.base.tables import count_rows
from manykernels.targets import Labels, Times, Values, concordance_index


@dataclass(frozen=True)
class Gains:
    """What every part gains in every row: mean gain = sum(w gain) / sum(w count)."""

    gain: np.ndarray  # (rows, parts)
    count: np.ndarray  # (rows,)


@dataclass(frozen=True)
class LabelTask:
    r"""Parts of the margin, :math:`a_{f, y_i}(x_i) - a_{f, k_i}(x_i)`.

    :math:`k_i` is the strongest other class of the whole model, so that the parts add
    up to the margin of the row. `center` first takes the mean over the rows off every
    :math:`a_f`: a constant that favors the commonest class then gains nothing.

    Examples
    --------
    >>> task = LabelTask(np.array([0, 1]), np.ones(2), np.array(["a", "b"]), False)
    >>> task.gains(np.array([[-2.0, 0.5], [3.0, 1.0]])).gain.tolist()
    [[2.0, -0.5], [3.0, 1.0]]
    """

    target: np.ndarray  # (rows,) positions of the classes
    weight: np.ndarray  # (rows,)
    classes: np.ndarray
    center: bool = True

    overlap = 1  # rows that a gain depends on

    def gains(self, parts: np.ndarray) -> Gains:
        """From parts of shape (rows, parts), or with the classes behind."""
        # The mean direction adds nothing to sums of centered parts, but errors of a
        # covariance are those with both means taken off.
        towards = self._centered(self._directions(parts))
        gain = np.einsum("ifk,ik->if", self._deep(parts), towards)
        return Gains(gain, np.ones(len(self.target)))

    def by_class(self, parts: np.ndarray) -> np.ndarray:
        """Sums over the rows of every class, shape (classes, parts)."""
        towards = self._directions(parts) * self.weight[:, None]
        gain = np.einsum("ifk,ik->if", self._deep(parts), towards)
        return np.asarray(np.eye(len(self.classes))[self.target].T @ gain)

    def _directions(self, parts: np.ndarray) -> np.ndarray:
        """1 for the true class and -1 for its rival; the sign of one difference."""
        if parts.ndim == 2:
            return (2.0 * self.target - 1.0)[:, None]
        rows, others = np.arange(len(self.target)), parts.sum(axis=1)
        others[rows, self.target] = -np.inf
        found = np.zeros_like(others)
        found[rows, others.argmax(axis=1)] = -1.0
        found[rows, self.target] = 1.0
        return found

    def _deep(self, parts: np.ndarray) -> np.ndarray:
        return self._centered(parts.reshape(*parts.shape[:2], -1))

    def _centered(self, values: np.ndarray) -> np.ndarray:
        if not self.center:
            return values
        return np.asarray(values - np.average(values, axis=0, weights=self.weight))

    def score(self, scores: np.ndarray) -> float:
        """The accuracy."""
        chosen = scores > 0.0 if scores.ndim == 1 else scores.argmax(axis=1)
        return float(np.average(chosen == self.target, weights=self.weight))

    def take(self, rows: Any) -> LabelTask:
        """Some of the rows."""
        return replace(self, target=self.target[rows], weight=self.weight[rows])


@dataclass(frozen=True)
class ValueTask:
    r"""Parts of the covariance, :math:`(a_f(x_i) - \bar a_f)(y_i - \bar y) / v`.

    v is the variance of the target; means over targets where there are several.

    Examples
    --------
    >>> target = np.array([[1.0], [2.0], [3.0]])
    >>> task = ValueTask(target, np.ones(3), np.zeros(1), np.array([2 / 3]))
    >>> gains = task.gains(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]))
    >>> gains.gain.mean(axis=0)
    array([1., 0.])
    """

    target: np.ndarray  # (rows, targets)
    weight: np.ndarray  # (rows,)
    intercept: np.ndarray  # (targets,)
    variance: np.ndarray  # (targets,)

    overlap = 1

    def gains(self, parts: np.ndarray) -> Gains:
        """From parts of shape (rows, parts), or with the targets behind."""
        return Gains(self.by_target(parts).mean(axis=2), np.ones(len(self.target)))

    def by_target(self, parts: np.ndarray) -> np.ndarray:
        """Gains of every target, shape (rows, parts, targets)."""
        parts = parts.reshape(*parts.shape[:2], -1)
        off = self.target - np.average(self.target, axis=0, weights=self.weight)
        moved = parts - np.average(parts, axis=0, weights=self.weight)
        return np.asarray(moved * (off / self.variance)[:, None])

    def score(self, scores: np.ndarray) -> float:
        """R^2, the mean over targets."""
        predicted = scores.reshape(len(scores), -1) + self.intercept
        return float(r2_score(self.target, predicted, sample_weight=self.weight))

    def take(self, rows: Any) -> ValueTask:
        """Some of the rows."""
        return replace(self, target=self.target[rows], weight=self.weight[rows])


@dataclass(frozen=True)
class TimeTask:
    r"""Parts of :math:`s_j - s_i` over all pairs in which i is known to come first.

    A row's gain sums its pairs, so every pair counts in both of its rows.

    Examples
    --------
    >>> task = TimeTask(np.array([[1.0, 1.0], [2.0, 0.0], [4.0, 1.0]]), np.ones(3))
    >>> gains = task.gains(np.array([[0.0], [5.0], [3.0]]))
    >>> gains.gain.ravel().tolist(), gains.count.tolist()
    ([8.0, 5.0, 3.0], [2.0, 1.0, 1.0])
    """

    target: np.ndarray  # (rows, 2) times and events
    weight: np.ndarray  # (rows,)

    overlap = 2

    def gains(self, parts: np.ndarray) -> Gains:
        """In O(n log n), from sums over the rows in order of their times."""
        time, event = self.target.T
        order = np.lexsort([-event, time])  # an event before what is censored then
        found = _pair_sums(parts[order], self.target[order], self.weight[order])
        back = np.argsort(order)
        return Gains(found.gain[back], found.count[back])

    def score(self, scores: np.ndarray) -> float:
        """Harrell's concordance."""
        return concordance_index(self.target, -scores, self.weight)

    def take(self, rows: Any) -> TimeTask:
        """Some of the rows."""
        return replace(self, target=self.target[rows], weight=self.weight[rows])


Task = LabelTask | ValueTask | TimeTask


def _pair_sums(parts: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Gains:
    """Gains of rows that are in order; equal times and events know no order."""
    changes = np.flatnonzero(np.any(np.diff(target, axis=0) != 0.0, axis=1)) + 1
    edges = np.concatenate([[0], changes, [len(target)]])
    tie = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    event = target[:, 1:]
    values = weight[:, None] * np.column_stack([np.ones(len(parts)), parts])
    later = (values.sum(axis=0) - _sums_before(values)[edges[tie + 1]]) * event
    earlier = _sums_before(values * event)[edges[tie]]
    gain = later[:, 1:] - later[:, :1] * parts + earlier[:, :1] * parts - earlier[:, 1:]
    return Gains(gain, later[:, 0] + earlier[:, 0])


def _sums_before(values: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])


# --- from estimators and y ------------------------------------------------------------


def kind_of(estimator: Any) -> str:
    """Labels, values or times; a TypeError for what has no kernels to judge."""
    if hasattr(estimator, "kernel_contributions"):
        if hasattr(estimator, "predict_risk"):
            return "times"
        if is_classifier(estimator):
            return "labels"
        if is_regressor(estimator):
            return "values"
    raise TypeError(
        "estimator must be an MKLClassifier, MKLRegressor, MKLSurvival or a relative "
        f"of these with kernel_contributions, got {type(estimator).__name__}; pass the "
        "estimator itself, without a pipeline or a search around it."
    )


def read_task(
    model: Any, X: Any, y: Any, sample_weight: Any, center: bool, variance: Any = None
) -> tuple[Task, np.ndarray]:
    """What is to be predicted, and which rows count: those of positive weight."""
    kind = kind_of(model)
    if kind == "labels":
        return _labels(model, X, y, sample_weight, center)
    if kind == "times":
        times = Times.of(y, sample_weight, n_rows=count_rows(X), log=False)
        return TimeTask(times.target, times.weight), times.kept
    values = Values.of(y, sample_weight, n_rows=count_rows(X), center=False)
    if variance is None:
        variance = variance_of(values.target, values.weight)
    intercept = np.atleast_1d(model.intercept_)
    if len(intercept) != values.target.shape[1]:
        raise ValueError(
            f"y must have as many targets as in fit, {len(intercept)}, got "
            f"{values.target.shape[1]}; pass the same targets."
        )
    task = ValueTask(values.target, values.weight, intercept, variance)
    return task, values.kept


def task_of(estimator: Any, rows: Any) -> Task:
    """The same for rows that an estimator has read for a fit."""
    kind = kind_of(estimator)
    if kind == "labels":
        return LabelTask(rows.target, rows.weight, rows.classes)
    if kind == "times":
        return TimeTask(rows.target, rows.weight)
    variance = np.var(rows.target, axis=0)
    variance[variance == 0.0] = 1.0  # of a target that gives no gains
    return ValueTask(rows.target, rows.weight, np.zeros_like(variance), variance)


def _labels(
    model: Any, X: Any, y: Any, weight: Any, center: bool
) -> tuple[LabelTask, np.ndarray]:
    known = model.classes_
    unknown = np.setdiff1d(np.asarray(y), known)
    if len(unknown):
        raise ValueError(
            f"y must hold labels that the model was fitted on, {known.tolist()}, got "
            f"{unknown.tolist()} as well; leave such rows out, or stratify the folds."
        )
    rows = Labels.of(y, weight, n_rows=count_rows(X), classes=known)
    return LabelTask(rows.target, rows.weight, known, center), rows.kept


def variance_of(target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Of every target; a target that never changes cannot be explained.

    Examples
    --------
    >>> variance_of(np.array([[1.0], [3.0]]), np.ones(2))
    array([1.])
    """
    mean = np.average(target, axis=0, weights=weight)
    found = np.average((target - mean) ** 2, axis=0, weights=weight)
    if not np.all(found > 0.0):
        raise ValueError(
            "y must differ between rows, got the same number in all of them; pass "
            "other rows."
        )
    return np.asarray(found)
