"""What a model has learnt, as plain data and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MOST_CLASSES = 20  # in a confusion table for people
SETTINGS = ("p", "C", "loss", "solver", "tol", "dtype")


def describe(model: Any, names: list[str] | None) -> dict[str, Any]:
    """A fitted model without its data; kernels with the largest weight first."""
    order = np.argsort(-model.kernel_weights_, kind="stable")
    gap = model.duality_gap_ / model.objective_ if model.objective_ > 0 else 0.0
    return {
        "estimator": type(model).__name__,
        "settings": {name: _plain_setting(getattr(model, name)) for name in SETTINGS},
        "classes": model.classes_,
        "features": model.n_features_in_,
        "feature_names": names,
        "support_rows": len(model.support_),
        "kernels": [
            {"name": model.kernel_names_[f], "weight": model.kernel_weights_[f]}
            for f in order
        ],
        "certificate": {
            "objective": model.objective_,
            "duality_gap": model.duality_gap_,
            "relative_gap": gap,
            "tol": model.tol,
            "reached": bool(gap <= model.tol),
        },
        "epochs": model.n_iter_,
        "seconds": model.history_[-1].time if model.history_ else None,
    }


def model_lines(content: dict[str, Any]) -> Iterator[str]:
    """A described model for people."""
    classes = [str(label) for label in content["classes"]]
    more = f" and {len(classes) - 10} more" if len(classes) > 10 else ""
    certificate = content["certificate"]
    settings = ", ".join(f"{k} = {v}" for k, v in content["settings"].items())
    yield f"{content['estimator']} ({settings})"
    yield f"classes       {', '.join(classes[:10])}{more}"
    yield f"features      {content['features']}"
    yield f"support rows  {content['support_rows']}"
    yield (
        f"objective     {certificate['objective']:.6g}, at most "
        f"{certificate['relative_gap']:.2%} above the optimum"
    )
    yield f"epochs        {content['epochs']}"
    yield "weight  kernel"
    for kernel in content["kernels"]:
        yield f"{kernel['weight']:6.1%}  {kernel['name']}"


def metric_lines(content: dict[str, Any]) -> Iterator[str]:
    """Measured figures for people."""
    yield f"rows               {content['rows']}"
    yield f"accuracy           {content['accuracy']:.4f}"
    yield f"balanced accuracy  {content['balanced_accuracy']:.4f}"
    yield f"log loss           {content['log_loss']:.4f}"
    labels = [str(line["label"]) for line in content["classes"]]
    width = max(5, *(len(label) for label in labels))
    yield ""
    yield f"{'class':{width}}  {'rows':>7}  precision  recall"
    for label, line in zip(labels, content["classes"], strict=True):
        yield (
            f"{label:{width}}  {line['rows']:7d}  {line['precision']:9.4f}  "
            f"{line['recall']:6.4f}"
        )
    if len(labels) <= MOST_CLASSES:
        yield ""
        yield from _confusion_lines(labels, content["confusion"], width)


def _confusion_lines(labels: list[str], confusion: Any, width: int) -> Iterator[str]:
    cell = max(width, *(len(str(count)) for row in confusion for count in row))
    yield f"{'true':{width}}  predicted"
    yield " " * width + "".join(f"  {label:>{cell}}" for label in labels)
    for label, row in zip(labels, confusion, strict=True):
        yield f"{label:{width}}" + "".join(f"  {count:{cell}d}" for count in row)


def _plain_setting(value: Any) -> Any:
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain else repr(value)
