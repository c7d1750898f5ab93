"""Class labels to predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import type_of_target

from manykernels.base.quoted import described
from manykernels.losses import Loss
from manykernels.targets.base import (
    Gains,
    PartitionSummary,
    Predictions,
    Targets,
    missing_target,
    no_positive_weight,
    read_partition_weights,
    score_predictions,
    weighted_rows,
)

LOWEST_LOG_PROBABILITY = np.log(np.finfo(float).tiny)


@dataclass(frozen=True, kw_only=True)
class Labels(Targets):
    """Class labels of the rows of positive weight.

    Attributes
    ----------
    classes : array of shape (n_classes,)
        The labels in rising order.
    target : int array of shape (rows,)
        Position of every row's label among the classes.
    factors : array of shape (n_classes,) or None
        Of the weights in all partitions, where partitions were merged.

    Examples
    --------
    >>> labels = Labels.of(["b", "a", "b"], [1.0, 2.0, 0.0])
    >>> labels.classes.tolist(), labels.target.tolist(), labels.kept.tolist()
    (['a', 'b'], [1, 0], [0, 1])
    """

    classes: np.ndarray
    factors: np.ndarray | None = None

    task: ClassVar[str] = "classification"
    metric: ClassVar[str] = "accuracy"

    @classmethod
    def of(
        cls,
        y: Any,
        sample_weight: Any = None,
        *,
        n_rows: int | None = None,
        class_weight: Any = None,
        classes: np.ndarray | None = None,
        loss: Loss | None = None,
        owner: str = "MKLClassifier",
    ) -> Labels:
        """Read and check labels and weights.

        Parameters
        ----------
        n_rows : int, optional
            Of X, where y has to have as many.
        class_weight : dict or "balanced", optional
        classes : array, optional
            All labels in rising order; by default those of rows of positive weight.
        owner : str
            The estimator that messages name.
        """
        y = read_labels(y, owner)
        kept, weight = weighted_rows(y, sample_weight, n_rows)
        y = y[kept]
        if classes is None:
            classes, target = np.unique(y, return_inverse=True)
            require_classes(classes, owner)
        else:
            target = encode_labels(y, classes)
        if class_weight is not None:
            factors = class_factors(class_weight, classes, target, weight)
            weight = weight * factors[target]
            # A class weight of zero takes its rows out, like a sample weight of zero.
            used = weight > 0.0
            if not np.any(used):
                raise no_positive_weight("class_weight", class_weight)
            kept, target, weight = kept[used], target[used], weight[used]
        return cls(kept=kept, weight=weight, target=target, loss=loss, classes=classes)

    @classmethod
    def summarize(cls, y: Any, sample_weight: Any, owner: str) -> PartitionSummary:
        """Labels of one partition, and their weights."""
        y = np.asarray(y)
        weight = read_partition_weights(sample_weight, len(y))
        if not weight.any():
            return PartitionSummary(len(y))
        counted = weight > 0.0
        labels, positions = np.unique(
            read_labels(y, owner)[counted], return_inverse=True
        )
        totals = np.bincount(positions, weight[counted], minlength=len(labels))
        return PartitionSummary(len(y), weight.max(), weight.sum(), labels, totals)

    @classmethod
    def merge(
        cls,
        summaries: Sequence[PartitionSummary],
        *,
        class_weight: Any = None,
        loss: Loss | None = None,
        owner: str = "MKLClassifier",
    ) -> Labels:
        """Labels of all partitions: one row per class, with the weight of its rows."""
        groups = np.concatenate([part.groups for part in summaries if part.total])
        classes, positions = np.unique(groups, return_inverse=True)
        require_classes(classes, owner)
        weights = np.concatenate([p.group_weights for p in summaries if p.total])
        totals = np.bincount(positions, weights)
        every = np.arange(len(classes))
        factors = np.ones(len(classes))
        if class_weight is not None:
            factors = class_factors(class_weight, classes, every, totals)
        return cls(
            kept=every,
            weight=factors * totals,
            loss=loss,
            classes=classes,
            target=every,
            factors=factors,
        )

    def encode(self, y: Any, sample_weight: Any) -> Labels:
        """The rows of one partition, once the labels of all are merged."""
        y, factors = np.asarray(y), self.factors
        assert factors is not None
        if not read_partition_weights(sample_weight, len(y)).any():
            return self.take(np.empty(0, np.intp))
        rows = Labels.of(y, sample_weight, classes=self.classes, loss=self.loss)
        weight = rows.weight * factors[rows.target]
        return replace(rows, weight=weight).take(weight > 0.0)

    @property
    def y(self) -> np.ndarray:
        return np.asarray(self.classes[self.target])

    @property
    def strata(self) -> np.ndarray:
        """Every fold has the same share of every class."""
        return self.target

    @property
    def n_outputs(self) -> int:
        return len(self.classes)

    def take(self, rows: Any) -> Labels:
        return replace(
            self,
            kept=self.kept[rows],
            weight=self.weight[rows],
            target=self.target[rows],
        )

    def score(
        self,
        held_out: Labels,
        scores: np.ndarray,
        scoring: Any = None,
        weighted: bool = False,
    ) -> np.ndarray:
        logits = self.loss is not None and self.loss.scores_are_logits
        kind = PredictedProbabilities if logits else PredictedLabels
        weight = held_out.weight if weighted else None
        predictions = kind(scores, self.classes)
        return np.array([score_predictions(scoring, predictions, held_out.y, weight)])

    def score_of(self, scores: np.ndarray) -> float:
        best = scores > 0.0 if scores.ndim == 1 else scores.argmax(axis=1)
        return float(np.average(best == self.target, weights=self.weight))

    def scores_by(self, estimator: Any, X: Any) -> np.ndarray:
        """Logarithms of probabilities."""
        with np.errstate(divide="ignore"):
            logarithms = np.log(estimator.predict_proba(X))
        scores = np.maximum(logarithms, LOWEST_LOG_PROBABILITY)
        return self.columns_of(scores, estimator.classes_)

    def columns_of(self, scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """A column per class, lowest for those that an estimator has not met."""
        columns = np.full((len(scores), len(self.classes)), scores.min() - 1.0)
        columns[:, np.searchsorted(self.classes, classes)] = scores
        return columns

    def predictions(self, scores: np.ndarray) -> Predictions:
        return PredictedProbabilities(scores, self.classes)

    def gains(
        self,
        parts: np.ndarray,
        center: bool = True,
        variance: np.ndarray | None = None,
    ) -> Gains:
        r"""Parts of the margin, :math:`a_{f, y_i}(x_i) - a_{f, k_i}(x_i)`.

        :math:`k_i` is the strongest other class of the whole model, so that the parts
        add up to the margin of the row. Centered, a constant that favors the commonest
        class gains nothing.

        Examples
        --------
        >>> labels = Labels.of([0, 1])
        >>> labels.gains(np.array([[-2.0, 0.5], [3.0, 1.0]]), center=False).gain
        array([[ 2. , -0.5],
               [ 3. ,  1. ]])
        """
        # The mean direction adds nothing to sums of centered parts, but errors of a
        # covariance are those with both means taken off.
        gain = self._margins(parts, self._directions(parts), center, center)
        return Gains(gain, np.ones(len(self.target)))

    def gains_by_output(
        self, parts: np.ndarray, center: bool = True, **options: Any
    ) -> dict[str, Any]:
        gain = self._margins(parts, self._directions(parts), center)
        members = np.eye(len(self.classes))[self.target] * self.weight[:, None]
        return {"per_class": np.asarray(members.T @ gain)}

    def _margins(
        self,
        parts: np.ndarray,
        directions: np.ndarray,
        center_parts: bool,
        center_directions: bool = False,
    ) -> np.ndarray:
        parts = parts.reshape(*parts.shape[:2], -1)
        if center_parts:
            parts = parts - np.average(parts, axis=0, weights=self.weight)
        if center_directions:
            mean = np.average(directions, axis=0, weights=self.weight)
            directions = directions - mean
        return np.asarray(np.einsum("ifk,ik->if", parts, directions))

    def _directions(self, parts: np.ndarray) -> np.ndarray:
        """1 for the true class and -1 for its rival; the sign of one difference."""
        if parts.ndim == 2:
            return (2.0 * self.target - 1.0)[:, None]
        rows, others = np.arange(len(self.target)), parts.sum(axis=1)
        others[rows, self.target] = -np.inf
        directions = np.zeros_like(others)
        directions[rows, others.argmax(axis=1)] = -1.0
        directions[rows, self.target] = 1.0
        return directions


# --- checks ---------------------------------------------------------------------------


def read_labels(y: Any, owner: str) -> np.ndarray:
    """One label per row, checked."""
    if y is None:
        raise missing_target(owner, "pass one label per row")
    try:
        labels = column_or_1d(y, warn=True)
        # Fractional numbers are "continuous": most likely a regressor was meant.
        kind = type_of_target(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold one label per row, got {described(y)}; pass a list or an "
            "array of whole numbers, booleans or texts."
        ) from error
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"y must hold classes, got values of an Unknown label type: {kind}; pass "
            "whole numbers, booleans or texts, or use a regressor."
        )
    return np.asarray(labels)


def require_classes(classes: np.ndarray, owner: str) -> None:
    """Raise unless there are at least two classes."""
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs samples of at least 2 classes, got one class only: "
            f"{classes.tolist()}; check the labels and sample weights."
        )


def encode_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Position of every label among the classes, which must hold them all."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y must hold labels among the classes {classes.tolist()}, got "
            f"{unknown.tolist()} as well; pass all the labels that will ever come to "
            "the first call of partial_fit."
        )
    return np.searchsorted(classes, y)


def class_factors(
    class_weight: Any, classes: np.ndarray, target: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """A factor per class; "balanced" gives all classes the same total weight."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(target, weight, minlength=len(classes))
        return np.asarray(weight.sum() / (len(classes) * totals))
    # The classes stand for y: a chunk of a stream need not hold all of them.
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if np.any(factors < 0.0):
        raise ValueError(
            f"class_weight must not be negative, got {class_weight!r}; give classes "
            "that should not count the weight 0."
        )
    return np.asarray(factors, dtype=np.float64)


def first_classes(classes: Any) -> np.ndarray:
    """Check the labels that the first call to partial_fit names."""
    if classes is None:
        raise ValueError(
            "classes must be passed on the first call to partial_fit, got None; give "
            "all the labels that will ever come, for instance np.unique(y)."
        )
    classes = np.unique(classes)
    require_classes(classes, "MKLClassifier")
    return classes


def check_same_classes(classes: Any, first: np.ndarray) -> None:
    """Raise if a later call to partial_fit names other classes than the first."""
    if classes is not None and not np.array_equal(np.unique(classes), first):
        raise ValueError(
            "classes must stay the same in every call to partial_fit, got "
            f"{np.unique(classes).tolist()} after {first.tolist()}; leave the argument "
            "out, or start a new model."
        )


# --- predictions ----------------------------------------------------------------------


class PredictedLabels(ClassifierMixin, Predictions):
    """A classifier with the given scores of shape (rows, classes)."""

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        self.scores = scores
        self.classes = classes

    @property
    def classes_(self) -> Any:
        """All the labels."""
        return self.classes

    def predict(self, X: Any) -> Any:
        """Labels of the highest scores."""
        return self.classes[np.argmax(self.scores, axis=1)]

    def decision_function(self, X: Any) -> Any:
        """The scores, or their difference for two classes."""
        if self.scores.shape[1] == 2:
            return self.scores[:, 1] - self.scores[:, 0]
        return self.scores

    def predict_proba(self, X: Any) -> Any:
        """Raise: a temperature would need another fit in every fold."""
        raise ValueError(
            "scoring by probabilities needs them in every fold of the search, which "
            "only loss='log' has; take loss='log', another metric, or scikit-learn's "
            "GridSearchCV."
        )


class PredictedProbabilities(PredictedLabels):
    """A classifier whose probabilities are the softmax of the given scores."""

    def predict_proba(self, X: Any) -> Any:
        return softmax(self.scores, axis=1)
