"""What the estimators that choose p and C share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from manykernels.banks import Bank
from manykernels.inputs.parameters import choose_generator
from manykernels.mkl.grid import Grid
from manykernels.mkl.search import Fold, Search
from manykernels.mkl.tasks import Task

FITTED = ("_model", "_labels", "_temperature")
OWN = ("ps", "Cs", "cv", "scoring", "n_jobs", "refit")  # parameters of a search


class SearchMixin:
    """Scores of every p and C, the best of them, and a plain estimator for files."""

    plain: ClassVar[type]  # the estimator without a search

    def _choose(
        self, grid: Grid, bank: Bank, task: Task, folds: list[Fold] | None
    ) -> list[tuple[float, float]]:
        """Set what the search found; the best (p, C) of every target, or one.

        Without folds the scores are those of leave-one-out in closed form.
        """
        me: Any = self
        seed = int(choose_generator(me.random_state).integers(2**31))
        search = Search(bank, task, grid, me._make_solver, seed, me.n_jobs, me.verbose)
        if folds is None:
            scores = search.leave_one_out_scores()
        else:
            scores = search.fold_scores(folds)
        return self._record(grid, scores, task.per_target)

    def _record(
        self, grid: Grid, scores: np.ndarray, per_target: bool
    ) -> list[tuple[float, float]]:
        self.cv_results_ = grid.results(scores.mean(axis=2))
        means = scores.mean(axis=0)  # (pairs, targets or 1)
        found = [grid.best(column) for column in means.T]
        pairs = [grid.pairs[place] for place, _ in found]
        if not per_target:
            best: Any = (*found[0], *pairs[0])
        else:
            columns = zip(*found, strict=True), zip(*pairs, strict=True)
            best = [np.array(values) for part in columns for values in part]
            self.cv_results_["target_test_score"] = means
        self.best_index_, self.best_score_, self.best_p_, self.best_C_ = best
        return pairs

    def _without_search(self) -> Any:
        """The same fitted model as an estimator with the chosen p and C."""
        params = {
            name: value
            for name, value in self.get_params(deep=False).items()  # type: ignore[attr-defined]
            if name not in OWN
        }
        if np.ndim(self.best_p_) == 0:
            params |= {"p": float(self.best_p_), "C": float(self.best_C_)}
        model = self.plain(**params)
        found = ("cv_results_", "best_index_", "best_score_", "best_p_", "best_C_")
        fitted = {
            name: value
            for name, value in vars(self).items()
            if (name.endswith("_") and name not in found) or name in FITTED
        }
        vars(model).update(fitted)
        return model
