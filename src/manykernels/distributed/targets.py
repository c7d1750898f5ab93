"""Labels and values in partitions: what they are together, and how each is coded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from manykernels.mkl.calibration import Temperature, fit_temperature
from manykernels.mkl.models.model import SupportLabels
from manykernels.targets import Labels as LabelsOf
from manykernels.targets import Values
from manykernels.targets.labels import class_factors, require_classes


class Seen(NamedTuple):
    """What one partition says of its targets; `groups` are classes, or their sums."""

    n_rows: int
    largest: float  # weight
    total: float  # of the weights
    groups: np.ndarray  # classes, or weighted sums by target
    weights: np.ndarray  # of the classes, or the number of axes of y


class Coded(NamedTuple):
    """The rows of positive weight in one partition."""

    kept: np.ndarray  # positions
    target: np.ndarray
    weight: np.ndarray


@dataclass
class Targets(ABC):
    """What the targets of all partitions are together.

    Parameters
    ----------
    estimator : estimator
        Whose parameters say how to read them.
    """

    estimator: Any
    sizes: list[int] = field(default_factory=list)  # rows of the partitions
    largest: float = 1.0  # weight of a row
    total: float = 0.0  # of the weights of all rows

    @abstractmethod
    def look(self, y: Any, weight: Any) -> Seen:
        """What one partition says; it may be empty."""

    @abstractmethod
    def learn(self, seen: Sequence[Seen]) -> None:
        """Take in what all partitions say."""

    @abstractmethod
    def code(self, y: Any, weight: Any) -> Coded:
        """Targets and weights of one partition, once all are known."""

    @abstractmethod
    def store(self, estimator: Any, problem: Any, w: np.ndarray) -> None:
        """Fitted attributes that are of this sort alone."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Columns of scores."""

    def _count(self, seen: Sequence[Seen]) -> list[Seen]:
        """Sizes and weights; what is left are the partitions that count."""
        self.sizes = [one.n_rows for one in seen]
        counting = [one for one in seen if one.total > 0.0]
        if not counting:
            raise ValueError(
                f"partitions must hold rows of positive weight, got {sum(self.sizes)} "
                "rows and none of them; check the collection, and sample_weight."
            )
        self.largest = max(one.largest for one in counting)
        self.total = float(sum(one.total for one in counting))
        return counting


@dataclass
class Labels(Targets):
    """Classes: the union over the partitions, most of which may lack most of them."""

    classes: np.ndarray = field(default_factory=lambda: np.empty(0))
    factors: np.ndarray = field(default_factory=lambda: np.empty(0))  # of the weights

    def look(self, y: Any, weight: Any) -> Seen:
        """Its classes and their weights."""
        y, weight = _rows(y, weight)
        if not len(y):
            return Seen(0, 0.0, 0.0, np.empty(0), np.empty(0))
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        counted = weight > 0.0
        classes, place = np.unique(y[counted], return_inverse=True)
        totals = np.bincount(place, weight[counted], minlength=len(classes))
        return Seen(len(y), weight.max(), weight.sum(), classes, totals)

    def learn(self, seen: Sequence[Seen]) -> None:
        """All classes, and a factor for each from `class_weight`."""
        counting = self._count(seen)
        found = np.concatenate([one.groups for one in counting])
        self.classes, place = np.unique(found, return_inverse=True)
        require_classes(self.classes, type(self.estimator).__name__)
        weights = np.concatenate([one.weights for one in counting])
        totals, n_classes = np.bincount(place, weights), len(self.classes)
        self.factors = np.ones(n_classes)
        wanted = self.estimator.class_weight
        if wanted is not None:
            every = np.arange(n_classes)
            self.factors = class_factors(wanted, self.classes, every, totals)
        self.total = float(self.factors @ totals)
        self.largest *= float(self.factors.max())

    def code(self, y: Any, weight: Any) -> Coded:
        """Positions among the classes."""
        y, weight = _rows(y, weight)
        if not weight.any():
            return _nothing(np.empty(0, np.int64))
        rows = LabelsOf.of(y, weight, classes=self.classes)
        weight = rows.weight * self.factors[rows.target]
        used = weight > 0.0
        return Coded(rows.kept[used], rows.target[used], weight[used])

    def store(self, estimator: Any, problem: Any, w: np.ndarray) -> None:
        """Classes, and the temperature of probabilities by the sampled rows."""
        estimator.classes_ = self.classes
        estimator._labels = SupportLabels(np.empty(0, np.int64), np.empty(0))
        near, temperature = problem.near.rows, 1.0
        if not problem.loss.scores_are_logits:
            scores = near.phi.astype(np.float64) @ w
            temperature = fit_temperature(scores, near.target, near.bound)
        estimator._temperature = Temperature(temperature)

    @property
    def n_outputs(self) -> int:
        """One score per class."""
        return len(self.classes)


@dataclass
class Numbers(Targets):
    """Values, less their weighted mean over all partitions."""

    intercept: np.ndarray = field(default_factory=lambda: np.empty(0))
    flat: bool = True

    def look(self, y: Any, weight: Any) -> Seen:
        """Weighted sums."""
        y, weight = _rows(y, weight)
        if not weight.any():
            return Seen(len(y), 0.0, 0.0, np.empty(0), np.empty(0))
        rows = Values.of(y, weight, center=False)
        sums = rows.weight @ rows.target
        axes = np.array([1 if rows.flat else 2])
        return Seen(len(y), weight.max(), weight.sum(), sums, axes)

    def learn(self, seen: Sequence[Seen]) -> None:
        """The mean, if there is an intercept."""
        counting = self._count(seen)
        self.flat = bool(counting[0].weights[0] == 1)
        sums = np.sum([one.groups for one in counting], axis=0)
        self.intercept = sums / self.total
        if not self.estimator.fit_intercept:
            self.intercept = np.zeros_like(sums)

    def code(self, y: Any, weight: Any) -> Coded:
        """Differences from the mean."""
        y, weight = _rows(y, weight)
        if not weight.any():
            return _nothing(np.empty((0, self.n_outputs)))
        rows = Values.of(y, weight, center=False)
        return Coded(rows.kept, rows.target - self.intercept, rows.weight)

    def store(self, estimator: Any, problem: Any, w: np.ndarray) -> None:
        """What predictions add."""
        mean = self.intercept
        estimator.intercept_ = float(mean[0]) if self.flat else mean

    @property
    def n_outputs(self) -> int:
        """One score per target."""
        return len(self.intercept)


def _rows(y: Any, weight: Any) -> tuple[np.ndarray, np.ndarray]:
    """Targets and weights of one partition as arrays."""
    y = np.asarray(y)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    if weight.shape != y.shape[:1]:
        raise ValueError(
            f"sample_weight must have one number for each of {len(y)} rows, got the "
            f"shape {weight.shape}; take it from the same collection as y."
        )
    if not np.all(weight >= 0.0):
        raise ValueError(
            f"sample_weight must not be negative, got {weight.min():g}; give rows that "
            "should not count the weight 0."
        )
    return y, weight


def _nothing(target: np.ndarray) -> Coded:
    return Coded(np.empty(0, np.intp), target, np.empty(0))
