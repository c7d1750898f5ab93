"""Scores of predictions that are known already, by scikit-learn's scorers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer


class _Known(BaseEstimator):
    """An estimator that has nothing left to compute."""

    def __sklearn_is_fitted__(self) -> bool:
        return True


class KnownScores(ClassifierMixin, _Known):
    """A classifier whose scores of shape (rows, classes) are known."""

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


class KnownProbabilities(KnownScores):
    """Scores whose softmax are probabilities."""

    def predict_proba(self, X: Any) -> Any:
        """softmax(scores)."""
        return softmax(self.scores, axis=1)


class KnownValues(RegressorMixin, _Known):
    """A regressor whose predictions are known."""

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def predict(self, X: Any) -> Any:
        """The values."""
        return self.values


def judge(scoring: Any, known: Any, y: Any, weight: np.ndarray | None) -> float:
    """The score of known predictions; accuracy or R^2 where `scoring` is None."""
    rows = np.arange(len(y))[:, None]
    weights = {} if weight is None else {"sample_weight": weight}
    if scoring is None:
        return float(known.score(rows, y, **weights))
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    if not callable(scorer):
        raise ValueError(
            "scoring must be the name of a metric of scikit-learn or a scorer, got "
            f"{scoring!r}; choose for instance 'r2' or 'accuracy'."
        )
    return float(scorer(known, rows, y, **weights))
