"""Multiclass multiple kernel learning as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from manykernels.banks import Storage
from manykernels.banks.base import support_of
from manykernels.base.imports import room
from manykernels.base.stored import (
    ClassLabels,
    Fields,
    ListOf,
    Part,
    Real,
    require_all,
)
from manykernels.base.tables import count_rows
from manykernels.inputs import reporting
from manykernels.inputs.parameters import (
    ReadBy,
    Rules,
    check_parameters,
    draw_seed,
)
from manykernels.inputs.wrappers import (
    is_partitioned,
    return_as_input_type,
    rollback_on_error,
)
from manykernels.losses import Loss
from manykernels.mkl.calibration import Temperature, calibrate_later, uncalibrated
from manykernels.mkl.choices import CLASS_LOSSES, CLASS_SOLVERS, CLASSIFIER
from manykernels.mkl.estimator import MKLEstimator, row_weight
from manykernels.mkl.models.model import SupportLabels
from manykernels.mkl.stream import (
    OnlineEpoch,
    OnlineSettings,
    OnlineStep,
    learns_online,
)
from manykernels.norms import LpGroupNorm
from manykernels.solvers.loop import Epoch, SolveResult
from manykernels.solvers.online import Budget
from manykernels.solvers.problem import Problem
from manykernels.targets import Labels
from manykernels.targets.labels import check_same_classes, first_classes


class MKLClassifier(ClassifierMixin, MKLEstimator):
    r"""Learn a classifier and the weight of every kernel together.

    Minimizes :math:`\frac12 \|w\|_{2,p}^2 + C \sum_i c_i\, loss(s_i, y_i)` over all
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
    loss : {"hinge", "log", "smoothed_hinge", "squared_hinge"} or loss
        The multiclass hinge loss by default, for two classes, too. "log"
        learns probabilities, see :mod:`manykernels.losses` for all of them.
    solver : str or solver, default="auto"
        "auto" ends with a certified relative gap of at most `tol` or a
        ConvergenceWarning; also "dual_ascent", "obscure", "pegasos" for the hinge
        loss, "truncated_newton", "svrg" for the others. A solver object, such as
        those of :mod:`manykernels.compare`, keeps its own tolerance and limit, and its
        seed if it has one.
    tol : float, default=1e-2
        Relative duality gap to reach.
    max_iter : int, optional
        Rounds or passes at most; None for the solver's default.
    class_weight : dict or "balanced", optional
        Multiplies C per class; "balanced" gives all classes the same total weight.
    scale : str, transformer, or dict of these by view, default="auto"
        What is done to the numbers of a view first, fitted on the training rows and
        saved with the model: "standard", "robust", "minmax", "log1p", "tfidf", "unit",
        "impute", "none", several joined by "+", or a transformer of scikit-learn.
        "auto" standardizes dense views, takes logarithms of sparse counts and rows of
        unit length, and leaves a single table as it is.
    missing : {"rescale", "zero", "complete", "refuse"}, default="rescale"
        What becomes of rows that lack a view: its kernels do not see them, and the
        others are scaled up for them ("rescale") or not ("zero"); the view is
        completed from the rows that are nearest in the others ("complete"); or an
        error.
    psd : {"check", "clip", "skip"}, default="check"
        What to do about given or custom kernels with negative eigenvalues.
    nugget : {"shared", None}, default=None
        "shared" splits the identity (noise) part off every kernel and learns one weight
        for it, as the last of `kernel_names_`: noise on many columns then loses its
        weight to it. At new rows, as in all predictions, it is zero. See the page on
        importance.
    approximate : {"nystroem", "random_features", None}, default=None
        Approximate all kernels without an approximation of their own and without exact
        features, see :mod:`manykernels.kernels`; "nystroem:500" with 500 columns
        instead of 300.
    storage : str or Storage, default="auto"
        Where kernel values live, how precisely and in which folder: "gram" in memory,
        "memmap" in a file, "on_demand" nowhere, "features" or "sparse" in a form of
        their own, "float64" or "gram:float16" in a precision other than float32, see
        :class:`manykernels.Storage`. Certificates and predictions are float64; those
        of float16 are those of the rounded kernels.
    memory_limit : int or str, optional
        Bytes, or text such as "4GB", that kernels may take; by default most of the
        free memory.
    device : {"cuda", "cuda:1", "mps", "cpu"}, optional
        Where kernels, training and predictions are computed, with PyTorch;
        `memory_limit` is then that of the device. None is the processor with NumPy,
        see :doc:`/gpu`.
    budget : int or Budget, optional
        Support rows that `partial_fit` keeps at most, and what becomes of the others
        (a number projects them on the rest), see :class:`manykernels.Budget`; None
        for no bound.
    warm_start : bool, default=False
        Start the next fit from the current solution where sizes and classes agree.
    checkpoint : path, optional
        File in which `fit` keeps its state from time to time; the same fit, killed
        and started again, goes on from there and ends with the same result. The file
        stays, so that a later fit with a smaller `tol` can go on as well.
    callback : callable, optional
        Called with each line of the history; returning True stops the fit.
    verbose : int, default=0
        1 prints what is stored where, and a line per epoch, to standard error.
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,)
        Non-negative, summing to one; the order of `kernel_names_`.
    kernel_names_ : list of str
    kernel_views_ : list of str
        For every kernel its group, the views that it reads, or its columns.
    nugget_parts_ : array of shape (n_kernels,)
        With a nugget: what the diagonal of every kernel lost to it.
    classes_ : array of shape (n_classes,)
    dual_coef_ : array of shape (n_support, n_classes)
        ``sum_f kernel_weights_[f] * K_f(X, X_support) @ dual_coef_`` are the scores.
    support_ : array of int
        Training rows with a coefficient; after `partial_fit`, positions among the
        earlier support rows followed by the new rows.
    objective_, duality_gap_ : float
        Primal value (divided by C n) and how far it can be above the optimum.
    dual_point_ : array of shape (n, n_classes) or None
        The dual point that certifies `duality_gap_`, a row per training row of positive
        weight; not saved, and gone after `partial_fit`.
    history_ : list of Epoch
        epoch, time, objective, relative gap and updates, one line per epoch; a call
        to `partial_fit` adds a line with the accuracy on its rows before it learned.
    n_iter_ : int
    temperature_ : float
        Divides the scores in `predict_proba`; fitted on estimates of the training
        rows' leave-one-out scores when it is first asked for, or when the model is
        saved, and 1 for the log loss.
    n_features_in_ : int
        Columns of the table, or training rows of given matrices.
    feature_names_in_ : array of str
        Only after a fit on a data frame.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(["rbf@0", "rbf@1", "rbf@2", "rbf@3"], C=10,
    ...                       random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.kernel_names_[int(model.kernel_weights_.argmax())]
    'rbf@2'
    """

    _rules: ClassVar[Rules] = {
        **CLASSIFIER,
        "budget": ReadBy(Budget.of, optional=True),
    }
    _solvers = CLASS_SOLVERS
    history_: list[Any]  # Epoch or OnlineEpoch
    _stored: ClassVar[Fields] = {
        **MKLEstimator._stored,
        "classes_": ClassLabels("classes"),
        "temperature_": Real(low=0.0, above=True),
        "objective_": Real(nan=True),
        "duality_gap_": Real(nan=True),
        "history_": ListOf(Part(Epoch, OnlineEpoch)),
        "_labels": Part(SupportLabels),
    }

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
        scale: Any = "auto",
        missing: str = "rescale",
        psd: Any = "check",
        nugget: str | None = None,
        approximate: str | None = None,
        storage: str | Storage = "auto",
        memory_limit: int | str | None = None,
        device: str | None = None,
        budget: int | Budget | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
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
        self.scale = scale
        self.missing = missing
        self.psd = psd
        self.nugget = nugget
        self.approximate = approximate
        self.storage = storage
        self.memory_limit = memory_limit
        self.device = device
        self.budget = budget
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    @rollback_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLClassifier:
        """Learn coefficients and kernel weights.

        Parameters
        ----------
        X : table (array, CSR, data frame) or kernel matrices
            Or a Dask array or data frame, see :doc:`/cluster`.
        y : array of shape (n,)
            Labels of any type.
        sample_weight : array of shape (n,), optional
        """
        if is_partitioned(X):
            return room("distributed").fit(self, X, y, sample_weight)
        data = self._read(X, y, sample_weight)
        problem = data.problem(float(self.p), float(self.C))
        start = None
        same = np.array_equal(data.targets.classes, getattr(self, "classes_", ()))
        if self.warm_start and same:
            start = self._warm_start(data.kernels, problem)
        return self._finish(data, problem, self._solve(data, problem, start))

    def _read_targets(
        self, n_rows: int, y: Any, sample_weight: Any, classes: Any = None
    ) -> Labels:
        return Labels.of(
            y,
            sample_weight,
            n_rows=n_rows,
            class_weight=self.class_weight,
            classes=classes,
            loss=self._make_loss(),
            owner=type(self).__name__,
        )

    def _make_loss(self) -> Loss:
        return CLASS_LOSSES[self.loss]() if isinstance(self.loss, str) else self.loss

    def _finish(
        self,
        data: Any,
        problem: Problem,
        result: SolveResult,
        temperature: Temperature | None = None,
    ) -> Any:
        labels, support = data.targets, support_of(result.model.coef)
        self.classes_ = labels.classes
        self._labels = SupportLabels(labels.target[support], labels.weight[support])
        super()._finish(data, problem, result)
        self._temperature = temperature or calibrate_later(
            problem, result.model, self._model, result.scores
        )
        if self._temperature.training is not None:
            reporting.warn_if_alike(problem, self._temperature.training.scores)
        return self

    @available_if(learns_online)
    @rollback_on_error
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
        check_parameters(self, self._rules)
        first = not hasattr(self, "_model")
        X, y, sample_weight = self._match(X, y, sample_weight)
        if first:
            classes = first_classes(classes)
        else:
            check_same_classes(classes, self.classes_)
            classes = self.classes_
        settings = self._online_settings()
        seed = draw_seed(self.random_state)
        specs = self._specs(X) if first else []
        X = self._read_training(X, specs) if first else self._read_new(X)
        rows = self._read_targets(count_rows(X), y, sample_weight, classes)
        if first:
            weight = row_weight(count_rows(X), rows.kept, sample_weight)
            X = self._prepare(X, weight)
            # Online steps are not certified to a gap: float32 always suffices.
            kernels, _ = self._fit_kernels(specs, X, rows.kept, weight, seed, bound=0.0)
            step = OnlineStep.first(kernels, rows, settings)
        else:
            known = self._model.without_nugget
            step = OnlineStep.next(known, self._labels, X[rows.kept], rows, settings)
        history = [] if first else self.history_
        result = step.run(np.random.default_rng(seed), history)
        self.classes_, self.support_ = classes, result.support
        self._model, self._labels = result.model, result.labels
        self._temperature = Temperature(result.temperature)
        self.__dict__.pop("dual_point_", None)  # of other rows
        self.objective_, self.duality_gap_ = result.objective, result.duality_gap
        self.history_, self.n_iter_ = result.history, len(result.history)
        self._show_model()
        return self

    @return_as_input_type
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (n, n_classes), or their difference for two classes."""
        return self._decision(X)

    def _decision(self, X: Any) -> np.ndarray:
        scores = self._evaluate(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @return_as_input_type
    def predict(self, X: Any) -> np.ndarray:
        """Labels of the highest scores."""
        decision = self._decision(X)
        if decision.ndim == 1:
            return self.classes_[(decision > 0.0).astype(np.intp)]
        return self.classes_[np.argmax(decision, axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; rows of views are matched with y by index, as in `fit`."""
        return float(super().score(*self._match(X, y, sample_weight)))

    @return_as_input_type
    def predict_proba(self, X: Any) -> np.ndarray:
        """`softmax(scores / temperature_)`, shape (n, n_classes)."""
        return self._probabilities(X)

    def _probabilities(self, X: Any) -> np.ndarray:
        decision = self._decision(X)
        if decision.ndim == 1:
            decision = np.column_stack([np.zeros_like(decision), decision])
        with np.errstate(over="ignore"):  # a class may be infinitely unlikely
            below = decision - decision.max(axis=1, keepdims=True)
            return softmax(below / self.temperature_, axis=1)

    @return_as_input_type
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of `predict_proba`."""
        return np.log(np.maximum(self._probabilities(X), np.finfo(float).tiny))

    @return_as_input_type
    def kernel_contributions(self, X: Any) -> np.ndarray:
        """Each kernel's part of the decision function.

        Shape (n, n_kernels, n_classes), or (n, n_kernels) for two classes; the sum
        over the kernels is the decision function.
        """
        parts = self._evaluate(X, "block_scores")
        return parts[..., 1] - parts[..., 0] if len(self.classes_) == 2 else parts

    def _online_settings(self) -> OnlineSettings:
        return OnlineSettings(
            LpGroupNorm(float(self.p)),
            float(self.C),
            Storage.of(self.storage, self._precision),
            self.memory_limit,
            Budget.of(self.budget),
        )

    def _fitted_values(self) -> dict[str, Any]:
        # A temperature that was not asked for yet is computed now.
        try:
            temperature = self.temperature_
        except KeyboardInterrupt:
            temperature = uncalibrated()
        return super()._fitted_values() | {"temperature_": temperature}

    def _restored(self) -> None:
        self._temperature = Temperature(self.__dict__.pop("temperature_"))
        outputs = self._model.coef.shape[-1]
        agree = {"classes": len(self.classes_) == outputs}
        if (labels := vars(self).get("_labels")) is not None:
            agree["labels"] = len(labels.target) == len(self.support_)
            agree["targets"] = np.all(labels.target < outputs)
        require_all(type(self).__name__, agree)
        super()._restored()

    def _facts(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), **super()._facts()}

    @property
    def temperature_(self) -> float:
        """Divides the scores in `predict_proba`; computed when first asked for."""
        self._require_fitted()
        return self._temperature.value()
