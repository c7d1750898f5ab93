"""The search over p and C: warm paths along C, kernels computed once for all folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from scipy.stats import rankdata
from sklearn.model_selection import check_cv

from manykernels.banks import Bank
from manykernels.base.imports import room
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import (
    Columns,
    Count,
    Either,
    Fields,
    Floats,
    Real,
    Wholes,
)
from manykernels.inputs.parameters import (
    Flag,
    Number,
    ReadBy,
    Rules,
    Whole,
    Workers,
)
from manykernels.inputs.reporting import counted_steps
from manykernels.mkl.choices import EXPONENT, PENALTY
from manykernels.mkl.estimator import BankRecipe, FitData
from manykernels.mkl.per_target import side_by_side, solve_each
from manykernels.norms import LpGroupNorm
from manykernels.solvers.loop import require_whole
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.ridge import held_out_residuals
from manykernels.solvers.regression.ridge_targets import one_target
from manykernels.targets import Targets, Values
from manykernels.targets.base import find_scorer

Fold = tuple[np.ndarray, np.ndarray]  # rows to learn from, rows to predict
Pair = tuple[float, float]  # p and C
SEARCH_RULES: Rules = {
    "n_jobs": Workers(optional=True),
    "scoring": ReadBy(find_scorer, optional=True),
}
# What a search adds to a file.
SEARCH_FIELDS: Fields = {
    "cv_results_": Columns(),
    "best_index_": Either(Count(), Wholes("targets", low=0)),
    "best_score_": Either(Real(nan=True), Floats("targets", nan=True)),
    "best_p_": Either(Real(low=1.0, high=2.0), Floats("targets", low=1.0)),
    "best_C_": Either(Real(low=0.0), Floats("targets", low=0.0)),
}


@dataclass(frozen=True)
class Grid:
    """All pairs of p and C; C rises along a path, so that fits start warm."""

    ps: list[float]
    Cs: list[float]

    @classmethod
    def of(cls, ps: Any, Cs: Any) -> Grid:
        """From lists, single numbers, or for C the number of values.

        Examples
        --------
        >>> Grid.of(1.5, 3).Cs
        [0.001, 1.0, 1000.0]
        """
        if isinstance(Cs, Integral) and not isinstance(Cs, bool) and int(Cs) > 1:
            Whole(example=7, high=10_000).check("Cs", Cs)
            Cs = np.logspace(-3, 3, int(Cs)).tolist()
        chosen = _numbers("Cs", Cs, "C", PENALTY)
        return cls(_numbers("ps", ps, "p", EXPONENT), sorted(set(chosen)))

    @property
    def pairs(self) -> list[Pair]:
        """In the order of the tables: all C for the first p, and so on."""
        return [(p, C) for p in self.ps for C in self.Cs]

    def best(self, scores: np.ndarray) -> tuple[int, float]:
        """Position of the best mean score, the first of equals, and the score."""
        # A metric may be undefined on some fold, which rules the pair out.
        usable = np.where(np.isfinite(scores), scores, -np.inf)
        place = int(np.argmax(usable))
        return place, float(scores[place])

    def results(self, scores: np.ndarray) -> dict[str, Any]:
        """The table, in the form of scikit-learn's `cv_results_`.

        `scores` has shape (folds, pairs).
        """
        mean = scores.mean(axis=0)
        table: dict[str, Any] = {
            "param_p": np.array([p for p, _ in self.pairs]),
            "param_C": np.array([C for _, C in self.pairs]),
            "params": [{"p": p, "C": C} for p, C in self.pairs],
        }
        for fold, row in enumerate(scores):
            table[f"split{fold}_test_score"] = row
        table["mean_test_score"] = mean
        table["std_test_score"] = scores.std(axis=0)
        # rankdata gives the smallest value the first rank.
        worst = np.where(np.isfinite(mean), -mean, np.inf)
        table["rank_test_score"] = rankdata(worst, method="min").astype(np.int32)
        return table


def _numbers(name: str, values: Any, each: str, rule: Number) -> list[float]:
    """One or many numbers as a list, checked one by one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    values = np.atleast_1d(values) if isinstance(values, np.ndarray) else values
    numbers = list(values)
    if not numbers:
        raise ValueError(
            f"{name} must hold at least one number, got none; leave it out for the "
            "default."
        )
    for value in numbers:
        rule.check(each, value)
    return [float(value) for value in numbers]


@dataclass(frozen=True)
class KernelSearch:
    """Everything that the fits of a search share.

    Parameters
    ----------
    bank : Bank
        Kernels on all the rows.
    targets : Targets
        Of all the rows.
    grid : Grid
    solver : callable
        From a seed to a solver.
    seed : int
    n_jobs : int or None
    verbose : int
    scoring : str or scorer, optional
    weighted : bool
        Whether scores count the weights of the rows.
    recipe : BankRecipe, optional
        Of the bank, for workers on other machines.
    """

    bank: Bank
    targets: Targets
    grid: Grid
    solver: Callable[[int], Any]
    seed: int
    n_jobs: int | None
    verbose: int
    scoring: Any = None
    weighted: bool = False
    recipe: BankRecipe | None = None

    def fold_scores(self, folds: Sequence[Fold]) -> np.ndarray:
        """Scores of the rows left out, shape (folds, pairs, targets or 1)."""
        total = len(folds) * len(self.grid.pairs)
        return self._run("_fold", folds, total)

    def leave_one_out_scores(self) -> np.ndarray:
        """Scores of the closed-form leave-one-out predictions, (1, pairs, ...)."""
        total = len(self.grid.pairs)
        return self._run("_left_out", self.grid.ps, total).reshape(1, total, -1)

    def _run(self, name: str, items: Sequence[Any], total: int) -> Any:
        """A method for all items: in threads, or on the workers of joblib's backend."""
        if hasattr(get_active_backend()[0], "client"):  # that of Dask
            elsewhere = room("distributed").on_workers
            alone = replace(self, recipe=None)
            return np.stack(elsewhere(alone, self.recipe, name, items))
        work = getattr(self, name)
        # Threads share the kernels; BLAS threads of every one would fight.
        said = counted_steps(self.verbose, "searching p and C", total)
        with one_blas_thread(), said as step:
            jobs = (delayed(work)(item, step) for item in items)
            return np.stack(Parallel(self.n_jobs, require="sharedmem")(jobs))

    def _fold(self, fold: Fold, step: Callable[[], None]) -> np.ndarray:
        """Scores of every pair on one fold."""
        train, held_out = fold
        part, targets = self.bank.take(train), self.targets.take(train)
        unseen, scores = self.targets.take(held_out), []
        # The kernels of all rows are computed once; folds index into them.
        for p in self.grid.ps:
            for _, model in self._path(part, targets, p, step):
                predicted = self._predict(model, train, held_out)
                scores.append(
                    targets.score(unseen, predicted, self.scoring, self.weighted)
                )
        return np.stack(scores)

    def _left_out(self, p: float, step: Callable[[], None]) -> np.ndarray:
        """Scores of every C from closed-form leave-one-out residuals."""
        targets, scores = self.targets, []
        assert isinstance(targets, Values)
        for problem, model in self._path(self.bank, targets, p, step):
            predicted = targets.values - _residuals(problem, model, targets.center)
            scores.append(
                targets.score_predicted(predicted, self.scoring, self.weighted)
            )
        return np.stack(scores)

    def _path(
        self, bank: Bank, targets: Targets, p: float, step: Callable[[], None]
    ) -> Iterator[tuple[Problem, Expansion]]:
        """Problems and solutions along C, each the start of the next."""
        solver, start = self.solver(self.seed), None
        for C in self.grid.Cs:
            problem = targets.problem(bank, LpGroupNorm(p), C)
            if targets.per_target:
                start = side_by_side(solve_each(solver, problem, start, None))
            else:
                start = require_whole(solver.solve(problem, start)).model
            yield problem, start
            step()

    def _predict(
        self, model: Expansion, train: np.ndarray, held: np.ndarray
    ) -> np.ndarray:
        """Scores of rows left out, from the values in the bank."""
        coef = np.zeros((self.bank.n_rows, model.coef.shape[1]))
        coef[train] = model.coef
        if model.weights.ndim == 1:
            return self.bank.scores_at(held, coef, model.weights)
        products = self.bank.block_scores(coef)[:, :, held]  # (targets, blocks, held)
        return np.einsum("kfi,kf->ik", products, model.weights)


def _residuals(problem: Problem, model: Expansion, center: bool) -> np.ndarray:
    if model.weights.ndim == 1:
        return held_out_residuals(problem, model.weights, center)
    columns = [
        held_out_residuals(one_target(problem, k), weights, center)
        for k, weights in enumerate(model.weights)
    ]
    return np.concatenate(columns, axis=1)


def make_folds(
    cv: Any, y: np.ndarray, groups: Any, kept: np.ndarray, classifier: bool
) -> list[Fold]:
    """Rows to learn from and to predict, from what scikit-learn calls cv.

    `y` has the kept rows, `groups` has all of them. Splitters see the kept rows only;
    positions that are listed by hand are those of all rows, and those that are not kept
    are dropped from them.
    """
    if isinstance(cv, Iterable) and not hasattr(cv, "split"):
        return [(_places(train, kept), _places(held, kept)) for train, held in cv]
    if cv is None:  # no more folds than rows of the commonest class
        most = int(np.bincount(y).max()) if classifier else len(y)
        cv = max(2, min(5, most))
    splitter = check_cv(cv, y, classifier=classifier)
    kept_groups = None if groups is None else np.asarray(groups)[kept]
    return list(splitter.split(np.zeros((len(y), 1)), y, kept_groups))


def _places(index: Any, kept: np.ndarray) -> np.ndarray:
    """Where some of all rows, by position or mask, are among the kept ones."""
    index = np.asarray(index)
    index = np.flatnonzero(index) if index.dtype == bool else index
    return np.searchsorted(kept, index[np.isin(index, kept)])


def search_rules(rules: Rules) -> Rules:
    """Rules for an estimator with ps and Cs in place of p and C."""
    single = ("p", "C", "warm_start", "checkpoint")  # what only one fit can have
    own = {name: rule for name, rule in rules.items() if name not in single}
    return {**own, "refit": Flag(), **SEARCH_RULES}


class SearchMixin:
    """Scores of every p and C, and the best of them."""

    def _choose(
        self, grid: Grid, data: FitData, folds: list[Fold] | None, weighted: bool
    ) -> list[Pair]:
        """Set what the search found; the best (p, C) of every target, or one.

        Without folds the scores are those of leave-one-out in closed form.
        """
        me: Any = self
        search = KernelSearch(
            data.bank,
            data.targets,
            grid,
            me._make_solver,
            data.seed,
            me.n_jobs,
            me.verbose,
            me.scoring,
            weighted,
            data.recipe,
        )
        device = me._open_device()
        with nullcontext() if device is None else device.out_of_memory_error():
            if folds is None:
                scores = search.leave_one_out_scores()
            else:
                scores = search.fold_scores(folds)
        return self._record(grid, scores, data.targets.per_target)

    def _record(self, grid: Grid, scores: np.ndarray, per_target: bool) -> list[Pair]:
        self.cv_results_ = grid.results(scores.mean(axis=2))
        means = scores.mean(axis=0)  # (pairs, targets or 1)
        best_pairs = [grid.best(column) for column in means.T]
        pairs = [grid.pairs[place] for place, _ in best_pairs]
        if not per_target:
            best: Any = (*best_pairs[0], *pairs[0])
        else:
            columns = zip(*best_pairs, strict=True), zip(*pairs, strict=True)
            best = [np.array(values) for part in columns for values in part]
            self.cv_results_["target_test_score"] = means
        self.best_index_, self.best_score_, self.best_p_, self.best_C_ = best
        return pairs

    def _facts(self) -> dict[str, Any]:
        best: dict[str, Any] = {}
        for name in ("p", "C", "score"):
            value = getattr(self, f"best_{name}_")
            best[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return {**super()._facts(), "best": best}  # type: ignore[misc]
