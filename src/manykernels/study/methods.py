"""The methods of a study, all on the same rows and folds, kernels computed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels.banks import Bank
from manykernels.banks.composed import weighted_sum
from manykernels.inputs.view_table import JoinedTable
from manykernels.mkl.estimator import FitData
from manykernels.mkl.search import Grid, KernelSearch, make_folds
from manykernels.solvers.loop import require_whole
from manykernels.solvers.problem import Expansion
from manykernels.study.kernel_parts import KernelParts
from manykernels.study.study_data import Fold, StudyRows
from manykernels.targets import Labels, Targets
from manykernels.targets.base import score_predictions

LEARNED, UNIFORM = "mkl", "uniform"  # what every study compares
LINEAR_CS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of standardized columns
FOREST_TREES = 300  # accuracy hardly rises with more


@dataclass(frozen=True)
class StudySettings:
    """What all methods try, and how it is judged."""

    targets: Targets  # of all rows
    grid: Grid
    scoring: Any
    seed: int


@dataclass(frozen=True)
class MethodResult:
    """What a method predicts of the test rows, and what it chose before.

    Attributes
    ----------
    scores : array of shape (rows, outputs)
        Logarithms of probabilities (or scores, if it has none), values, or numbers
        that rise with times.
    choice : dict
        What the inner folds chose: p, C, the view.
    seconds : float
        To choose, to learn and to predict; with the kernels, if it uses them.
    """

    scores: np.ndarray
    choice: dict[str, Any]
    seconds: float


class TrainingFold:
    """Training rows, read once: kernels, inner folds, and how to learn on them.

    Parameters
    ----------
    estimator : MKLEstimator
        A fresh clone; it reads the rows, and fitted models are copies of it.
    train : StudyRows
    folds : sequence of folds
        Positions among the training rows.
    settings : StudySettings
    """

    def __init__(
        self,
        estimator: Any,
        train: StudyRows,
        folds: Sequence[Fold],
        settings: StudySettings,
    ) -> None:
        began = time.perf_counter()
        self.estimator, self.train, self.settings = estimator, train, settings
        # Kernels of all methods and all inner folds are those of these rows.
        self.data: FitData = estimator._read(train.X, train.y, train.weight)
        kept = self.data.targets.kept
        self.raw_folds = list(folds)
        target = self.data.targets.target
        self.folds = make_folds(self.raw_folds, target, None, kept, False)
        self.kernel_seconds = time.perf_counter() - began
        self._last_model: Any = None

    def inner_scores(self, bank: Bank, ps: Sequence[float]) -> np.ndarray:
        """Mean scores of every p and C on the inner folds."""
        search = KernelSearch(
            bank=bank,
            targets=self.data.targets,
            grid=Grid(list(ps), self.settings.grid.Cs),
            solver=self.estimator._make_solver,
            seed=self.data.seed,
            n_jobs=1,
            verbose=0,
            scoring=self.settings.scoring,
            weighted=self.train.weight is not None,
        )
        return np.asarray(search.fold_scores(self.folds).mean(axis=(0, 2)))

    def fit(self, p: float, C: float) -> Any:
        """A fitted model on all the training rows."""
        model = copy(self.estimator).set_params(p=p, C=C)
        problem = self.data.problem(p, C)
        result = require_whole(model._solve(self.data, problem))
        self._last_model = model._finish(self.data, problem, result)
        return self._last_model

    def fit_fixed(self, weights: np.ndarray, C: float) -> Any:
        """The same with kernel weights that are given, with a sum of one."""
        model = copy(self.estimator).set_params(p=2.0, C=C)
        data = self.plain._replace(bank=weighted_sum(self.plain.bank, weights))
        result = require_whole(model._solve(data, data.problem(2.0, C)))
        # One block with the weighted sum has been fitted: its weight goes into the
        # coefficients, and the given weights become those of the kernels.
        expansion = Expansion(result.model.weights[0] * result.model.coef, weights)
        problem = self.plain.problem(2.0, C)
        return model._finish(self.plain, problem, replace(result, model=expansion))

    def path(self, p: float) -> Iterator[tuple[float, np.ndarray]]:
        """(C, kernel weights) along all C, on all the training rows."""
        start = None
        for C in self.settings.grid.Cs:
            solver = self.estimator._make_solver(self.data.seed)
            problem = self.data.problem(p, C)
            start = require_whole(solver.solve(problem, start)).model
            yield C, start.weights / start.weights.sum()

    @property
    def reader(self) -> Any:
        """A model that reads rows, whatever it predicts."""
        return self._last_model or self.fit(2.0, self.settings.grid.Cs[0])

    @property
    def plain(self) -> FitData:
        """The kernels before a nugget was made of parts of them."""
        return self.data._replace(bank=self.data.bank.without_nugget)

    @cached_property
    def views(self) -> KernelParts:
        """The view of every kernel; a nugget belongs to none."""
        every = KernelParts.of(self.reader, "view")
        places = every.position[: self.data.kernels.n_kernels]
        return KernelParts.of_names([every.names[v] for v in places])

    def columns(self, X: Any) -> Any:
        """Rows as kernels see them, all views in one table."""
        table = self.reader._read_new(X)
        return table.pick(slice(None)) if isinstance(table, JoinedTable) else table

    def uniform_kernel(self) -> np.ndarray:
        """The mean of the kernels on the training rows."""
        bank = self.plain.bank
        weights = np.full(bank.n_blocks, 1.0 / bank.n_blocks)
        return np.array(bank.combine_precisely(weights, np.arange(bank.n_rows)))

    def uniform_cross(self, X: Any) -> np.ndarray:
        """The mean of the kernels between new rows and the training rows."""
        kernels = self.data.kernels
        kernels = kernels.only(np.arange(kernels.n_kernels), np.float64)
        table = self.reader._read_new(X)
        blocks = [block.mean(axis=0) for _, block in kernels.cross(table)]
        return np.concatenate(blocks)


# --- what differs between labels, values and times ------------------------------------


class _CenteredKernelRidge(KernelRidge):
    """scikit-learn's kernel ridge, which has no intercept, with the mean as one."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.mean_ = np.average(y, weights=sample_weight)
        return super().fit(X, y - self.mean_, sample_weight)

    def predict(self, X: Any) -> Any:
        return super().predict(X) + self.mean_


def baseline_learner(task: str, baseline: str, setting: Any) -> Any:
    """Return a learner of scikit-learn with this C, or this seed for a forest."""
    regression = task == "regression"
    if baseline == "averaged" and regression:
        return _CenteredKernelRidge(alpha=1.0 / setting, kernel="precomputed")
    if baseline == "averaged":
        return SVC(C=setting, kernel="precomputed", break_ties=True)
    if baseline == "linear" and regression:
        return Ridge(alpha=1.0 / setting)
    if baseline == "linear":
        # Enough steps for standardized columns and the largest C.
        return LogisticRegression(C=setting, max_iter=2000)
    forest = RandomForestRegressor if regression else RandomForestClassifier
    return forest(FOREST_TREES, random_state=setting)


@dataclass(frozen=True)
class TaskDefaults:
    """How a study of labels, values or times is made.

    Attributes
    ----------
    ps : tuple of float
        Exponents that learning the weights may choose from.
    score_factor : float
        Of scores where they are shown.
    baselines : tuple of str
    titles : dict of str
        Of baselines whose learner depends on the task.
    """

    ps: tuple[float, ...] = (1.0, 1.1, 1.5)
    score_factor: float = 1.0
    baselines: tuple[str, ...] = ("averaged", "single", "linear", "forest")
    titles: dict[str, str] = field(default_factory=dict)


TASK_DEFAULTS = {
    "classification": TaskDefaults(
        score_factor=100.0,
        titles={
            "averaged": "SVM on the averaged kernel",
            "linear": "logistic regression",
        },
    ),
    "regression": TaskDefaults(
        titles={
            "averaged": "kernel ridge on the averaged kernel",
            "linear": "ridge regression",
        },
    ),
    # Without p = 1, at which fits of times converge slowly.
    "survival": TaskDefaults(ps=(1.1, 1.5), baselines=("single",)),
}


# --- the methods ----------------------------------------------------------------------


def learned(fold: TrainingFold, X: Any) -> tuple[MethodResult, Any]:
    """Learn kernel weights; the model comes along."""
    return _searched(fold, X, fold.settings.grid.ps)


def uniform(fold: TrainingFold, X: Any) -> tuple[MethodResult, Any]:
    """Give all kernels the same weight: p = 2, same solver, same C, same folds."""
    return _searched(fold, X, [2.0])


def _searched(
    fold: TrainingFold, X: Any, ps: Sequence[float]
) -> tuple[MethodResult, Any]:
    # Kernels are computed once for all methods; each that uses them counts the time.
    began = time.perf_counter() - fold.kernel_seconds
    grid = Grid(list(ps), fold.settings.grid.Cs)
    inner = fold.inner_scores(fold.data.bank, ps)
    p, C = grid.pairs[grid.best(inner)[0]]
    model = fold.fit(p, C)
    scores = fold.settings.targets.scores_by(model, X)
    seconds = time.perf_counter() - began
    return MethodResult(scores, {"p": p, "C": C}, seconds), model


def single(fold: TrainingFold, X: Any) -> MethodResult:
    """Take the mean of one view's kernels; inner folds choose the view and C."""
    began = time.perf_counter() - fold.kernel_seconds
    Cs, views, bank = fold.settings.grid.Cs, fold.views, fold.plain.bank
    means = np.eye(len(views.names))[:, views.position]
    means /= means.sum(axis=1, keepdims=True)  # a line per view
    inner = np.array(
        [fold.inner_scores(weighted_sum(bank, mean), [2.0]) for mean in means]
    )
    best, _ = Grid([2.0], Cs).best(inner.ravel())
    view, k = divmod(best, len(Cs))
    model = fold.fit_fixed(means[view], Cs[k])
    scores = fold.settings.targets.scores_by(model, X)
    choice = {"C": Cs[k], "view": views.names[view]}
    return MethodResult(scores, choice, time.perf_counter() - began)


def averaged(fold: TrainingFold, X: Any) -> MethodResult:
    """Fit a learner of scikit-learn on the mean of the kernels."""
    began = time.perf_counter() - fold.kernel_seconds
    kernel, rows = fold.uniform_kernel(), fold.data.targets
    targets = fold.settings.targets

    def predict(C: float, train: np.ndarray, values: np.ndarray) -> np.ndarray:
        model = baseline_learner(targets.task, "averaged", C)
        y = fold.train.y[rows.kept][train]
        model.fit(kernel[np.ix_(train, train)], y, sample_weight=rows.weight[train])
        if not isinstance(targets, Labels):
            return targets.scores_by(model, values)
        scores = model.decision_function(values)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        return targets.columns_of(scores, model.classes_)

    def inner(C: float, inner_fold: Fold) -> np.ndarray:
        train, test = inner_fold
        return predict(C, train, kernel[np.ix_(test, train)])

    C = _best_C(fold, fold.settings.grid.Cs, fold.folds, rows.kept, inner)
    scores = predict(C, np.arange(len(kernel)), fold.uniform_cross(X))
    return MethodResult(scores, {"C": C}, time.perf_counter() - began)


def linear(fold: TrainingFold, X: Any) -> MethodResult:
    """Fit logistic or ridge regression on all columns, standardized."""
    began = time.perf_counter()
    table, targets = fold.columns(fold.train.X), fold.settings.targets
    weights = _row_weights(fold)

    def fitted(C: float, train: np.ndarray) -> Any:
        scaler = StandardScaler(with_mean=not sp.issparse(table))
        model = make_pipeline(scaler, baseline_learner(targets.task, "linear", C))
        weight = {}
        if weights is not None:
            weight = {f"{model.steps[-1][0]}__sample_weight": weights[train]}
        return model.fit(table[train], fold.train.y[train], **weight)

    def inner(C: float, inner_fold: Fold) -> np.ndarray:
        train, test = inner_fold
        return targets.scores_by(fitted(C, train), table[test])

    every = np.arange(table.shape[0])
    C = _best_C(fold, LINEAR_CS, fold.raw_folds, every, inner)
    scores = targets.scores_by(fitted(C, every), fold.columns(X))
    return MethodResult(scores, {"C": C}, time.perf_counter() - began)


def forest(fold: TrainingFold, X: Any) -> MethodResult:
    """Fit a random forest on all columns, with scikit-learn's settings."""
    began = time.perf_counter()
    targets = fold.settings.targets
    model = baseline_learner(targets.task, "forest", fold.settings.seed)
    table = fold.columns(fold.train.X)
    model.fit(table, fold.train.y, sample_weight=_row_weights(fold))
    scores = targets.scores_by(model, fold.columns(X))
    return MethodResult(scores, {}, time.perf_counter() - began)


BASELINES: dict[str, Callable[[TrainingFold, Any], MethodResult]] = {
    "averaged": averaged,
    "single": single,
    "linear": linear,
    "forest": forest,
}
TABLE_BASELINES = ("linear", "forest")  # need columns, not kernel matrices


def _row_weights(fold: TrainingFold) -> np.ndarray | None:
    """Of all training rows, class weights included; zero where a row is not kept."""
    weight = np.zeros(len(fold.train.y))
    weight[fold.data.targets.kept] = fold.data.targets.weight
    # With weights a forest draws its rows in another way, even if all of them are one.
    return None if np.all(weight == 1.0) else weight


def _best_C(
    fold: TrainingFold,
    Cs: Sequence[float],
    folds: Sequence[Fold],
    kept: np.ndarray,
    predict: Callable[[float, Fold], np.ndarray],
) -> float:
    """The C with the best mean score on the folds; the first of equals."""
    settings, train = fold.settings, fold.train
    means = []
    for C in Cs:
        scores = []
        for inner_fold in folds:
            test = kept[inner_fold[1]]
            weight = None if train.weight is None else train.weight[test]
            predictions = settings.targets.predictions(predict(C, inner_fold))
            scores.append(
                score_predictions(settings.scoring, predictions, train.y[test], weight)
            )
        means.append(float(np.mean(scores)))
    best, _ = Grid([2.0], list(Cs)).best(np.array(means))
    return float(Cs[best])
