"""A regressor that chooses p and C by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from manykernels.base.stored import Fields
from manykernels.inputs.parameters import choose_generator
from manykernels.inputs.reporting import (
    progress_callback,
    shown_log,
    warn_unless_converged,
)
from manykernels.inputs.tables import training_kernels
from manykernels.kernels import KernelSet
from manykernels.losses import Loss
from manykernels.mkl.grid import Grid
from manykernels.mkl.per_target import solve_each
from manykernels.mkl.regression_choices import (
    choose_regression_loss,
    choose_regression_solver,
)
from manykernels.mkl.regressor import MKLRegressor
from manykernels.mkl.search import make_folds
from manykernels.mkl.search_cv import SEARCHED, SearchMixin
from manykernels.mkl.tasks import ValueTask
from manykernels.mkl.values import TrainingValues
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Epoch, Problem, SolveResult


class MKLRegressorCV(SearchMixin, MKLRegressor):
    """An `MKLRegressor` with the p and C that predict rows left out best.

    Kernels are computed once, on all the rows, and folds index into them; a fit with
    one C is the start of the fit with the next. For the squared loss the default is
    leave-one-out in closed form, with the kernel weights of the fit to all rows.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLRegressor`.
    ps : list of float, default=(1.1, 1.5, 2.0)
        Exponents to try.
    Cs : list of float or int, default=7
        Weights of the losses to try; a number of them from 1e-3 to 1e3.
    cv : "loo", int, splitter or iterable, optional
        None takes "loo" for the squared loss and 5 folds for the others.
    scoring : str or scorer, optional
        None for R^2.
    n_jobs : int, optional
        Folds, or values of p for "loo", at a time.
    refit : bool, default=True
        Fit all rows with the best p and C; without it there is nothing to predict with.
    loss, epsilon, threshold, fit_intercept : see MKLRegressor
    solver, tol, max_iter, psd : see MKLRegressor
    per_target_weights : bool, default=False
        Learn the kernel weights, and choose p and C, for every target by itself.
    approximate, rank, dtype, storage, memory_limit, storage_dir : see MKLRegressor
    callback : callable, optional
        Called with each line of the history of the last fit.
    verbose : int, default=0
        1 shows a progress bar, and what `MKLRegressor` shows, on standard error.
    random_state : int, RandomState or None

    Attributes
    ----------
    best_p_, best_C_, best_score_, best_index_ : float, or array of shape (n_targets,)
        For every target by itself with `per_target_weights`.
    cv_results_ : dict of arrays
        As scikit-learn's searches have it: `param_p`, `param_C`, `mean_test_score`,
        `rank_test_score` and more; a data frame shows it well.
    kernel_weights_, kernel_names_, dual_coef_, support_, intercept_, objective_, \
duality_gap_, history_, n_iter_, n_features_in_, feature_names_in_ : see MKLRegressor

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MKLRegressorCV(["rbf@0-3", "rbf@4-9", "linear"]).fit(X, y)
    >>> 0.4 < model.best_score_ < model.score(X, y)
    True
    """

    _stored: ClassVar[Fields] = {**MKLRegressor._stored, **SEARCHED}

    def __init__(
        self,
        kernels: Any = None,
        ps: Any = (1.1, 1.5, 2.0),
        Cs: Any = 7,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        loss: Any = "squared",
        epsilon: float = 0.1,
        threshold: float = 1.0,
        fit_intercept: bool = True,
        per_target_weights: bool = False,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        psd: Any = "check",
        approximate: str | None = None,
        rank: int = 300,
        dtype: str = "float64",
        storage: str = "auto",
        memory_limit: int | str | None = None,
        storage_dir: Any = None,
        callback: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.ps = ps
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.loss = loss
        self.epsilon = epsilon
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.per_target_weights = per_target_weights
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.psd = psd
        self.approximate = approximate
        self.rank = rank
        self.dtype = dtype
        self.storage = storage
        self.memory_limit = memory_limit
        self.storage_dir = storage_dir
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> MKLRegressorCV:
        """Choose p and C, then learn coefficients and kernel weights.

        Parameters
        ----------
        X : table (array, CSR, data frame) or kernel matrices
        y : array of shape (n,) or (n, n_targets)
        sample_weight : array of shape (n,), optional
        groups : array of shape (n,), optional
            For splitters that keep groups together.
        """
        grid = Grid.of(self.ps, self.Cs)
        loss = choose_regression_loss(self.loss, self.epsilon, self.threshold)
        exact = self._leaves_one_out(loss)
        callback = progress_callback(self.verbose, self.tol, self.callback)
        self._make_solver(0)  # raises early
        specs = training_kernels(self.kernels, X, self.approximate, self.rank)
        X = self._check_X(X, reset=True, min_rows=2)
        rows = TrainingValues.of(X, y, sample_weight, self.fit_intercept)
        kernels = self._fit_kernels(specs, X, rows.kept)
        bank = self._build_bank(kernels)
        task = self._task(rows, loss, sample_weight is not None)
        labels = task.values[:, 0]
        folds = None if exact else make_folds(self.cv, labels, groups, rows.kept, False)
        pairs = self._choose(grid, bank, task, folds)
        if self.refit:
            every = np.arange(len(rows.kept))
            problem = task.problem(bank, every, LpGroupNorm(2.0), 1.0)
            self._refit(kernels, rows, problem, pairs, callback)
        return self

    def _leaves_one_out(self, loss: Loss) -> bool:
        squared = loss.is_squared
        if isinstance(self.cv, str) and (self.cv != "loo" or not squared):
            raise ValueError(
                "cv must be a number of folds, a splitter, or 'loo' with the squared "
                f"loss, got {self.cv!r} with the loss {loss.name!r}; choose for "
                "instance cv=5."
            )
        return squared and (self.cv is None or isinstance(self.cv, str))

    def _make_solver(self, seed: int) -> Any:
        return choose_regression_solver(self.solver, self.tol, self.max_iter, seed)

    def _task(self, rows: TrainingValues, loss: Loss, weighted: bool) -> ValueTask:
        return ValueTask(
            rows.target + rows.intercept,
            rows.weight,
            loss,
            self.scoring,
            weighted,
            self.fit_intercept,
            self.per_target_weights,
        )

    def _refit(
        self,
        kernels: KernelSet,
        rows: TrainingValues,
        problem: Problem,
        pairs: list[tuple[float, float]],
        callback: Callable[[Epoch], object] | None,
    ) -> None:
        """Solve on all rows with the best pair; targets of the same pair together."""
        solver = self._make_solver(
            int(choose_generator(self.random_state).integers(2**31))
        )
        results: dict[int, SolveResult] = {}
        with shown_log(self.verbose):
            for pair in dict.fromkeys(pairs):
                which = [k for k, other in enumerate(pairs) if other == pair]
                part = replace(problem, norm=LpGroupNorm(pair[0]), C=pair[1])
                if not self.per_target_weights:
                    results[0] = solver.solve(part, None, callback)
                    continue
                part = replace(part, target=part.target[:, which], n_outputs=len(which))
                found = solve_each(solver, part, None, callback)
                results |= dict(zip(which, found, strict=True))
        for result in results.values():
            warn_unless_converged(solver, result)
        if self.per_target_weights:
            self._store_each(kernels, rows, [results[k] for k in sorted(results)])
        else:
            self._store(kernels, rows, results[0])
