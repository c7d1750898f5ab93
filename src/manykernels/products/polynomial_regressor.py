"""Regression with all products of base kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d

from manykernels.base.tables import count_rows
from manykernels.inputs.parameters import Flag, check_parameters
from manykernels.inputs.reporting import progress_callback
from manykernels.inputs.wrappers import (
    from_other_libraries,
    return_as_input_type,
    rollback_on_error,
)
from manykernels.losses.one_score import SquaredError
from manykernels.products.fitted_products import FittedProducts
from manykernels.products.polynomial_mkl import PolynomialMKL
from manykernels.products.preparing import (
    POLYNOMIAL_RULES,
    PreparedBase,
    check_X,
    choose_degree_weights,
    choose_fit,
    choose_p,
    choose_tol,
    choose_weights,
    fit_best,
    prepare,
    weighted,
)
from manykernels.products.product_problem import ProductProblem
from manykernels.targets.base import weighted_rows
from manykernels.targets.values import read_values


class PolynomialMKLRegressor(RegressorMixin, PolynomialMKL):
    r"""Learn which products of columns explain a number.

    All products of at most `degree` base kernels take part, with one linear kernel per
    column unless others are given: 176,851 products for 100 columns and degree 3. They
    are never listed. Minimizes :math:`\frac12 (\sum_i \rho_i^p \|w_i\|^p)^{2/p} +
    \frac C2 \sum_t (f(x_t) - y_t)^2`, with y scaled to unit variance.

    Parameters
    ----------
    degree : int, default=3
        Factors of a product at most; a column may be a factor more than once (see
        `powers`).
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
    C : float, "auto" or "bic", default="auto"
        Weight of the errors. For p = 1 "bic" is the short list that the extended BIC
        prefers; "auto" is that list, or a shrunken model of columns and pairs, or a
        constant, whichever predicts left-out rows best. A blend has five folds for
        each member, and other p a held-out fifth of the rows.
    refit : bool, optional
        Fit the chosen products again without shrinkage (p = 1 and base kernels with a
        single feature only). None does so for the lists of "auto" and "bic".
    fit_intercept : bool, default=True
        An intercept without penalty; otherwise the constant is one of the products.
    standardize : bool or "auto", default="auto"
        Scale columns to unit mean square. True centers them as well; "auto" centers
        those whose mean is further than a quarter of the standard deviation from 0,
        except columns of zeros and one other value.
    normalize : bool, default=True
        Scale every product to unit variance (mean square without an intercept), so
        that powers of columns with heavy tails have no head start (p = 1 and base
        kernels with a single feature only).
    powers : bool, default=True
        False lets no column be a factor of a product twice. With p = 1 and
        `normalize` a column of zeros and ones, or of any two values, is a factor once
        in any case, because its square says nothing new; one of three values at most
        twice, and so on.
    solver : "auto" or solver, default="auto"
        "auto" follows p. An object has settings of its own, such as tolerance, rounds
        and memory: ``ColumnGeneration(tol=1e-4, memory_limit="4GB")`` for p = 1,
        ``RandomizedMirrorDescent(2000)`` for other p, ``ProductBlend(folds=10)`` for
        "blend", all in :mod:`manykernels.products`, or a rival of
        :mod:`manykernels.compare` that learns weights of products.
    callback : callable, optional
        Called with each line of the history; returning True stops the fit.
    verbose : int, default=0
        1 prints a line per round to standard error.
    random_state : int, RandomState or None
    device : {"cuda", "cuda:1", "cpu"}, optional
        Search all products on this device (p = 1 only); see :doc:`/gpu`. It needs
        PyTorch.
        `memory_limit` of the solver is then that of the device.

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
    candidates_ : list of dict
        Only where C is "auto" and p is 1: the models that were compared, the chosen
        one first, and their loss on left-out rows over that of a constant.
    blend_ : list of dict
        Only for p="blend": p, degree_weights, C and weight of every member.
    objective_, duality_gap_ : float
        Value of the problem above at `C_` (divided by C n), before any refit, and how
        far it can be above the optimum over *all* products; of the member with most
        weight.
    history_ : list of Epoch
        One line per round, at `C_`.
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

    _rules = {**POLYNOMIAL_RULES, "fit_intercept": Flag()}

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
        powers: bool = True,
        solver: Any = "auto",
        callback: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        device: str | None = None,
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
        self.powers = powers
        self.solver = solver
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state
        self.device = device

    @rollback_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PolynomialMKLRegressor:
        """Find the products and their coefficients.

        Parameters
        ----------
        X : table (array, data frame) or kernel matrices
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            How much every row counts. Where C is a number, a weight of two is a row
            twice; where it is chosen, weights are relative.
        """
        check_parameters(self, self._rules)
        rho = choose_degree_weights(self.degree, self.degree_weights)
        p, solver = choose_p(self.p), choose_fit(self)
        tol = choose_tol(self.solver, self.p)
        callback = progress_callback(self.verbose, tol, self.callback)
        X, y, sample_weight = map(from_other_libraries, (X, y, sample_weight))
        given, X = X, check_X(self, X, reset=True, min_rows=2)
        y = _check_target(X, y)
        kept, weights = choose_weights(self, X, sample_weight)
        y = y[kept]
        options = prepare(self, X, given, kept, weights)
        intercept = bool(self.fit_intercept)
        shift = float(np.average(y, weights=weights)) if intercept else 0.0
        square = float(np.average(np.square(y - shift), weights=weights))
        scale = float(np.sqrt(square)) or 1.0
        loss = weighted(SquaredError(), weights)

        def fit(ready: PreparedBase) -> FittedProducts:
            target = (y - shift) / scale
            problem = ProductProblem(
                ready.base, target, rho, p=p, loss=loss, intercept=intercept
            )
            return solver.solve(problem, callback)

        ready, fitted = fit_best(options, fit)
        self._store(ready, [fitted], scale, shift, None)
        return self

    @return_as_input_type
    def predict(self, X: Any) -> np.ndarray:
        """Predicted values, shape (n,)."""
        return self._scores(X)[:, 0]


def _check_target(X: Any, y: Any) -> np.ndarray:
    y = read_values(y, "PolynomialMKLRegressor")
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y must hold one number per row, got {y.shape[1]}; learn one target after "
            "the other."
        )
    y = column_or_1d(y, warn=True)
    weighted_rows(y, None, count_rows(X))  # as many as X
    return y
