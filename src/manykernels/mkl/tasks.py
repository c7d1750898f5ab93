"""Labels, numbers or times: what a search over p and C asks of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from manykernels.banks import Bank
from manykernels.base.quoted import quoted
from manykernels.losses import CensoredEpsilonInsensitive, Loss
from manykernels.mkl.concordance import concordance_index
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Problem


@dataclass(frozen=True)
class ClassTask:
    """Labels to predict."""

    classes: np.ndarray
    target: np.ndarray  # (rows,) positions among the classes
    weight: np.ndarray  # (rows,)
    loss: Loss
    scoring: Any
    weighted: bool  # whether scores count the weights
    per_target = False

    def problem(
        self, bank: Bank, rows: np.ndarray, norm: LpGroupNorm, C: float
    ) -> Problem:
        """The problem on some of the rows, which are those of the bank."""
        target, weight = self.target[rows], self.weight[rows]
        return Problem(bank, target, len(self.classes), self.loss, norm, C, weight)

    def judge(
        self, scores: np.ndarray, train: np.ndarray, held: np.ndarray
    ) -> np.ndarray:
        """The score of some rows, shape (1,)."""
        logits = self.loss.scores_are_logits
        kind = KnownProbabilities if logits else KnownScores
        known = kind(scores, self.classes)
        weight = self.weight[held] if self.weighted else None
        labels = self.classes[self.target[held]]
        return np.array([judge(self.scoring, known, labels, weight)])


@dataclass(frozen=True)
class ValueTask:
    """Numbers to predict."""

    values: np.ndarray  # (rows, targets), as they came
    weight: np.ndarray  # (rows,)
    loss: Loss
    scoring: Any
    weighted: bool
    center: bool
    per_target: bool

    def problem(
        self, bank: Bank, rows: np.ndarray, norm: LpGroupNorm, C: float
    ) -> Problem:
        """The problem on some of the rows, less their mean."""
        target, weight = self.values[rows] - self._mean(rows), self.weight[rows]
        return Problem(bank, target, target.shape[1], self.loss, norm, C, weight)

    def _mean(self, rows: np.ndarray) -> np.ndarray:
        if not self.center:
            return np.zeros(self.values.shape[1])
        mean = np.average(self.values[rows], axis=0, weights=self.weight[rows])
        return np.asarray(mean)

    def judge(
        self, scores: np.ndarray, train: np.ndarray, held: np.ndarray
    ) -> np.ndarray:
        """The score of some rows; one per target if these are apart, else one."""
        return self.judge_values(scores + self._mean(train), held)

    def judge_values(self, predicted: np.ndarray, held: np.ndarray) -> np.ndarray:
        """The same, for predictions that have their intercept."""
        weight = self.weight[held] if self.weighted else None
        true = self.values[held]
        if self.per_target:
            columns = [(true[:, k], predicted[:, k]) for k in range(true.shape[1])]
        elif true.shape[1] == 1:
            columns = [(true[:, 0], predicted[:, 0])]
        else:
            columns = [(true, predicted)]
        return np.array(
            [judge(self.scoring, KnownValues(p), y, weight) for y, p in columns]
        )


@dataclass(frozen=True)
class TimeTask:
    """Times to predict, judged by Harrell's concordance."""

    times: np.ndarray  # (rows, 2): times, as they are learned, and events
    weight: np.ndarray  # (rows,)
    loss: CensoredEpsilonInsensitive
    scoring: Any
    weighted: bool
    center: bool
    per_target = False

    def problem(
        self, bank: Bank, rows: np.ndarray, norm: LpGroupNorm, C: float
    ) -> Problem:
        """The problem on some of the rows, less their best constant."""
        target, weight = self.times[rows], self.weight[rows]
        if self.center:
            target = target - [self.loss.best_constant(target, weight), 0.0]
        return Problem(bank, target, 1, self.loss, norm, C, weight)

    def judge(
        self, scores: np.ndarray, train: np.ndarray, held: np.ndarray
    ) -> np.ndarray:
        """The score of some rows, shape (1,); constants do not change an order."""
        weight = self.weight[held] if self.weighted else None
        known = KnownTimes(scores[:, 0])
        return np.array([judge(self.scoring, known, self.times[held], weight)])


Task = ClassTask | ValueTask | TimeTask


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

    def predict_proba(self, X: Any) -> Any:
        """There are none: a temperature would need a fit of its own in every fold."""
        raise ValueError(
            "scoring by probabilities needs them in every fold of the search, which "
            "only loss='log' has; take loss='log', another metric, or scikit-learn's "
            "GridSearchCV."
        )


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


class KnownTimes(_Known):
    """Predicted times, or what rises with them."""

    def __init__(self, times: Any = None) -> None:
        self.times = times

    def predict(self, X: Any) -> Any:
        """The times."""
        return self.times

    def predict_risk(self, X: Any) -> Any:
        """Higher for earlier events."""
        return -np.asarray(self.times)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Harrell's concordance."""
        return concordance_index(y, self.predict_risk(X), sample_weight)


def judge(scoring: Any, known: Any, y: Any, weight: np.ndarray | None) -> float:
    """Of known predictions: `scoring`, or accuracy, R^2 or concordance."""
    rows = np.arange(len(y))[:, None]
    weights = {} if weight is None else {"sample_weight": weight}
    if scoring is None:
        return float(known.score(rows, y, **weights))
    return float(find_scorer(scoring)(known, rows, y, **weights))


def find_scorer(scoring: Any) -> Any:
    """A scorer by its name, or as it was given.

    Examples
    --------
    >>> find_scorer("best")
    Traceback (most recent call last):
    ValueError: scoring must be the name of a metric of scikit-learn or a scorer, got
    'best'; choose for instance 'r2' or 'accuracy'.
    """
    known = get_scorer_names() if isinstance(scoring, str) else []
    scorer = get_scorer(scoring) if scoring in known else scoring
    if not callable(scorer):
        raise ValueError(
            "scoring must be the name of a metric of scikit-learn or a scorer, got "
            f"{quoted(scoring)}; choose for instance 'r2' or 'accuracy'."
        )
    return scorer
