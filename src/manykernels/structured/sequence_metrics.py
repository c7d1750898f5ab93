"""Scores of predicted label sequences, by the names that estimators take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from manykernels.base.quoted import quoted
from manykernels.structured.chunks import chunk_f1

Metric = Callable[[Sequence[Any], Sequence[Any]], float]


def token_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Share of the positions that get their label.

    Examples
    --------
    >>> token_accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.6666666666666666
    """
    return float(np.mean(np.concatenate(_right(y_true, y_pred))))


def sequence_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Share of the sequences without any wrong label.

    Examples
    --------
    >>> sequence_accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    return float(np.mean([right.all() for right in _right(y_true, y_pred)]))


METRICS: dict[str, Metric] = {
    "tokens": token_accuracy,
    "sequences": sequence_accuracy,
    "chunks": chunk_f1,
}


def sequence_metric(scoring: Any) -> Metric:
    """A metric by its name, or the function itself.

    Examples
    --------
    >>> sequence_metric("tokens").__name__
    'token_accuracy'
    """
    if callable(scoring):
        return scoring  # type: ignore[no-any-return]
    if not isinstance(scoring, str) or scoring not in METRICS:
        names = ", ".join(map(repr, METRICS))
        raise ValueError(
            f"scoring must be {names} or a function of true and predicted labels, got "
            f"{quoted(scoring)}; choose one of these."
        )
    return METRICS[scoring]


def _right(y_true: Sequence[Any], y_pred: Sequence[Any]) -> list[np.ndarray]:
    pairs = zip(y_true, y_pred, strict=True)
    return [np.asarray(true) == np.asarray(found) for true, found in pairs]
