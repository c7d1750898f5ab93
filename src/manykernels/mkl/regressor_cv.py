"""A regressor that chooses p and C by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from manykernels.banks import Storage
from manykernels.base.stored import Fields
from manykernels.inputs.parameters import Rules
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.losses import Loss
from manykernels.mkl.choices import REGRESSOR
from manykernels.mkl.estimator import FitData
from manykernels.mkl.regressor import MKLRegressor
from manykernels.mkl.search import (
    SEARCH_FIELDS,
    Grid,
    Pair,
    SearchMixin,
    make_folds,
    search_rules,
)
from manykernels.solvers.loop import SolveResult


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
    solver, tol, max_iter, scale, missing, psd : see MKLRegressor
    per_target_weights : bool, default=False
        Learn the kernel weights, and choose p and C, for every target by itself.
    nugget, approximate, storage, memory_limit, device : see MKLRegressor
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
    kernel_views_ : see MKLRegressor
    kernel_weights_, kernel_names_, dual_coef_, support_, intercept_, objective_, \
duality_gap_, dual_point_, history_, n_iter_, n_features_in_, feature_names_in_ : see \
MKLRegressor

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MKLRegressorCV(["rbf@0-3", "rbf@4-9", "linear"]).fit(X, y)
    >>> 0.4 < model.best_score_ < model.score(X, y)
    True
    """

    _stored: ClassVar[Fields] = {**MKLRegressor._stored, **SEARCH_FIELDS}
    _rules: ClassVar[Rules] = search_rules(REGRESSOR)

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
        scale: Any = "auto",
        missing: str = "rescale",
        psd: Any = "check",
        nugget: str | None = None,
        approximate: str | None = None,
        storage: str | Storage = "auto",
        memory_limit: int | str | None = None,
        device: str | None = None,
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
        self.scale = scale
        self.missing = missing
        self.psd = psd
        self.nugget = nugget
        self.approximate = approximate
        self.storage = storage
        self.memory_limit = memory_limit
        self.device = device
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    @rollback_on_error
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
        exact = self._leaves_one_out()
        X, y, sample_weight, groups = self._match(X, y, sample_weight, groups)
        data = self._read(X, y, sample_weight, max(grid.Cs))
        first, kept = data.targets.values[:, 0], data.targets.kept
        folds = None if exact else make_folds(self.cv, first, groups, kept, False)
        pairs = self._choose(grid, data, folds, sample_weight is not None)
        if self.refit and self.per_target_weights:
            self._refit_each(data, pairs)
        elif self.refit:
            problem = data.problem(*pairs[0])
            self._finish(data, problem, self._solve(data, problem))
        return self

    def _leaves_one_out(self) -> bool:
        self._rules["loss"].check("loss", self.loss)
        loss: Loss = self._make_loss()
        squared = loss.is_squared
        if isinstance(self.cv, str) and (self.cv != "loo" or not squared):
            raise ValueError(
                "cv must be a number of folds, a splitter, or 'loo' with the squared "
                f"loss, got {self.cv!r} with the loss {loss.name!r}; choose for "
                "instance cv=5."
            )
        return squared and (self.cv is None or isinstance(self.cv, str))

    def _refit_each(self, data: FitData, pairs: list[Pair]) -> None:
        """Solve on all rows with the best pairs; targets of the same pair together."""
        results: dict[int, SolveResult] = {}
        # Targets with the same pair share their kernels, and one solver run.
        for pair in dict.fromkeys(pairs):
            which = [k for k, other in enumerate(pairs) if other == pair]
            problem = data.problem(*pair)
            target = problem.target[:, which]
            problem = replace(problem, target=target, n_outputs=len(which))
            of_pair = self._solve_each(data, problem)
            results |= dict(zip(which, of_pair, strict=True))
        self._store_each(data, [results[k] for k in sorted(results)])
