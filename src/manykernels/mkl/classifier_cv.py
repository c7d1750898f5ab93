"""A classifier that chooses p and C by itself."""

from __future__ import annotations

from typing import Any, ClassVar

from manykernels.banks import Storage
from manykernels.base.stored import Fields
from manykernels.inputs.parameters import Rules
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.mkl.choices import CLASSIFIER
from manykernels.mkl.classifier import MKLClassifier
from manykernels.mkl.search import (
    SEARCH_FIELDS,
    Grid,
    SearchMixin,
    make_folds,
    search_rules,
)


class MKLClassifierCV(SearchMixin, MKLClassifier):
    """An `MKLClassifier` with the p and C that predict rows left out best.

    Kernels are computed once, on all the rows, and folds index into them; a fit with
    one C is the start of the fit with the next.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    ps : list of float, default=(1.1, 1.5, 2.0)
        Exponents to try.
    Cs : list of float or int, default=7
        Weights of the losses to try; a number of them from 1e-3 to 1e3.
    cv : int, splitter or iterable, optional
        None takes 5 folds with the same share of every class, or fewer where no class
        has 5 rows.
    scoring : str or scorer, optional
        None for the accuracy.
    n_jobs : int, optional
        Folds at a time.
    refit : bool, default=True
        Fit all rows with the best p and C; without it there is nothing to predict with.
    loss, solver, tol, max_iter, class_weight, scale, missing, psd : see MKLClassifier
    nugget, approximate, storage, memory_limit, device : see MKLClassifier
    callback : callable, optional
        Called with each line of the history of the last fit.
    verbose : int, default=0
        1 shows a progress bar, and what `MKLClassifier` shows, on standard error.
    random_state : int, RandomState or None

    Attributes
    ----------
    best_p_, best_C_, best_score_ : float
    best_index_ : int
    cv_results_ : dict of arrays
        As scikit-learn's searches have it: `param_p`, `param_C`, `mean_test_score`,
        `rank_test_score` and more; a data frame shows it well.
    kernel_views_ : see MKLClassifier
    kernel_weights_, kernel_names_, classes_, dual_coef_, support_, objective_, \
duality_gap_, dual_point_, history_, n_iter_, temperature_, n_features_in_, \
feature_names_in_ : see MKLClassifier

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV("rbf@0-1; rbf@2-3", Cs=[0.1, 10], random_state=0)
    >>> model.fit(X, y).best_C_
    10.0
    """

    _stored: ClassVar[Fields] = {**MKLClassifier._stored, **SEARCH_FIELDS}
    _rules: ClassVar[Rules] = search_rules(CLASSIFIER)

    def __init__(
        self,
        kernels: Any = None,
        ps: Any = (1.1, 1.5, 2.0),
        Cs: Any = 7,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        loss: str = "hinge",
        solver: Any = "auto",
        tol: float = 1e-2,
        max_iter: int | None = None,
        class_weight: Any = None,
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
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
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
    ) -> MKLClassifierCV:
        """Choose p and C, then learn coefficients and kernel weights.

        Parameters
        ----------
        X : table (array, CSR, data frame) or kernel matrices
        y : array of shape (n,)
            Labels of any type.
        sample_weight : array of shape (n,), optional
        groups : array of shape (n,), optional
            For splitters that keep groups together.
        """
        grid = Grid.of(self.ps, self.Cs)
        X, y, sample_weight, groups = self._match(X, y, sample_weight, groups)
        data = self._read(X, y, sample_weight, max(grid.Cs))
        labels = data.targets
        folds = make_folds(self.cv, labels.target, groups, labels.kept, True)
        ((p, C),) = self._choose(grid, data, folds, sample_weight is not None)
        if self.refit:
            problem = data.problem(p, C)
            self._finish(data, problem, self._solve(data, problem))
        return self

    @property
    def partial_fit(self) -> Any:  # type: ignore[override]
        """A search needs all the rows at once."""
        raise AttributeError(
            "MKLClassifierCV has no partial_fit: it needs all rows to choose p and C; "
            "use MKLClassifier with the best ones."
        )
