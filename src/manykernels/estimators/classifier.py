"""Multiclass multiple kernel learning as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from manykernels.banks import build_bank
from manykernels.estimators.calibration import fit_temperature, held_out_scores
from manykernels.estimators.choices import (
    choose_generator,
    choose_loss,
    choose_norm,
    choose_solver,
    require_number,
)
from manykernels.estimators.effort import warn_if_long
from manykernels.estimators.inputs import (
    check_matrices,
    check_table,
    reads_matrices,
    training_kernels,
)
from manykernels.estimators.online import OnlinePast, OnlineSettings, OnlineStep
from manykernels.kernels import Kernel, KernelSet
from manykernels.model import BlockModel
from manykernels.solvers import Epoch, Expansion, Problem, SolveResult
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.progress import ProgressPrinter


class MKLClassifier(ClassifierMixin, BaseEstimator):
    r"""Learn a classifier and the weight of every kernel together.

    Minimises :math:`\frac12 \|w\|_{2,p}^2 + C \sum_i c_i\, loss(s_i, y_i)` over all
    kernels at once, with a duality gap that bounds the distance from the optimum.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        What to learn from, see :mod:`manykernels.kernels`: kernel objects such as
        ``RBF(gamma=0.5, columns=["age", "dose"])``, text such as
        ``"rbf:gamma=0.5@pixel*"``, callables ``(X, Y) -> K``, or ``"precomputed"``
        for X of shape (n, n_train, n_kernels) or a list of matrices. None takes a
        linear, a quadratic and three Gaussian kernels on all columns.
    p : float in [1, 2], default=1.1
        1 selects few kernels with exact zeros, 2 trusts all kernels alike.
    C : float, default=1.0
        Weight of the losses; ``lambda = 1 / (C n)`` in the papers.
    loss : str, default="hinge"
        The multiclass hinge loss; two classes are no special case.
    solver : str or solver, default="auto"
        "auto" ends with a certified relative gap of at most `tol` or a
        ConvergenceWarning; also "dual_ascent", "obscure", "pegasos".
    tol : float, default=1e-2
        Relative duality gap to reach.
    max_iter : int, optional
        Rounds or passes at most; None for the solver's default.
    class_weight : dict or "balanced", optional
        Multiplies C per class.
    psd : {"check", "clip", "skip"}, default="check"
        What to do about given or custom kernels with negative eigenvalues.
    dtype : {"float32", "float64"}, default="float32"
        Precision of stored kernel values. Certificates are always float64.
    memory_limit : int or str, optional
        Bytes, or text such as "4GB", that kernels may take; by default most of the
        free memory.
    warm_start : bool, default=False
        Start the next fit from the current solution where sizes and classes agree.
    callback : callable, optional
        Called with each line of the history; returning True stops the fit.
    verbose : int, default=0
        1 prints a line per epoch to standard error.
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,)
        Non-negative, summing to one; the order of `kernel_names_`.
    kernel_names_ : list of str
    classes_ : array of shape (n_classes,)
    dual_coef_ : array of shape (n_support, n_classes)
        ``sum_f kernel_weights_[f] * K_f(X, X_support) @ dual_coef_`` are the scores.
    support_ : array of int
        Training rows with a coefficient.
    objective_, duality_gap_ : float
        Primal value (divided by C n) and how far it can be above the optimum.
    history_ : list of Epoch
        epoch, time, objective, relative gap and updates, one line per epoch.
    n_iter_ : int
    temperature_ : float
        Divides the scores in `predict_proba`; fitted on the training scores with
        each row's own contribution removed, an estimate of leave-one-out scores.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(["rbf@0", "rbf@1", "rbf@2", "rbf@3"], C=10,
    ...                       random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.kernel_names_[int(model.kernel_weights_.argmax())]
    'rbf(gamma=scale)@3'
    """

    def __init__(
        self,
        kernels: Any = None,
        p: float = 1.1,
        C: float = 1.0,
        loss: str = "hinge",
        solver: Any = "auto",
        tol: float = 1e-2,
        max_iter: int | None = None,
        class_weight: Any = None,
        psd: str = "check",
        dtype: str = "float32",
        memory_limit: int | str | None = None,
        warm_start: bool = False,
        callback: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.p = p
        self.C = C
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.psd = psd
        self.dtype = dtype
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLClassifier:
        """Learn coefficients and kernel weights.

        Parameters
        ----------
        X : table (array, CSR, data frame) or kernel matrices
        y : array of shape (n,)
            Labels of any type.
        sample_weight : array of shape (n,), optional
        """
        norm, loss = choose_norm(self.p), choose_loss(self.loss)
        C = require_number("C", self.C, 0.0)
        solver = choose_solver(self.solver, self.tol, self.max_iter, self.random_state)
        previous = self._previous()
        kernels, target, weight = self._prepare(X, y, sample_weight)
        warn_if_long(kernels)
        bank = build_bank(kernels, memory_limit=self.memory_limit)
        problem = Problem(bank, target, len(self.classes_), loss, norm, C, weight)
        start = self._warm_start(previous, kernels) if self.warm_start else None
        result = solver.solve(problem, start, self._callback())
        self._warn_unless_converged(result)
        self._calibrate(problem, result.model)
        return self._store(kernels, problem, result)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> MKLClassifier:
        """Continue OBSCURE's online stage with one pass over new rows.

        Parameters
        ----------
        X : table
            New rows; kernels keep the constants of the first call.
        y : array of shape (n,)
        classes : array, optional
            All labels that will ever come; needed at the first call.
        sample_weight : array of shape (n,), optional
        """
        settings = self._online_settings(classes)
        past = getattr(self, "_past", None)
        specs = training_kernels(self, X) if past is None else []
        X = self._check_X(X, reset=past is None)
        target = self._known(self._check_y(X, y))
        weight = self._weights(X, y, sample_weight)
        if past is None:
            kernels = self._fit_kernels(specs, X)
            step = OnlineStep.first(kernels, target, weight, settings)
        else:
            step = OnlineStep.next(past, X, target, weight, settings)
        descent, updates = step.run(choose_generator(self.random_state))
        return self._store_step(step, descent, updates)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (n, n_classes), or their difference for two classes."""
        check_is_fitted(self, "classes_")
        scores = self._model.scores(self._check_X(X, reset=False))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Labels of the highest scores."""
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return self.classes_[(decision > 0.0).astype(np.intp)]
        return self.classes_[np.argmax(decision, axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """softmax(scores / temperature_), shape (n, n_classes)."""
        decision = self.decision_function(X) / self.temperature_
        if decision.ndim == 1:
            decision = np.column_stack([np.zeros_like(decision), decision])
        return softmax(decision, axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of `predict_proba`."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def kernel_contributions(self, X: Any) -> np.ndarray:
        """Each kernel's part of the decision function.

        Shape (n, n_kernels, n_classes), or (n, n_kernels) for two classes; the sum
        over the kernels is the decision function.
        """
        check_is_fitted(self, "classes_")
        parts = self._model.block_scores(self._check_X(X, reset=False))
        return parts[..., 1] - parts[..., 0] if len(self.classes_) == 2 else parts

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[KernelSet, np.ndarray, np.ndarray]:
        """Validated kernels on the rows with positive weight, targets, weights."""
        specs = training_kernels(self, X)
        X = self._check_X(X, reset=True)
        y = self._check_y(X, y)
        weight = self._weights(X, y, sample_weight)
        kept = np.flatnonzero(weight > 0.0)
        self.classes_, target = np.unique(y[kept], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "MKLClassifier needs samples of at least 2 classes, got one class "
                f"only: {self.classes_.tolist()}; check y and sample_weight."
            )
        kernels = self._fit_kernels(specs, X)
        if len(kept) < len(y):
            kernels = kernels.restrict(kept)
        return kernels, target, weight[kept]

    def _fit_kernels(self, specs: list[Kernel], X: Any) -> KernelSet:
        names = getattr(self, "feature_names_in_", None)
        return KernelSet.fit(
            specs, X, feature_names=names, dtype=self.dtype, psd=self.psd
        )

    def _check_X(self, X: Any, reset: bool) -> Any:
        check = check_matrices if reads_matrices(self.kernels) else check_table
        return check(self, X, reset)

    def _check_y(self, X: Any, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError(
                "This MKLClassifier estimator requires y to be passed, but the target "
                "y is None."
            )
        y = column_or_1d(y, warn=True)
        check_consistent_length(X[0] if isinstance(X, list) else X, y)
        check_classification_targets(y)
        return y

    def _weights(self, X: Any, y: np.ndarray, sample_weight: Any) -> np.ndarray:
        rows = X[0] if isinstance(X, list) else X
        weight = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, y)
        return weight

    def _callback(self) -> Any:
        if not self.verbose:
            return self.callback
        printer = ProgressPrinter(self.tol)

        def both(line: Any) -> Any:
            printer(line)
            return self.callback(line) if self.callback is not None else None

        return both

    def _previous(self) -> tuple[np.ndarray, BlockModel] | None:
        """Classes and model of an earlier fit, if there is one."""
        if not self.warm_start or not hasattr(self, "classes_"):
            return None
        return self.classes_, self._model

    def _warm_start(self, previous: Any, kernels: KernelSet) -> Expansion | None:
        """The earlier solution as a start, if it speaks of the same rows."""
        if previous is None:
            return None
        classes, model = previous
        fits = (
            np.array_equal(classes, self.classes_)
            and model.kernels.n_train == kernels.n_train == kernels.n_reference
            and model.kernels.n_kernels == kernels.n_kernels
        )
        if not fits:
            return None
        coef = np.zeros((kernels.n_train, len(classes)))
        coef[model.kernels.support] = model.coef
        return Expansion(coef, model.weights)

    def _warn_unless_converged(self, result: SolveResult) -> None:
        if self.solver in ("auto", "dual_ascent") and not result.converged:
            warnings.warn(
                f"The relative duality gap is {result.relative_gap:.2g} after "
                f"{len(result.history)} epochs, above tol={self.tol:g}; raise max_iter "
                "or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _calibrate(self, problem: Problem, model: Expansion) -> None:
        scores = problem.bank.scores(model.coef, model.weights)
        diagonal = problem.bank.diagonals() @ model.weights
        held_out = held_out_scores(scores, model.coef, diagonal)
        self.temperature_ = fit_temperature(
            held_out, problem.target, problem.sample_weight
        )

    def _online_settings(self, classes: Any) -> OnlineSettings:
        """Settings of `partial_fit`; the first call fixes the classes."""
        if reads_matrices(self.kernels):
            raise ValueError(
                "partial_fit needs kernels on feature columns, got given matrices; "
                "call fit with one stack of all the rows."
            )
        if not hasattr(self, "classes_"):
            if classes is None:
                raise ValueError(
                    "classes must be passed on the first call to partial_fit; give "
                    "all the labels that will ever come, for instance np.unique(y)."
                )
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes must stay the same in every call to partial_fit, got "
                f"{np.unique(classes).tolist()} after {self.classes_.tolist()}."
            )
        return OnlineSettings(
            len(self.classes_),
            choose_loss(self.loss),
            choose_norm(self.p),
            require_number("C", self.C, 0.0),
            self.memory_limit,
        )

    def _known(self, y: np.ndarray) -> np.ndarray:
        """Class indices of labels that must all be known."""
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has labels that were not in classes: {unknown.tolist()}; pass all "
                "the labels that will ever come to the first call."
            )
        return np.searchsorted(self.classes_, y)

    def _store_step(
        self, step: OnlineStep, descent: MirrorDescent, updates: int
    ) -> MKLClassifier:
        """Store one online pass; objective and gap speak of the rows at hand."""
        objective, dual_bound = descent.values()
        history = list(getattr(self, "history_", []))
        gap = relative_gap(objective, dual_bound)
        history.append(Epoch(len(history) + 1, np.nan, objective, gap, updates))
        self._calibrate(step.problem, descent.model())
        result = SolveResult(
            descent.model(), objective, objective - dual_bound, history, False
        )
        return self._store(step.kernels, step.problem, result)

    def _store(
        self, kernels: KernelSet, problem: Problem, result: SolveResult
    ) -> MKLClassifier:
        self.objective_ = result.objective
        self.duality_gap_ = result.duality_gap
        self.history_ = result.history
        self.n_iter_ = len(result.history)
        self._past = OnlinePast.of(kernels, problem, result.model)
        model = self._model = BlockModel.from_expansion(kernels, result.model)
        self.kernel_names_ = list(model.kernels.names)
        self.kernel_weights_ = model.weights
        self.dual_coef_ = model.coef
        self.support_ = model.kernels.support
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = reads_matrices(self.kernels)
        tags.input_tags.pairwise = given
        tags.input_tags.three_d_array = given
        tags.input_tags.sparse = not given
        return tags

