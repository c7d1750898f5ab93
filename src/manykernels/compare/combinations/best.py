"""The best single kernel, by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from manykernels.banks.composed import weighted_sum
from manykernels.base.arrays import Array
from manykernels.base.stored import TEXT, Columns, Count, Real
from manykernels.compare.combinations.base import (
    CombinationData,
    CombinedKernelClassifier,
    only,
)
from manykernels.inputs.parameters import choose_generator
from manykernels.mkl.search import SEARCH_RULES, Grid, KernelSearch, make_folds


class BestKernelClassifier(CombinedKernelClassifier):
    """An SVM on the one kernel that predicts rows left out best.

    Kernels are computed once, on all the rows, and folds index into them.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    C : float, default=1.0
        Weight of the losses.
    Cs : list of float or int, optional
        Weights of the losses to try with every kernel, in place of C; a number of them
        from 1e-3 to 1e3.
    cv : int, splitter or iterable, optional
        None takes 5 folds with the same share of every class.
    scoring : str or scorer, optional
        None for the accuracy.
    n_jobs : int, optional
        Folds at a time.
    tol, max_iter, class_weight, psd, storage, memory_limit, verbose, \
random_state : see `MKLClassifier`

    Attributes
    ----------
    best_kernel_ : str
        Its name; `kernel_weights_` is 1 there and 0 elsewhere.
    best_C_, best_score_ : float
    best_index_ : int
        Line of `cv_results_`.
    cv_results_ : dict of arrays
        `param_kernel`, `param_C`, `mean_test_score`, `rank_test_score` and more.
    kernel_views_ : see MKLClassifier
    kernel_weights_, kernel_names_, classes_, dual_coef_, support_, objective_, \
duality_gap_, history_, n_iter_, temperature_, n_features_in_, feature_names_in_ : see \
`MKLClassifier`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BestKernelClassifier("rbf@0; rbf@1; rbf@2", Cs=[1, 10]).fit(X, y)
    >>> model.best_kernel_
    'rbf@2'
    """

    _rules = {**CombinedKernelClassifier._rules, **SEARCH_RULES}
    _stored = {
        **CombinedKernelClassifier._stored,
        "cv_results_": Columns(),
        "best_kernel_": TEXT,
        "best_index_": Count(),
        "best_score_": Real(nan=True),
        "best_C_": Real(low=0.0),
    }

    def __init__(
        self,
        kernels: Any = None,
        C: float = 1.0,
        Cs: Any = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(kernels, C, **shared)
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _check_settings(self) -> None:
        super()._check_settings()
        self._grid()

    def _grid(self) -> Grid:
        return Grid.of(2.0, [self.C] if self.Cs is None else self.Cs)

    def _svm_C(self) -> float:
        return self.best_C_

    def _find_weights(self, data: CombinationData) -> Array:
        grid, names = self._grid(), data.kernels.names
        scores = self._fold_scores(data, grid)  # (folds, kernels x Cs)
        self.cv_results_ = _table(scores, names, grid.Cs)
        self.best_index_, self.best_score_ = grid.best(scores.mean(axis=0))
        best, place = divmod(self.best_index_, len(grid.Cs))
        self.best_kernel_, self.best_C_ = names[best], grid.Cs[place]
        return only(best, data.bank.n_blocks)

    def _fold_scores(self, data: CombinationData, grid: Grid) -> Array:
        rows, bank = data.targets, data.bank
        folds = make_folds(self.cv, rows.target, None, rows.kept, True)
        seed = int(choose_generator(self.random_state).integers(2**31))
        scores = []
        for f in range(bank.n_blocks):
            search = KernelSearch(
                weighted_sum(bank, only(f, bank.n_blocks)),
                rows,
                grid,
                self._make_solver,
                seed,
                self.n_jobs,
                self.verbose,
                self.scoring,
                data.counts is not None,
            )
            scores.append(search.fold_scores(folds)[:, :, 0])
        return np.concatenate(scores, axis=1)


def _table(scores: Array, names: list[str], Cs: list[float]) -> dict[str, Any]:
    """The scores in the form of scikit-learn's `cv_results_`."""
    pairs = [(name, C) for name in names for C in Cs]
    mean = scores.mean(axis=0)
    worst = np.where(np.isfinite(mean), -mean, np.inf)
    return {
        "param_kernel": np.array([name for name, _ in pairs], dtype=object),
        "param_C": np.array([C for _, C in pairs]),
        "params": [{"kernel": name, "C": C} for name, C in pairs],
        **{f"split{k}_test_score": row for k, row in enumerate(scores)},
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=0),
        "rank_test_score": rankdata(worst, method="min").astype(np.int32),
    }
