"""Regression with all products of base kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_y

from manykernels.inputs.reporting import progress_callback
from manykernels.products.estimator import PolynomialMKL
from manykernels.products.inputs import (
    check_X,
    choose_degree_weights,
    choose_fit,
    choose_p,
    prepare,
)
from manykernels.products.problem import ProductProblem


class PolynomialMKLRegressor(RegressorMixin, PolynomialMKL):
    r"""Learn which products of columns explain a number.

    All products of at most `degree` base kernels take part, with one linear kernel per
    column unless others are given: 176,851 products for 100 columns and degree 3. They
    are never listed. Minimizes :math:`\frac12 (\sum_i \rho_i^p \|w_i\|^p)^{2/p} +
    \frac C2 \sum_t (f(x_t) - y_t)^2`, with y scaled to unit variance.

    Parameters
    ----------
    degree : int, default=3
        Factors of a product at most; a column may be a factor more than once.
    base_kernels : None, str, Kernel or list of these
        None for the columns themselves. Otherwise see :mod:`manykernels.kernels`, for
        instance ``["rbf@0", "rbf@1"]``, or ``"precomputed"`` for X of shape
        (n, n_train, kernels). Kernels with a single feature are as fast as columns,
        others need a matrix each.
    degree_weights : sequence of degree + 1 numbers, optional
        The prior weights rho of the degrees 0, 1, ...; ``[1, 1, 1, 2]`` makes products
        of three rarer. Ones by default.
    p : float in [1, 2) or "blend", default=1
        1 selects few products and certifies them (column generation). Other values
        run randomized mirror descent; 4/3 is the algorithm of Afkanpour et al.
        "blend" fits both, with several priors, and weighs them by cross-validation:
        the best predictions, from columns or base kernels with a single feature only.
    C : float or "auto", default="auto"
        Weight of the errors. "auto" takes the extended BIC for p = 1, five folds for
        each member of a blend and a held-out fifth of the rows otherwise.
    refit : bool, optional
        Fit the chosen products again without shrinkage (p = 1 and base kernels with a
        single feature only). None does so exactly when C is "auto".
    fit_intercept : bool, default=True
        An intercept without penalty; otherwise the constant is one of the products.
    standardize : bool or "auto", default="auto"
        Scale columns to unit mean square. True centers them as well; "auto" centers
        those whose mean is further than a quarter of the standard deviation from 0.
    normalize : bool, default=True
        Scale every product to unit mean square, so that powers of columns with heavy
        tails have no head start (p = 1 and base kernels with a single feature only).
    tol : float, default=1e-3
        Relative duality gap to reach; 0.01 is enough for the members of a blend.
    max_iter : int, optional
        Rounds at most for p = 1 (200), draws otherwise (500).
    memory_limit : int or str, optional
        Bytes, or text such as "4GB", for matrices of base kernels and blocks of
        products.
    callback : callable, optional
        Called with each line of the history; returning True stops the fit.
    verbose : int, default=0
        1 prints a line per round to standard error.
    random_state : int, RandomState or None

    Attributes
    ----------
    interactions_ : InteractionTable
        A dict of columns, strongest first: interaction, columns, degree, weight,
        coefficient, sign. ``pandas.DataFrame(model.interactions_)`` works.
    kernel_weights_ : array of shape (n_active,)
        Weights of the products in use, which sum to one.
    kernel_names_ : list of str
        These products in words.
    C_ : float
        The C that was used, or that of the member with most weight.
    blend_ : list of dict
        Only for p="blend": p, degree_weights, C and weight of every member.
    objective_, duality_gap_ : float
        Value of the problem above at C_ (divided by C n), before any refit, and how
        far it can be above the optimum over *all* products; of the member with most
        weight.
    history_ : list of Epoch
        One line per round, at C_.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of str
        Only after a fit on a data frame.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 30))
    >>> y = X[:, 3] * X[:, 17] - 0.5 * X[:, 5]
    >>> model = PolynomialMKLRegressor().fit(X, y)
    >>> model.interactions_["interaction"]
    ['x3 * x17', 'x5']
    >>> round(model.score(X, y), 6)
    1.0
    """

    def __init__(
        self,
        degree: int = 3,
        base_kernels: Any = None,
        degree_weights: Any = None,
        p: float | str = 1.0,
        C: float | str = "auto",
        refit: bool | None = None,
        fit_intercept: bool = True,
        standardize: bool | str = "auto",
        normalize: bool = True,
        tol: float = 1e-3,
        max_iter: int | None = None,
        memory_limit: int | str | None = None,
        callback: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.degree = degree
        self.base_kernels = base_kernels
        self.degree_weights = degree_weights
        self.p = p
        self.C = C
        self.refit = refit
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.memory_limit = memory_limit
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PolynomialMKLRegressor:
        """Find the products and their coefficients.

        Parameters
        ----------
        X : table (array, data frame) or kernel matrices
        y : array of shape (n,)
        """
        rho = choose_degree_weights(self.degree, self.degree_weights)
        p, solver = choose_p(self.p), choose_fit(self)
        callback = progress_callback(self.verbose, self.tol, self.callback)
        given, X = X, check_X(self, X, reset=True, min_rows=2)
        y = _check_target(X, y)
        ready = prepare(self, X, given)
        intercept = bool(self.fit_intercept)
        shift = float(y.mean()) if intercept else 0.0
        scale = float(np.sqrt(np.square(y - shift).mean())) or 1.0
        problem = ProductProblem(
            ready.base, (y - shift) / scale, rho, p=p, intercept=intercept
        )
        fitted = solver.solve(problem, callback)
        self._store(ready, [fitted], scale, shift, None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicted values, shape (n,)."""
        return self._scores(X)[:, 0]


def _check_target(X: Any, y: Any) -> np.ndarray:
    if y is None:
        # Opens as scikit-learn's own message does, for tools that look for it.
        raise ValueError(
            "This PolynomialMKLRegressor estimator requires y to be passed, but the "
            "target y is None; pass one number per row."
        )
    y = column_or_1d(_check_y(y, multi_output=False, y_numeric=True), warn=True)
    check_consistent_length(X[0] if isinstance(X, list) else X, y)
    return np.asarray(y, dtype=np.float64)
