"""The methods of a study, all on the same rows and folds, kernels computed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels.banks import Bank
from manykernels.banks.composed import weighted_sum
from manykernels.inputs.view_table import JoinedTable
from manykernels.mkl.estimator import Training
from manykernels.mkl.search import Grid, Search, make_folds
from manykernels.solvers import Expansion
from manykernels.solvers.loop import require_whole
from manykernels.study.contest.kinds import Kind
from manykernels.study.contest.splits import Fold
from manykernels.study.owners import Owners
from manykernels.targets.base import score_predictions

LINEAR_CS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of standardized columns


@dataclass(frozen=True)
class Rows:
    """Some rows of the data, and what belongs to them."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


@dataclass(frozen=True)
class Plan:
    """What all methods are told: what to try, and how to judge it."""

    kind: Kind
    grid: Grid
    scoring: Any
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What a method predicts of the rows left out, and what it chose before.

    Attributes
    ----------
    scores : array of shape (rows, outputs)
        Logarithms of probabilities (or scores, where it has none), values, or numbers
        that rise with times.
    choice : dict
        What the inner folds chose: p, C, the view.
    path : array or None
        Mean inner score of every p and C, in the order of the grid.
    seconds : float
        To choose, to learn and to predict; with the kernels, where it uses them.
    """

    scores: np.ndarray
    choice: dict[str, Any]
    path: np.ndarray | None
    seconds: float


class Lesson:
    """Training rows, read once: kernels, inner folds, and how to learn on them.

    Parameters
    ----------
    estimator : MKLEstimator
        A fresh clone; it reads the rows, and fitted models are copies of it.
    train : Rows
    folds : sequence of folds
        Positions among the training rows.
    plan : Plan
    """

    def __init__(
        self, estimator: Any, train: Rows, folds: Sequence[Fold], plan: Plan
    ) -> None:
        began = time.perf_counter()
        self.estimator, self.train, self.plan = estimator, train, plan
        self.data: Training = estimator._read(train.X, train.y, train.weight)
        rows = self.data.targets
        self.raw_folds = list(folds)
        self.folds = make_folds(self.raw_folds, rows.target, None, rows.kept, False)
        self.kernel_seconds = time.perf_counter() - began
        self._model: Any = None  # the last one

    def inner_scores(self, bank: Bank, ps: Sequence[float]) -> np.ndarray:
        """Mean scores of every p and C on the inner folds."""
        grid = Grid(list(ps), self.plan.grid.Cs)
        solver = self.estimator._make_solver
        scoring = (self.plan.scoring, self.train.weight is not None)
        shared = (grid, solver, self.data.seed, 1, 0, *scoring)
        search = Search(bank, self.data.targets, *shared)
        return np.asarray(search.fold_scores(self.folds).mean(axis=(0, 2)))

    def fit(self, p: float, C: float) -> Any:
        """A fitted model on all the training rows."""
        model = copy(self.estimator).set_params(p=p, C=C)
        problem = model._problem(self.data, p, C)
        result = require_whole(model._solve(self.data, problem))
        self._model = model._finish(self.data, problem, result)
        return self._model

    def fit_fixed(self, weights: np.ndarray, C: float) -> Any:
        """The same with kernel weights that are given, with a sum of one."""
        model = copy(self.estimator).set_params(p=2.0, C=C)
        data = self.plain._replace(bank=weighted_sum(self.plain.bank, weights))
        result = require_whole(model._solve(data, model._problem(data, 2.0, C)))
        found = Expansion(result.model.weights[0] * result.model.coef, weights)
        problem = model._problem(self.plain, 2.0, C)
        return model._finish(self.plain, problem, replace(result, model=found))

    def path(self, p: float) -> Iterator[tuple[float, np.ndarray]]:
        """(C, kernel weights) along all C, on all the training rows."""
        start = None
        for C in self.plan.grid.Cs:
            solver = self.estimator._make_solver(self.data.seed)
            problem = self.estimator._problem(self.data, p, C)
            start = require_whole(solver.solve(problem, start)).model
            yield C, start.weights / start.weights.sum()

    @property
    def reader(self) -> Any:
        """A model that knows how to read rows, whatever it predicts."""
        return self._model or self.fit(2.0, self.plan.grid.Cs[0])

    @property
    def plain(self) -> Training:
        """The kernels as they were, where a nugget was made of their parts."""
        return self.data._replace(bank=self.data.bank.without_nugget)

    @cached_property
    def owners(self) -> Owners:
        """Which view every kernel belongs to; a nugget belongs to none."""
        found, n_kernels = Owners.of(self.reader, "view"), self.data.kernels.n_kernels
        return Owners.of_names([found.names[v] for v in found.position[:n_kernels]])

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


# --- the methods ----------------------------------------------------------------------

Entrant = Callable[[Lesson, Any], Outcome]


def learned(lesson: Lesson, X: Any) -> tuple[Outcome, Any]:
    """Kernel weights are learned; the model comes along."""
    return _searched(lesson, X, lesson.plan.grid.ps)


def uniform(lesson: Lesson, X: Any) -> tuple[Outcome, Any]:
    """All kernels have the same weight: p = 2, same solver, same C, same folds."""
    return _searched(lesson, X, [2.0])


def _searched(lesson: Lesson, X: Any, ps: Sequence[float]) -> tuple[Outcome, Any]:
    began = time.perf_counter() - lesson.kernel_seconds
    grid = Grid(list(ps), lesson.plan.grid.Cs)
    found = lesson.inner_scores(lesson.data.bank, ps)
    place, _ = grid.best(found)
    p, C = grid.pairs[place]
    model = lesson.fit(p, C)
    scores = lesson.plan.kind.scores(model, X)
    seconds = time.perf_counter() - began
    return Outcome(scores, {"p": p, "C": C}, found, seconds), model


def single(lesson: Lesson, X: Any) -> Outcome:
    """The mean of one view's kernels; view and C are chosen on the inner folds."""
    began = time.perf_counter() - lesson.kernel_seconds
    Cs, owners, bank = lesson.plan.grid.Cs, lesson.owners, lesson.plain.bank
    means = np.eye(len(owners.names))[:, owners.position]
    means /= means.sum(axis=1, keepdims=True)
    found = np.array(
        [lesson.inner_scores(weighted_sum(bank, one), [2.0]) for one in means]
    )
    place, _ = Grid([2.0], Cs).best(found.ravel())
    view, best = divmod(place, len(Cs))
    model = lesson.fit_fixed(means[view], Cs[best])
    scores = lesson.plan.kind.scores(model, X)
    choice = {"C": Cs[best], "view": owners.names[view]}
    return Outcome(scores, choice, found.max(axis=1), time.perf_counter() - began)


def averaged(lesson: Lesson, X: Any) -> Outcome:
    """A learner of scikit-learn on the mean of the kernels."""
    began = time.perf_counter() - lesson.kernel_seconds
    kind, kernel = lesson.plan.kind, lesson.uniform_kernel()
    whole = np.arange(len(kernel))

    def predict(C: float, train: np.ndarray, values: np.ndarray) -> np.ndarray:
        model = kind.on_kernel(C)  # type: ignore[union-attr]
        rows = lesson.data.targets
        y = lesson.train.y[rows.kept][train]
        model.fit(kernel[np.ix_(train, train)], y, sample_weight=rows.weight[train])
        return kind.kernel_scores(model, values)  # type: ignore[union-attr]

    def inner(C: float, fold: Fold) -> np.ndarray:
        return predict(C, fold[0], kernel[np.ix_(fold[1], fold[0])])

    Cs = lesson.plan.grid.Cs
    best = _best(lesson, Cs, lesson.folds, lesson.data.targets.kept, inner)
    scores = predict(best, whole, lesson.uniform_cross(X))
    return Outcome(scores, {"C": best}, None, time.perf_counter() - began)


def linear(lesson: Lesson, X: Any) -> Outcome:
    """Logistic or ridge regression on all columns, standardized."""
    began = time.perf_counter()
    table, kind = lesson.columns(lesson.train.X), lesson.plan.kind
    weights = _weights(lesson)

    def fitted(C: float, train: np.ndarray) -> Any:
        scaler = StandardScaler(with_mean=not sp.issparse(table))
        model = make_pipeline(scaler, kind.linear(C))  # type: ignore[union-attr]
        weight = {}
        if weights is not None:
            weight = {f"{model.steps[-1][0]}__sample_weight": weights[train]}
        return model.fit(table[train], lesson.train.y[train], **weight)

    def inner(C: float, fold: Fold) -> np.ndarray:
        return kind.scores(fitted(C, fold[0]), table[fold[1]])

    every = np.arange(table.shape[0])
    best = _best(lesson, LINEAR_CS, lesson.raw_folds, every, inner)
    scores = kind.scores(fitted(best, every), lesson.columns(X))
    return Outcome(scores, {"C": best}, None, time.perf_counter() - began)


def forest(lesson: Lesson, X: Any) -> Outcome:
    """A random forest on all columns, with scikit-learn's settings."""
    began = time.perf_counter()
    kind = lesson.plan.kind
    model = kind.forest(lesson.plan.seed)  # type: ignore[union-attr]
    table = lesson.columns(lesson.train.X)
    model.fit(table, lesson.train.y, sample_weight=_weights(lesson))
    scores = kind.scores(model, lesson.columns(X))
    return Outcome(scores, {}, None, time.perf_counter() - began)


BASELINES: dict[str, Entrant] = {
    "averaged": averaged,
    "single": single,
    "linear": linear,
    "forest": forest,
}
ON_TABLES = ("linear", "forest")  # need columns, not kernel matrices


def _weights(lesson: Lesson) -> np.ndarray | None:
    """Of all training rows, class weights included; zero where a row is not kept."""
    rows = lesson.data.targets
    weight = np.zeros(len(lesson.train.y))
    weight[rows.kept] = rows.weight
    return None if np.all(weight == 1.0) else weight  # a forest draws in another way


def _best(
    lesson: Lesson,
    Cs: Sequence[float],
    folds: Sequence[Fold],
    kept: np.ndarray,
    predict: Callable[[float, Fold], np.ndarray],
) -> float:
    """The C with the best mean score on the folds; the first of equals."""
    plan, train = lesson.plan, lesson.train
    means = []
    for C in Cs:
        found = []
        for fold in folds:
            held = kept[fold[1]]
            weight = None if train.weight is None else train.weight[held]
            known = plan.kind.known(predict(C, fold))
            found.append(score_predictions(plan.scoring, known, train.y[held], weight))
        means.append(float(np.mean(found)))
    place, _ = Grid([2.0], list(Cs)).best(np.array(means))
    return float(Cs[place])
