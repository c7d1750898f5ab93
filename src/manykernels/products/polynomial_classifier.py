"""Classification with all products of base kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from manykernels.base.stored import ClassLabels
from manykernels.base.tables import count_rows
from manykernels.inputs.parameters import OneOf, check_parameters
from manykernels.inputs.reporting import progress_callback
from manykernels.inputs.wrappers import (
    from_other_libraries,
    return_as_input_type,
    rollback_on_error,
)
from manykernels.losses.one_score import BinarySmoothedHinge, Logistic
from manykernels.products.polynomial_mkl import PolynomialMKL
from manykernels.products.preparing import (
    POLYNOMIAL_RULES,
    check_X,
    choose_degree_weights,
    choose_fit,
    choose_p,
    choose_tol,
    choose_weights,
    prepare,
    weighted,
)
from manykernels.products.product_problem import ProductProblem
from manykernels.solvers.loop import require_whole
from manykernels.targets import Labels

POLYNOMIAL_LOSSES: dict[str, type[Logistic] | type[BinarySmoothedHinge]] = {
    "logistic": Logistic,
    "smoothed_hinge": BinarySmoothedHinge,
}


def _has_probabilities(estimator: Any) -> bool:
    """Whether scores of the loss are log-odds."""
    loss = estimator.loss
    return (
        isinstance(loss, str)
        and loss in POLYNOMIAL_LOSSES
        and POLYNOMIAL_LOSSES[loss].scores_are_logits
    )


class PolynomialMKLClassifier(ClassifierMixin, PolynomialMKL):
    r"""Learn which products of columns separate classes.

    As :class:`PolynomialMKLRegressor`, with a loss for labels:
    :math:`\frac12 (\sum_i \rho_i^p \|w_i\|^p)^{2/p} + C \sum_t loss(f(x_t), y_t)`. The
    constant is one of the products. More than two classes are learned one against the
    rest, with products of their own.

    Parameters
    ----------
    degree : int, default=3
        Factors of a product at most; a column may be a factor more than once (see
        `powers`).
    base_kernels : None, str, Kernel or list of these
        None for the columns themselves, else see :class:`PolynomialMKLRegressor`.
    degree_weights : sequence of degree + 1 numbers, optional
        The prior weights rho of the degrees 0, 1, ...; ones by default.
    loss : {"logistic", "smoothed_hinge"}, default="logistic"
        Only the logistic loss gives probabilities.
    p : float in [1, 2) or "blend", default=1
        1 selects few products and certifies them; other values run randomized mirror
        descent; "blend" fits both and weighs them by cross-validation.
    C : float, "auto" or "bic", default="auto"
        Weight of the losses. "auto" takes the extended BIC for p = 1, as "bic" does,
        five folds for each member of a blend and a held-out fifth of the rows
        otherwise.
    refit : bool, optional
        Fit the chosen products again, all but without shrinkage (p = 1 and base
        kernels with a single feature only). None does so for "auto" and "bic".
    standardize : bool or "auto", default="auto"
        Scale columns to unit mean square. True centers them as well; "auto" centers
        those whose mean is further than a quarter of the standard deviation from 0,
        except columns of zeros and one other value.
    normalize : bool, default=True
        Scale every product to unit mean square, so that powers of columns with heavy
        tails have no head start (p = 1 and base kernels with a single feature only).
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
        coefficient, sign, and class where there are more than two.
        ``pandas.DataFrame(model.interactions_)`` works.
    kernel_weights_ : array of shape (n_active,)
        Weights of the products in use, which sum to one; the mean over classes.
    kernel_names_ : list of str
        These products in words.
    classes_ : array of shape (n_classes,)
    C_ : float or array
        The C that was used, for more than two classes one each.
    blend_ : list of dict
        Only for p="blend": p, degree_weights, C and weight of every member, and the
        class where there are more than two.
    objective_, duality_gap_ : float
        Value of the problem above at `C_` (divided by C n), before any refit, and how
        far it can be above the optimum over *all* products; means over classes.
    history_ : list of Epoch
        One line per round, at `C_`, class after class.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of str
        Only after a fit on a data frame.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 10))
    >>> y = np.where(X[:, 3] * X[:, 7] > 0, "same", "different")
    >>> model = PolynomialMKLClassifier(degree=2).fit(X, y)
    >>> print(model.explain().split()[1:])
    ['x3', '*', 'x7']
    """

    _rules = {**POLYNOMIAL_RULES, "loss": OneOf(*POLYNOMIAL_LOSSES)}
    _stored = {**PolynomialMKL._stored, "classes_": ClassLabels("classes")}

    def __init__(
        self,
        degree: int = 3,
        base_kernels: Any = None,
        degree_weights: Any = None,
        loss: str = "logistic",
        p: float | str = 1.0,
        C: float | str = "auto",
        refit: bool | None = None,
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
        self.loss = loss
        self.p = p
        self.C = C
        self.refit = refit
        self.standardize = standardize
        self.normalize = normalize
        self.powers = powers
        self.solver = solver
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state
        self.device = device

    @rollback_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PolynomialMKLClassifier:
        """Find the products and their coefficients.

        Parameters
        ----------
        X : table (array, data frame) or kernel matrices
        y : array of shape (n,)
            Labels of any type.
        sample_weight : array of shape (n,), optional
            How much every row counts. Where C is a number, a weight of two is a row
            twice; where it is chosen, weights are relative.
        """
        check_parameters(self, self._rules)
        rho = choose_degree_weights(self.degree, self.degree_weights)
        p, loss, solver = (
            choose_p(self.p),
            POLYNOMIAL_LOSSES[self.loss](),
            choose_fit(self),
        )
        tol = choose_tol(self.solver, self.p)
        callback = progress_callback(self.verbose, tol, self.callback)
        X, y, sample_weight = map(from_other_libraries, (X, y, sample_weight))
        given, X = X, check_X(self, X, reset=True, min_rows=2)
        rows = Labels.of(
            y, sample_weight, n_rows=count_rows(X), owner=type(self).__name__
        )
        kept, weights = choose_weights(self, X, sample_weight)
        ready = prepare(self, X, given, kept, weights)[-1]
        positive = [1] if len(rows.classes) == 2 else range(len(rows.classes))
        fits = []
        for k in positive:
            target = np.where(rows.target == k, 1.0, -1.0)
            problem = ProductProblem(
                ready.base,
                target,
                rho,
                p=p,
                loss=weighted(loss, weights),
                intercept=False,
            )
            fits.append(solver.solve(problem, callback))
            if k != positive[-1]:
                require_whole(fits[-1].result)
        self.classes_ = rows.classes
        several = rows.classes.tolist() if len(fits) > 1 else None
        self._store(ready, fits, 1.0, 0.0, several)
        return self

    @return_as_input_type
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (n, n_classes), or (n,) for two classes."""
        return self._decision(X)

    def _decision(self, X: Any) -> np.ndarray:
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @return_as_input_type
    def predict(self, X: Any) -> np.ndarray:
        """Labels of the highest scores."""
        decision = self._decision(X)
        if decision.ndim == 1:
            return self.classes_[(decision > 0.0).astype(np.intp)]
        return self.classes_[np.argmax(decision, axis=1)]

    @available_if(_has_probabilities)
    @return_as_input_type
    def predict_proba(self, X: Any) -> np.ndarray:
        """1 / (1 + exp(-score)), divided by the sum for more than two classes."""
        decision = self._decision(X)
        if decision.ndim == 1:
            return np.column_stack([expit(-decision), expit(decision)])
        values = np.maximum(expit(decision), np.finfo(float).tiny)
        return values / values.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    @return_as_input_type
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of `predict_proba`."""
        return np.log(
            np.maximum(
                self.predict_proba(from_other_libraries(X)), np.finfo(float).tiny
            )
        )
