"""What the estimators that choose p and C share."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.banks import Bank
from manykernels.base.stored import (
    Columns,
    Count,
    Either,
    Fields,
    Floats,
    Real,
    Wholes,
)
from manykernels.inputs.parameters import choose_generator
from manykernels.mkl.grid import Grid
from manykernels.mkl.search import Fold, Search
from manykernels.mkl.tasks import Task

# What a search adds to a file.
SEARCHED: Fields = {
    "cv_results_": Columns(),
    "best_index_": Either(Count(), Wholes("targets", low=0)),
    "best_score_": Either(Real(nan=True), Floats("targets", nan=True)),
    "best_p_": Either(Real(low=1.0, high=2.0), Floats("targets", low=1.0)),
    "best_C_": Either(Real(low=0.0), Floats("targets", low=0.0)),
}


class SearchMixin:
    """Scores of every p and C, and the best of them."""

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

    def _facts(self) -> dict[str, Any]:
        best: dict[str, Any] = {}
        for name in ("p", "C", "score"):
            value = getattr(self, f"best_{name}_")
            best[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return {**super()._facts(), "best": best}  # type: ignore[misc]
