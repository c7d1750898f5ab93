"""Labels, numbers or times: what a study asks of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from manykernels.mkl import MKLClassifier, MKLRegressor, MKLSurvival
from manykernels.study.tasks import kind_of, variance_of
from manykernels.targets.labels import PredictedProbabilities
from manykernels.targets.times import PredictedTimes, read_times
from manykernels.targets.values import PredictedValues

TREES = 300
STEPS = 2000  # of the logistic regression, at most
SMALLEST = np.log(np.finfo(float).tiny)  # logarithm of a probability


@dataclass(frozen=True)
class Labels:
    """Labels to predict."""

    y: np.ndarray
    classes: np.ndarray

    name: ClassVar[str] = "classification"
    metric: ClassVar[str] = "accuracy"
    ps: ClassVar[tuple[float, ...]] = (1.0, 1.1, 1.5)
    factor: ClassVar[float] = 100.0  # of scores where they are told
    is_share: ClassVar[bool] = True  # of rows: chance can be told from their number
    titles: ClassVar[dict[str, str]] = {
        "averaged": "SVM on the averaged kernel",
        "linear": "logistic regression",
    }
    baselines: ClassVar[tuple[str, ...]] = ("averaged", "single", "linear", "forest")

    @classmethod
    def of(cls, y: Any) -> Labels:
        """Positions of the classes."""
        classes, target = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got {classes.tolist()}; check the "
                "labels."
            )
        return cls(target, classes)

    @classmethod
    def known_to(cls, model: Any, y: Any) -> Labels:
        """Positions among the classes of a fitted model."""
        found, classes = column_or_1d(y, warn=True), model.classes_
        odd = np.setdiff1d(found, classes)
        if len(odd):
            raise ValueError(
                f"y must hold labels that the model was fitted on, {classes.tolist()}, "
                f"got {odd.tolist()} as well; leave such rows out."
            )
        return cls(np.searchsorted(classes, found), classes)

    variance: ClassVar[None] = None

    @property
    def strata(self) -> np.ndarray | None:
        """Every fold has the same share of every class."""
        return self.y

    @property
    def given(self) -> np.ndarray:
        """As it came."""
        return np.asarray(self.classes[self.y])

    def require_whole(self, train: np.ndarray) -> None:
        """Raise where a split has no row of some class to learn from."""
        lost = np.setdiff1d(np.arange(len(self.classes)), self.y[train])
        if len(lost):
            raise ValueError(
                "every split must train on rows of all classes, got one without "
                f"{self.classes[lost[0]]!r}; take fewer folds, or stratify them."
            )

    def scores(self, model: Any, X: Any) -> np.ndarray:
        """Logarithms of probabilities of all classes; zero for unknown ones."""
        with np.errstate(divide="ignore"):
            known = np.maximum(np.log(model.predict_proba(X)), SMALLEST)
        return self._placed(known, model.classes_)

    def _placed(self, known: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Columns of all classes, where a model may not have met some."""
        found = np.full((len(known), len(self.classes)), known.min() - 1.0)
        found[:, np.searchsorted(self.classes, classes)] = known
        return found

    def known(self, scores: np.ndarray) -> Any:
        """An estimator whose predictions of some rows are these."""
        return PredictedProbabilities(scores, self.classes)

    def predicted(self, scores: np.ndarray) -> np.ndarray:
        """Positions of the classes."""
        return np.asarray(scores.argmax(axis=1))

    def on_kernel(self, C: float) -> Any:
        """A learner on one kernel matrix that nobody here wrote."""
        return SVC(C=C, kernel="precomputed", break_ties=True)

    def kernel_scores(self, model: Any, K: np.ndarray) -> np.ndarray:
        """Scores, no probabilities, of rows given by their kernel values."""
        found = model.decision_function(K)
        if found.ndim == 1:
            found = np.column_stack([-found, found])
        return self._placed(found, model.classes_)

    def linear(self, C: float) -> Any:
        """Logistic regression."""
        return LogisticRegression(C=C, max_iter=STEPS)

    def forest(self, seed: int) -> Any:
        """A forest of trees as deep as they get."""
        return RandomForestClassifier(TREES, random_state=seed)


@dataclass(frozen=True)
class Values:
    """Numbers to predict."""

    y: np.ndarray

    name: ClassVar[str] = "regression"
    metric: ClassVar[str] = "R²"
    ps: ClassVar[tuple[float, ...]] = (1.0, 1.1, 1.5)
    factor: ClassVar[float] = 1.0  # of scores where they are told
    is_share: ClassVar[bool] = False
    classes: ClassVar[None] = None
    titles: ClassVar[dict[str, str]] = {
        "averaged": "kernel ridge on the averaged kernel",
        "linear": "ridge regression",
    }
    baselines: ClassVar[tuple[str, ...]] = ("averaged", "single", "linear", "forest")
    strata: ClassVar[None] = None

    @classmethod
    def of(cls, y: Any) -> Values:
        """One number per row."""
        values = np.asarray(y)
        if values.ndim == 2 and values.shape[1] > 1:
            raise ValueError(
                f"y must be one number per row, got {values.shape[1]}; study the "
                "targets one by one."
            )
        return cls(column_or_1d(y, dtype=np.float64, warn=True))

    @classmethod
    def known_to(cls, model: Any, y: Any) -> Values:
        """The same, whatever the model."""
        return cls.of(y)

    @property
    def variance(self) -> np.ndarray:
        """Of all rows: what every split explains a share of."""
        return variance_of(self.y[:, None], np.ones(len(self.y)))

    @property
    def given(self) -> np.ndarray:
        """As it came."""
        return self.y

    def require_whole(self, train: np.ndarray) -> None:
        """Any rows will do."""

    def scores(self, model: Any, X: Any) -> np.ndarray:
        """Predicted values, shape (rows, 1)."""
        return np.asarray(model.predict(X)).reshape(-1, 1)

    def known(self, scores: np.ndarray) -> Any:
        """An estimator whose predictions of some rows are these."""
        return PredictedValues(self.predicted(scores))

    def predicted(self, scores: np.ndarray) -> np.ndarray:
        """The values."""
        return scores[:, 0]

    def on_kernel(self, C: float) -> Any:
        """A learner on one kernel matrix that nobody here wrote."""
        return _CenteredKernelRidge(alpha=1.0 / C, kernel="precomputed")

    def kernel_scores(self, model: Any, K: np.ndarray) -> np.ndarray:
        """Values of rows given by their kernel values."""
        return self.scores(model, K)

    def linear(self, C: float) -> Any:
        """Ridge regression."""
        return Ridge(alpha=1.0 / C)

    def forest(self, seed: int) -> Any:
        """A forest of trees as deep as they get."""
        return RandomForestRegressor(TREES, random_state=seed)


class _CenteredKernelRidge(KernelRidge):
    """scikit-learn's kernel ridge, which has no intercept, with the mean as one."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.mean_ = np.average(y, weights=sample_weight)
        return super().fit(X, y - self.mean_, sample_weight)

    def predict(self, X: Any) -> Any:
        return super().predict(X) + self.mean_


@dataclass(frozen=True)
class Times:
    """Times until an event to predict, some of them censored."""

    y: np.ndarray  # (rows, 2): times and events

    name: ClassVar[str] = "survival"
    metric: ClassVar[str] = "concordance"
    ps: ClassVar[tuple[float, ...]] = (1.1, 1.5)
    factor: ClassVar[float] = 1.0  # of scores where they are told
    is_share: ClassVar[bool] = False
    classes: ClassVar[None] = None
    titles: ClassVar[dict[str, str]] = {}
    baselines: ClassVar[tuple[str, ...]] = ("single",)

    @classmethod
    def of(cls, y: Any) -> Times:
        """Times and events in two columns."""
        return cls(np.column_stack(read_times(y)))

    variance: ClassVar[None] = None

    @classmethod
    def known_to(cls, model: Any, y: Any) -> Times:
        """The same, whatever the model."""
        return cls.of(y)

    @property
    def strata(self) -> np.ndarray | None:
        """Every fold has the same share of events."""
        return self.y[:, 1]

    @property
    def given(self) -> np.ndarray:
        """Times and events."""
        return self.y

    def require_whole(self, train: np.ndarray) -> None:
        """Any rows will do."""

    def scores(self, model: Any, X: Any) -> np.ndarray:
        """Higher for later events, shape (rows, 1)."""
        return -np.asarray(model.predict_risk(X)).reshape(-1, 1)

    def known(self, scores: np.ndarray) -> Any:
        """An estimator whose predictions of some rows are these."""
        return PredictedTimes(self.predicted(scores))

    def predicted(self, scores: np.ndarray) -> np.ndarray:
        """What rises with the times."""
        return scores[:, 0]


Kind = Labels | Values | Times
KINDS: dict[str, type[Kind]] = {"labels": Labels, "values": Values, "times": Times}


def choose_estimator(estimator: Any, y: Any) -> Any:
    """The estimator, or one that suits y: labels, numbers, or times with events."""
    if estimator is not None:
        return estimator
    if getattr(getattr(y, "dtype", None), "names", None) or isinstance(y, tuple):
        return MKLSurvival()
    labels = type_of_target(y) in ("binary", "multiclass")
    return MKLClassifier() if labels else MKLRegressor()


def read_kind(estimator: Any, y: Any) -> Kind:
    """What is to be predicted, checked."""
    return KINDS[kind_of(estimator)].of(y)


def kind_for(model: Any, y: Any) -> Kind:
    """What a fitted model predicts, checked against it."""
    if y is None:
        raise ValueError("y must be given, got None; pass what X shall predict.")
    return KINDS[kind_of(model)].known_to(model, y)
