"""Figures of predictions, and the summary of a model, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    precision_recall_fscore_support,
    r2_score,
    root_mean_squared_error,
)

from manykernels.cli.errors import MOST_LISTED
from manykernels.inputs.reporting import shortened
from manykernels.mkl import MKLSurvival

MOST_CONFUSED_CLASSES = 20  # in a printed confusion table


def measure_rows(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """Return figures by name, of the task of the model."""
    if isinstance(model, MKLSurvival):
        return measure_times(model, X, y, weight)
    measure = measure_classes if is_classifier(model) else measure_values
    return measure(model, X, y, weight)


def measure_times(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """Share of comparable pairs that are in the right order."""
    concordance = model.score(X, y, sample_weight=weight)
    events = int(np.count_nonzero(y["event"]))
    return {"rows": len(y), "events": events, "concordance": concordance}


def measure_values(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """The share of the variance that is explained, and the sizes of the errors."""
    predicted = model.predict(X)
    if np.shape(predicted) != np.shape(y):
        raise ValueError(
            f"expected a model of one target, got one with {predicted.shape[1]}; write "
            "its predictions with 'manykernels predict' and compare them."
        )
    return {
        "rows": len(y),
        "R2": r2_score(y, predicted, sample_weight=weight),
        "RMSE": root_mean_squared_error(y, predicted, sample_weight=weight),
        "mean_absolute_error": mean_absolute_error(y, predicted, sample_weight=weight),
    }


def measure_classes(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """Accuracy, log loss where there are probabilities, and figures per class.

    Balanced accuracy is the mean recall of the classes that occur.
    """
    labels = model.classes_
    predicted = model.predict(X)
    # A class that is never predicted has precision 0 and no warning.
    precision, recall, _, _ = precision_recall_fscore_support(
        y, predicted, labels=labels, sample_weight=weight, zero_division=0.0
    )
    confusion = confusion_matrix(y, predicted, labels=labels)
    counts = confusion.sum(axis=1)
    figures = {
        "rows": len(y),
        "accuracy": accuracy_score(y, predicted, sample_weight=weight),
        "balanced_accuracy": recall[counts > 0].mean(),
    }
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(X)
        figures["log_loss"] = log_loss(y, proba, labels=labels, sample_weight=weight)
    per_class = zip(labels, counts, precision, recall, strict=True)
    figures["classes"] = [
        {"label": label, "rows": rows, "precision": p, "recall": r}
        for label, rows, p, r in per_class
    ]
    figures["confusion"] = confusion  # rows: true, columns: predicted
    return figures


def metric_lines(content: dict[str, Any]) -> Iterator[str]:
    r"""Lines of text with measured figures.

    Examples
    --------
    >>> print(*metric_lines({"rows": 3, "balanced_accuracy": 0.5}), sep="\n")
    rows               3
    balanced accuracy  0.5000
    """
    tables = ("classes", "confusion", "chunks", "labels")
    single = {k: v for k, v in content.items() if k not in tables}
    width = max(map(len, single))
    for name, value in single.items():
        shown = f"{value:.4f}" if isinstance(value, float) else str(value)
        yield f"{name.replace('_', ' '):{width}}  {shown}"
    if "classes" in content:
        yield from _class_lines(content["classes"], content["confusion"])
    for name in ("chunks", "labels"):
        if name in content:
            yield from _type_lines(content[name])


def _type_lines(types: list[dict[str, Any]]) -> Iterator[str]:
    width = max(5, *(len(line["type"]) for line in types))
    yield ""
    yield f"{'type':{width}}  {'true':>7}  {'found':>7}  precision  recall      f1"
    for line in types:
        yield (
            f"{line['type']:{width}}  {line['true']:7d}  {line['found']:7d}  "
            f"{line['precision']:9.4f}  {line['recall']:6.4f}  {line['f1']:6.4f}"
        )


def _class_lines(classes: list[dict[str, Any]], confusion: Any) -> Iterator[str]:
    labels = [str(line["label"]) for line in classes]
    width = max(5, *(len(label) for label in labels))
    yield ""
    yield f"{'class':{width}}  {'rows':>7}  precision  recall"
    for label, line in zip(labels, classes, strict=True):
        yield (
            f"{label:{width}}  {line['rows']:7d}  {line['precision']:9.4f}  "
            f"{line['recall']:6.4f}"
        )
    if len(labels) > MOST_CONFUSED_CLASSES:  # wider than a terminal
        return
    cell = max(width, *(len(str(count)) for row in confusion for count in row))
    yield ""
    yield f"{'true':{width}}  predicted"
    yield " " * width + "".join(f"  {label:>{cell}}" for label in labels)
    for label, row in zip(labels, confusion, strict=True):
        yield f"{label:{width}}" + "".join(f"  {count:{cell}d}" for count in row)


def summary_lines(summary: dict[str, Any]) -> Iterator[str]:
    r"""Lines of text with an estimator's `summary`.

    Examples
    --------
    >>> kernels = [{"name": "rbf", "weight": 0.75}, {"name": "linear", "weight": 0.25}]
    >>> summary = {"estimator": "Toy", "settings": {"p": 1.5}, "kernels": kernels}
    >>> print(*summary_lines(summary | {"support_rows": 3}), sep="\n")
    Toy (p = 1.5)
    support rows  3
    weight  kernel
     75.0%  rbf
     25.0%  linear
    """
    yield f"{summary['estimator']} ({_in_words(summary['settings'])})"
    tables = {}
    for name, value in summary.items():
        if name in ("estimator", "settings", "feature_names") or value is None:
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            tables[name] = value
        else:
            yield f"{name.replace('_', ' '):12}  {_in_words(value)}"
    for name, lines in tables.items():
        yield from _weight_lines(name.removesuffix("s"), lines)


def _weight_lines(name: str, lines: list[dict[str, Any]]) -> Iterator[str]:
    """One line per kernel, product or template; weights that sum to 1 are shares."""
    shares = np.isclose(sum(line["weight"] for line in lines), 1.0)
    yield f"weight  {name}"
    for line in lines:
        weight, title = line["weight"], shortened(line["name"])
        yield f"{weight:6.1%}  {title}" if shares else f"{weight:6.3g}  {title}"


def _in_words(value: Any) -> str:
    if isinstance(value, dict) and "relative_gap" in value:
        gap = f"at most {value['relative_gap']:.2%} above the optimum"
        return f"{value['objective']:.6g}, {gap}"
    if isinstance(value, dict):
        return ", ".join(f"{k} = {_in_words(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        more = len(value) - MOST_LISTED
        shown = ", ".join(str(item) for item in value[:MOST_LISTED])
        return f"{shown} and {more} more" if more > 0 else shown
    return f"{value:.6g}" if isinstance(value, float) else str(value)
