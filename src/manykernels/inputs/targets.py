"""Labels and weights: checked, and turned into numbers a solver can use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight


@dataclass(frozen=True)
class TrainingLabels:
    """The rows to learn from: those with a positive weight.

    A row of weight zero is a row that is not there.
    """

    classes: np.ndarray  # sorted labels
    kept: np.ndarray  # positions in X
    target: np.ndarray  # class index of each kept row
    weight: np.ndarray  # positive weight of each kept row

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        class_weight: Any = None,
        classes: np.ndarray | None = None,
        owner: str = "MKLClassifier",
    ) -> TrainingLabels:
        """Check labels and weights of a checked X; find the classes if not given.

        Messages speak of the estimator `owner`.
        """
        rows = X[0] if isinstance(X, list) else X
        y = _check_labels(rows, y, owner)
        weight = _check_weights(rows, sample_weight)
        kept = np.flatnonzero(weight > 0.0)
        y, weight = y[kept], weight[kept]
        if classes is None:
            classes = require_classes(np.unique(y), owner)
        target = _class_index(y, classes)
        if class_weight is not None:
            factors = _class_factors(class_weight, classes, target, weight)
            weight = weight * factors[target]
            used = _require_some(weight > 0.0, "class_weight", class_weight)
            kept, target, weight = kept[used], target[used], weight[used]
        return cls(classes, kept, target, weight)


def require_classes(classes: np.ndarray, owner: str = "MKLClassifier") -> np.ndarray:
    """Raise unless there are at least two classes to tell apart."""
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs samples of at least 2 classes, got one class only: "
            f"{classes.tolist()}; check the labels and sample weights."
        )
    return classes


def check_same_classes(classes: Any, known: np.ndarray) -> None:
    """Raise if a later call to partial_fit names other classes than the first."""
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            "classes must stay the same in every call to partial_fit, got "
            f"{np.unique(classes).tolist()} after {known.tolist()}; leave the argument "
            "out, or start a new model."
        )


def first_classes(classes: Any) -> np.ndarray:
    """All the labels that will ever come, named in the first call to partial_fit."""
    if classes is None:
        raise ValueError(
            "classes must be passed on the first call to partial_fit, got None; give "
            "all the labels that will ever come, for instance np.unique(y)."
        )
    return require_classes(np.unique(classes))


def _check_labels(rows: Any, y: Any, owner: str) -> np.ndarray:
    if y is None:
        # Opens as scikit-learn's own message does, for tools that look for it.
        raise ValueError(
            f"This {owner} estimator requires y to be passed, but the target y is "
            "None; pass one label per row."
        )
    y = column_or_1d(y, warn=True)
    check_consistent_length(rows, y)
    check_classification_targets(y)
    return y


def _check_weights(rows: Any, sample_weight: Any) -> np.ndarray:
    weight = np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64))
    if np.any(weight < 0.0):
        row = int(np.argmin(weight))
        raise ValueError(
            f"sample_weight must not be negative, got {weight[row]:g} for row {row}; "
            "give rows that should not count the weight 0."
        )
    _require_some(weight > 0.0, "sample_weight", "zeros only")
    return weight


def _require_some(counts: np.ndarray, name: str, got: Any) -> np.ndarray:
    """Raise unless some rows have a positive weight."""
    if not np.any(counts):
        raise ValueError(
            f"{name} must be positive for some of the rows, got {got}; leave it out to "
            "count all rows alike."
        )
    return counts


def _class_index(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Position of each label among the classes, which must hold them all."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y must hold labels among the classes {classes.tolist()}, got "
            f"{unknown.tolist()} as well; pass all the labels that will ever come to "
            "the first call of partial_fit."
        )
    return np.searchsorted(classes, y)


def _class_factors(
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
