"""Numbers to predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array

from manykernels.base.quoted import described
from manykernels.losses import Loss
from manykernels.targets.base import (
    Gains,
    PartitionSummary,
    Predictions,
    Targets,
    missing_target,
    read_partition_weights,
    score_predictions,
    weighted_rows,
)


@dataclass(frozen=True, kw_only=True)
class Values(Targets):
    """Numbers of the rows of positive weight.

    Attributes
    ----------
    values : array of shape (rows, targets)
        As they came.
    intercept : array of shape (targets,)
        Weighted mean of the values, or zeros.
    center : bool
        Whether the mean is taken off the values to learn.
    flat : bool
        Whether y has the shape (rows,).

    Examples
    --------
    >>> values = Values.of([1.0, 3.0, 9.0], [1.0, 1.0, 0.0])
    >>> values.target.ravel().tolist(), values.intercept.tolist()
    ([-1.0, 1.0], [2.0])
    >>> values.take([1]).intercept.tolist()
    [3.0]
    """

    values: np.ndarray
    intercept: np.ndarray
    center: bool = True
    flat: bool = True

    task: ClassVar[str] = "regression"
    metric: ClassVar[str] = "R²"

    @classmethod
    def of(
        cls,
        y: Any,
        sample_weight: Any = None,
        *,
        n_rows: int | None = None,
        center: bool = True,
        loss: Loss | None = None,
        per_target: bool = False,
        owner: str = "MKLRegressor",
    ) -> Values:
        """Read and check values and weights; `n_rows` are those of X."""
        y = read_values(y, owner)
        kept, weight = weighted_rows(y, sample_weight, n_rows)
        values = y[kept].reshape(len(kept), -1)
        intercept = _intercept(values, weight, center)
        return cls(
            kept=kept,
            weight=weight,
            target=values - intercept,
            loss=loss,
            per_target=per_target,
            values=values,
            intercept=intercept,
            center=center,
            flat=y.ndim == 1,
        )

    @classmethod
    def summarize(cls, y: Any, sample_weight: Any, owner: str) -> PartitionSummary:
        """Weighted sums over one partition."""
        y = np.asarray(y)
        weight = read_partition_weights(sample_weight, len(y))
        if not weight.any():
            return PartitionSummary(len(y))
        sums = weight @ read_values(y, owner)
        return PartitionSummary(len(y), weight.max(), weight.sum(), np.asarray(sums))

    @classmethod
    def merge(
        cls,
        summaries: Sequence[PartitionSummary],
        *,
        center: bool = True,
        loss: Loss | None = None,
    ) -> Values:
        """Values of all partitions: one row, with their mean and their weight."""
        counted = [part for part in summaries if part.total > 0.0]
        weight = np.array([sum(part.total for part in counted)])
        sums = np.sum([part.groups for part in counted], axis=0)
        values = np.reshape(sums, (1, -1)) / weight
        intercept = _intercept(values, weight, center)
        return cls(
            kept=np.arange(1),
            weight=weight,
            target=values - intercept,
            loss=loss,
            values=values,
            intercept=intercept,
            center=center,
            flat=sums.ndim == 0,
        )

    def encode(self, y: Any, sample_weight: Any) -> Values:
        """The rows of one partition, less the mean of all of them."""
        y = np.asarray(y)
        if not read_partition_weights(sample_weight, len(y)).any():
            none, kept = self.values[:0], np.empty(0, np.intp)
            weight = np.empty(0)
            return replace(self, kept=kept, weight=weight, target=none, values=none)
        rows = Values.of(y, sample_weight, center=False, loss=self.loss)
        return replace(
            rows,
            target=rows.values - self.intercept,
            intercept=self.intercept,
            center=self.center,
        )

    @property
    def y(self) -> np.ndarray:
        return self.values[:, 0] if self.flat else self.values

    @property
    def n_outputs(self) -> int:
        return int(self.values.shape[1])

    def take(self, rows: Any) -> Values:
        """Some of the rows, with an intercept of their own."""
        values, weight = self.values[rows], self.weight[rows]
        intercept = _intercept(values, weight, self.center)
        return replace(
            self,
            kept=self.kept[rows],
            weight=weight,
            target=values - intercept,
            values=values,
            intercept=intercept,
        )

    def score(
        self,
        held_out: Values,
        scores: np.ndarray,
        scoring: Any = None,
        weighted: bool = False,
    ) -> np.ndarray:
        return held_out.score_predicted(scores + self.intercept, scoring, weighted)

    def score_predicted(
        self, predicted: np.ndarray, scoring: Any = None, weighted: bool = False
    ) -> np.ndarray:
        """Score of predictions of these rows: one, or one per target."""
        weight = self.weight if weighted else None
        pairs = [(self.values, predicted)]
        # One target is scored as a vector: some metrics take no column.
        if self.per_target or self.n_outputs == 1:
            pairs = list(zip(self.values.T, predicted.T, strict=True))
        scores_by_target = [
            score_predictions(scoring, PredictedValues(p), y, weight) for y, p in pairs
        ]
        return np.array(scores_by_target)

    def score_of(self, scores: np.ndarray) -> float:
        predicted = scores.reshape(len(scores), -1) + self.intercept
        return float(r2_score(self.values, predicted, sample_weight=self.weight))

    def scores_by(self, estimator: Any, X: Any) -> np.ndarray:
        return np.asarray(estimator.predict(X)).reshape(-1, self.n_outputs)

    def predictions(self, scores: np.ndarray) -> Predictions:
        return PredictedValues(scores[:, 0] if self.flat else scores)

    @property
    def variance(self) -> np.ndarray:
        """Of every target, shape (targets,).

        Examples
        --------
        >>> Values.of([1.0, 3.0]).variance
        array([1.])
        """
        mean = np.average(self.values, axis=0, weights=self.weight)
        squares = (self.values - mean) ** 2
        return np.asarray(np.average(squares, axis=0, weights=self.weight))

    def gains(
        self,
        parts: np.ndarray,
        center: bool = True,
        variance: np.ndarray | None = None,
    ) -> Gains:
        r"""Parts of the covariance, :math:`(a_f(x_i) - \bar a_f)(y_i - \bar y) / v`.

        v is the variance of the target; means over targets where there are several.

        Examples
        --------
        >>> values = Values.of([1.0, 2.0, 3.0])
        >>> gains = values.gains(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]))
        >>> gains.gain.mean(axis=0)
        array([1., 0.])
        """
        gain = self._covariances(parts, variance).mean(axis=2)
        return Gains(gain, np.ones(len(self.values)))

    def gains_by_output(
        self, parts: np.ndarray, variance: np.ndarray | None = None, **options: Any
    ) -> dict[str, Any]:
        if self.n_outputs == 1:
            return {}
        gain = self._covariances(parts, variance)
        return {"per_target": np.einsum("i,ifk->kf", self.weight, gain)}

    def _covariances(
        self, parts: np.ndarray, variance: np.ndarray | None
    ) -> np.ndarray:
        """Of shape (rows, parts, targets)."""
        parts = parts.reshape(*parts.shape[:2], -1)
        variance = self.variance if variance is None else variance
        # A target that never changes gives no gains.
        variance = np.where(variance > 0.0, variance, 1.0)
        off = self.values - np.average(self.values, axis=0, weights=self.weight)
        moved = parts - np.average(parts, axis=0, weights=self.weight)
        return np.asarray(moved * (off / variance)[:, None])


def _intercept(values: np.ndarray, weight: np.ndarray, center: bool) -> np.ndarray:
    if not center:
        return np.zeros(values.shape[1])
    return np.asarray(np.average(values, axis=0, weights=weight))


def read_values(y: Any, owner: str) -> np.ndarray:
    """Finite numbers of the shape (rows,) or (rows, targets), checked."""
    if y is None:
        raise missing_target(
            owner, "pass one number, or one row of numbers, per row of X"
        )
    try:
        values = check_array(
            y,
            ensure_2d=False,
            allow_nd=True,
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name="y",
        ).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold real numbers, one per row or one row of them, got "
            f"{described(y)}; turn it into numbers, or use a classifier."
        ) from error
    if values.ndim not in (1, 2) or values.size == 0:
        raise ValueError(
            "y must have the shape (rows,) or (rows, targets), got "
            f"{values.shape}; reshape it so."
        )
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        what = "NaN" if np.isnan(values[bad]).any() else "infinity (inf)"
        raise ValueError(
            f"y must hold finite numbers, got {what}, first in row {row}; drop such "
            "rows, or give them values, first."
        )
    return np.asarray(values)


class PredictedValues(RegressorMixin, Predictions):
    """A regressor that predicts the given values."""

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def predict(self, X: Any) -> Any:
        return self.values
