"""How good the predictions of a model are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
)

from manykernels.cli.readers.columns import Sample


def measure(model: Any, sample: Sample, y: np.ndarray) -> dict[str, Any]:
    """Figures by name, of the sort that the model calls for."""
    if not is_classifier(model):
        raise ValueError(
            f"evaluate knows classifiers, got {type(model).__name__}; write its "
            "predictions with 'manykernels predict' and compare them."
        )
    return measure_classes(model, sample.X, y, sample.weight)


def measure_classes(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """Accuracy, log loss, confusion and figures per class.

    Balanced accuracy is the mean recall of the classes that occur.
    """
    labels = model.classes_
    predicted, proba = model.predict(X), model.predict_proba(X)
    precision, recall, _, _ = precision_recall_fscore_support(
        y, predicted, labels=labels, sample_weight=weight, zero_division=0.0
    )
    confusion = confusion_matrix(y, predicted, labels=labels)
    occurs = confusion.sum(axis=1) > 0
    return {
        "rows": len(y),
        "accuracy": accuracy_score(y, predicted, sample_weight=weight),
        "balanced_accuracy": recall[occurs].mean(),
        "log_loss": log_loss(y, proba, labels=labels, sample_weight=weight),
        "classes": [
            {"label": label, "rows": rows, "precision": p, "recall": r}
            for label, rows, p, r in zip(
                labels, confusion.sum(axis=1), precision, recall, strict=True
            )
        ],
        "confusion": confusion,  # rows: true, columns: predicted
    }
