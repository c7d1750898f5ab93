"""Scores of all p and C: warm paths along C, kernels computed once for all folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import check_cv

from manykernels.banks import Bank
from manykernels.base.threads import one_blas_thread
from manykernels.inputs.reporting import counted_steps
from manykernels.mkl.grid import Grid
from manykernels.mkl.per_target import side_by_side, solve_each
from manykernels.mkl.tasks import Task, ValueTask
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Expansion, Problem
from manykernels.solvers.regression.ridge import held_out_residuals
from manykernels.solvers.regression.ridge_targets import single

FOLDS = 5  # where nothing is said
Fold = tuple[np.ndarray, np.ndarray]  # rows to learn from, rows to predict


@dataclass(frozen=True)
class Search:
    """Everything that the fits of a search share.

    Parameters
    ----------
    bank : Bank
        Kernels on all the rows.
    task : Task
    grid : Grid
    solver : callable
        From a seed to a solver.
    seed : int
    n_jobs : int or None
    verbose : int
    """

    bank: Bank
    task: Task
    grid: Grid
    solver: Callable[[int], Any]
    seed: int
    n_jobs: int | None
    verbose: int

    def fold_scores(self, folds: Sequence[Fold]) -> np.ndarray:
        """Scores of the rows left out, shape (folds, pairs, targets or 1)."""
        total = len(folds) * len(self.grid.pairs)
        return self._run(self._fold, folds, total)

    def leave_one_out_scores(self) -> np.ndarray:
        """Scores of the closed-form leave-one-out predictions, (1, pairs, ...)."""
        total = len(self.grid.pairs)
        return self._run(self._left_out, self.grid.ps, total).reshape(1, total, -1)

    def _run(self, work: Callable[..., Any], items: Sequence[Any], total: int) -> Any:
        # Threads share the kernels; BLAS threads of every one would fight.
        said = counted_steps(self.verbose, "searching p and C", total)
        with one_blas_thread(), said as step:
            jobs = (delayed(work)(item, step) for item in items)
            return np.stack(Parallel(self.n_jobs, require="sharedmem")(jobs))

    def _fold(self, fold: Fold, step: Callable[[], None]) -> np.ndarray:
        """Scores of every pair on one fold."""
        train, held = fold
        part = self.bank.subset(train)
        return np.stack(
            [
                self.task.judge(self._predict(model, train, held), train, held)
                for p in self.grid.ps
                for _, model in self._path(part, train, p, step)
            ]
        )

    def _left_out(self, p: float, step: Callable[[], None]) -> np.ndarray:
        """Scores of every C from closed-form leave-one-out residuals."""
        task, rows = self.task, np.arange(self.bank.n_rows)
        assert isinstance(task, ValueTask)
        return np.stack(
            [
                task.judge_values(task.values - _residuals(problem, model, task), rows)
                for problem, model in self._path(self.bank, rows, p, step)
            ]
        )

    def _path(
        self, bank: Bank, rows: np.ndarray, p: float, step: Callable[[], None]
    ) -> Iterator[tuple[Problem, Expansion]]:
        """Problems and solutions along C, each the start of the next."""
        solver, start = self.solver(self.seed), None
        for C in self.grid.Cs:
            problem = self.task.problem(bank, rows, LpGroupNorm(p), C)
            if self.task.per_target:
                start = side_by_side(solve_each(solver, problem, start, None))
            else:
                start = solver.solve(problem, start).model
            yield problem, start
            step()

    def _predict(
        self, model: Expansion, train: np.ndarray, held: np.ndarray
    ) -> np.ndarray:
        """Scores of rows left out, from the values in the bank."""
        coef = np.zeros((self.bank.n_rows, model.coef.shape[1]))
        coef[train] = model.coef
        if model.weights.ndim == 1:
            return np.asarray(self.bank.combine(model.weights, held) @ coef)
        products = self.bank.block_scores(coef)[:, :, held]  # (targets, blocks, held)
        return np.einsum("kfi,fk->ik", products, model.weights)


def _residuals(problem: Problem, model: Expansion, task: ValueTask) -> np.ndarray:
    if model.weights.ndim == 1:
        return held_out_residuals(problem, model.weights, task.center)
    columns = [
        held_out_residuals(single(problem, k), weights, task.center)
        for k, weights in enumerate(model.weights.T)
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
    splitter = check_cv(FOLDS if cv is None else cv, y, classifier=classifier)
    kept_groups = None if groups is None else np.asarray(groups)[kept]
    return list(splitter.split(np.zeros((len(y), 1)), y, kept_groups))


def _places(index: Any, kept: np.ndarray) -> np.ndarray:
    """Where some of all rows, by position or mask, are among the kept ones."""
    index = np.asarray(index)
    index = np.flatnonzero(index) if index.dtype == bool else index
    return np.searchsorted(kept, index[np.isin(index, kept)])
