"""Multiple kernel learning of numbers as a scikit-learn regressor."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from manykernels.banks import Storage
from manykernels.base.imports import room
from manykernels.base.stored import (
    Either,
    Fields,
    Floats,
    ListOf,
    Part,
    Real,
    require_all,
)
from manykernels.inputs.parameters import Rules
from manykernels.inputs.reporting import (
    progress_callback,
    shown_log,
    warn_unless_converged,
)
from manykernels.inputs.wrappers import (
    is_partitioned,
    return_as_input_type,
    rollback_on_error,
)
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.choices import REGRESSOR, VALUE_LOSSES, VALUE_SOLVERS
from manykernels.mkl.estimator import FitData, MKLEstimator
from manykernels.mkl.per_target import side_by_side, solve_each
from manykernels.solvers.loop import Epoch, SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.targets import Values


class MKLRegressor(MultiOutputMixin, RegressorMixin, MKLEstimator):
    r"""Learn a regression function and the weight of every kernel together.

    Minimizes :math:`\frac12 \|w\|_{2,p}^2 + C \sum_i c_i\, loss(s_i, y_i)` over all
    kernels at once, with a duality gap that bounds the distance from the optimum. The
    squared loss is :math:`\frac12 \|s_i - y_i\|^2`, summed over the targets.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        What to learn from, see :mod:`manykernels.kernels`, or ``"precomputed"`` for X
        of shape (n, n_train, n_kernels) or a list of matrices. None takes a linear, a
        quadratic and three Gaussian kernels on all columns.
    p : float in [1, 2], default=1.1
        1 selects few kernels with exact zeros, 2 trusts all kernels alike.
    C : float, default=1.0
        Weight of the losses: 1 / alpha of ridge regression.
    loss : {"squared", "huber", "epsilon_insensitive"} or loss, default="squared"
        "huber" is linear in large residuals, so that outliers pull less;
        "epsilon_insensitive" forgives small ones, so that few rows have coefficients.
    epsilon : float, default=0.1
        Residuals up to this size cost nothing (epsilon-insensitive loss).
    threshold : float, default=1.0
        Residual from which on the Huber loss is linear.
    fit_intercept : bool, default=True
        Take the weighted mean off the target, and add it to predictions.
    per_target_weights : bool, default=False
        Learn the kernel weights for every target by itself; otherwise all targets
        share them.
    solver : str or solver, default="auto"
        "auto" ends with a certified relative gap of at most `tol` or a
        ConvergenceWarning: exact solves ("ridge") for the squared loss and up to
        10,000 rows, "dual_ascent" for the epsilon-insensitive loss, else "newton". A
        solver object keeps its own tolerance and limit, and its seed if it has one.
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_iter : int, optional
        Rounds at most; None for the solver's default.
    scale, missing : see MKLClassifier
        Scaling of the numbers of a view, and what becomes of rows that lack one.
    psd : {"check", "clip", "skip"}, default="check"
        What to do about given or custom kernels with negative eigenvalues.
    nugget : {"shared", None}, default=None
        "shared" splits the identity (noise) part off every kernel into one more, see
        MKLClassifier.
    approximate : {"nystroem", "random_features", None}, default=None
        Approximate all kernels without an approximation of their own and without exact
        features, see :mod:`manykernels.kernels`; "nystroem:500" with 500 columns
        instead of 300.
    storage : str or Storage, default="auto"
        Where kernel values live, how precisely (float64 by default) and in which
        folder, such as "memmap" or "gram:float32", see
        :class:`manykernels.Storage`. Certificates and predictions are float64.
    memory_limit : int or str, optional
        Bytes, or text such as "4GB", that kernels may take; by default most of the
        free memory.
    device : {"cuda", "cuda:1", "mps", "cpu"}, optional
        Where kernels, training and predictions are computed, with PyTorch;
        `memory_limit` is then that of the device. None is the processor with NumPy,
        see :doc:`/gpu`.
    warm_start : bool, default=False
        Start the next fit from the current solution where sizes agree.
    checkpoint : path, optional
        File in which `fit` keeps its state from time to time; the same fit, killed
        and started again, goes on from there. Not for `per_target_weights`.
    callback : callable, optional
        Called with each line of the history; returning True stops the fit.
    verbose : int, default=0
        1 prints what is stored where, which solver was chosen, and a line per epoch,
        to standard error.
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,) or (n_targets, n_kernels)
        Non-negative, summing to one; the order of `kernel_names_`. A row per target
        with `per_target_weights`.
    kernel_names_ : list of str
    kernel_views_ : list of str
        For every kernel its group, the views that it reads, or its columns.
    nugget_parts_ : array of shape (n_kernels,)
        With a nugget: what the diagonal of every kernel lost to it.
    dual_coef_ : array of shape (n_support, n_targets)
        ``sum_f kernel_weights_[f] * K_f(X, X_support) @ dual_coef_ + intercept_`` are
        the predictions.
    support_ : array of int
        Training rows with a coefficient.
    intercept_ : float or array of shape (n_targets,)
    objective_, duality_gap_ : float, or array of shape (n_targets,)
        Primal value (divided by C n) and how far it can be above the optimum; for
        every target by itself with `per_target_weights`.
    dual_point_ : array of shape (n, n_targets)
        The dual point that certifies `duality_gap_`, a row per training row of positive
        weight; a column per target with `per_target_weights`. Not saved.
    history_ : list of Epoch
        epoch, time, objective, relative gap and updates, one line per epoch; a list
        per target with `per_target_weights`.
    n_iter_ : int
        Epochs, of the target that took most.
    n_features_in_ : int
        Columns of the table, or training rows of given matrices.
    feature_names_in_ : array of str
        Only after a fit on a data frame.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MKLRegressor(["rbf@0-3", "rbf@4-9", "linear"], C=10).fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    _rules: ClassVar[Rules] = REGRESSOR
    _solvers = VALUE_SOLVERS
    _precision = "float64"
    _stored: ClassVar[Fields] = {
        **MKLEstimator._stored,
        "intercept_": Either(Real(), Floats("targets")),
        "objective_": Either(Real(nan=True), Floats("targets", nan=True)),
        "duality_gap_": Either(Real(nan=True), Floats("targets", nan=True)),
        "history_": ListOf(Either(Part(Epoch), ListOf(Part(Epoch)))),
    }

    def __init__(
        self,
        kernels: Any = None,
        p: float = 1.1,
        C: float = 1.0,
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
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    @rollback_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLRegressor:
        """Learn coefficients and kernel weights.

        Parameters
        ----------
        X : table (array, CSR, data frame) or kernel matrices
            Or a Dask array or data frame, see :doc:`/cluster`.
        y : array of shape (n,) or (n, n_targets)
        sample_weight : array of shape (n,), optional
        """
        self._check_checkpoint()
        if is_partitioned(X):
            return room("distributed").fit(self, X, y, sample_weight)
        data = self._read(X, y, sample_weight)
        problem, start = data.problem(float(self.p), float(self.C)), None
        if self.warm_start:
            start = self._warm_start(data.kernels, problem)
        if self.per_target_weights:
            results = self._solve_each(data, problem, start)
            return self._store_each(data, results)
        return self._finish(data, problem, self._solve(data, problem, start))

    def _read_targets(self, n_rows: int, y: Any, sample_weight: Any) -> Values:
        return Values.of(
            y,
            sample_weight,
            n_rows=n_rows,
            center=self.fit_intercept,
            loss=self._make_loss(),
            per_target=self.per_target_weights,
            owner=type(self).__name__,
        )

    def _make_loss(self) -> Any:
        if not isinstance(self.loss, str):
            return self.loss
        loss, parameters = VALUE_LOSSES[self.loss]
        return loss(*(getattr(self, name) for name in parameters))

    def _solve_each(
        self, data: FitData, problem: Problem, start: Expansion | None = None
    ) -> list[SolveResult]:
        """One result per target, each with kernel weights of its own."""
        solver = self._make_solver(data.seed)
        callback = progress_callback(self.verbose, self.tol, self.callback)
        shown = shown_log() if self.verbose else nullcontext()
        device = self._open_device()
        full = nullcontext() if device is None else device.out_of_memory_error()
        with shown, full:
            results = solve_each(solver, problem, start, callback)
        for result in results:
            warn_unless_converged(solver, result)
        points = [one.dual_coef for one in results if one.dual_coef is not None]
        self.dual_point_ = np.hstack(points) if len(points) == len(results) else None
        return results

    @return_as_input_type
    def predict(self, X: Any) -> np.ndarray:
        """Predicted values, of shape (n,) or (n, n_targets) as y was."""
        scores = self._evaluate(X) + np.atleast_1d(self.intercept_)
        return scores[:, 0] if np.ndim(self.intercept_) == 0 else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2; rows of views are matched with y by index, as in `fit`."""
        return float(super().score(*self._match(X, y, sample_weight)))

    @return_as_input_type
    def kernel_contributions(self, X: Any) -> np.ndarray:
        """Each kernel's part of the prediction.

        Shape (n, n_kernels) or (n, n_kernels, n_targets) as y was; the sum over the
        kernels, plus `intercept_`, is the prediction.
        """
        parts = self._evaluate(X, "block_scores")
        return parts[..., 0] if np.ndim(self.intercept_) == 0 else parts

    def _warm_start(self, kernels: KernelSet, problem: Problem) -> Expansion | None:
        """Weights that are not shared become their mean where they shall be."""
        start = super()._warm_start(kernels, problem)
        if start is None or self.per_target_weights or start.weights.ndim == 1:
            return start
        return Expansion(start.coef, start.weights.mean(axis=0))

    def _check_checkpoint(self) -> None:
        if self.checkpoint is not None and self.per_target_weights:
            raise ValueError(
                "checkpoint keeps the state of one search, got "
                "per_target_weights=True, which makes one per target; leave one of "
                "the two out."
            )

    def _store_each(self, data: FitData, results: list[SolveResult]) -> MKLRegressor:
        self.objective_ = np.array([result.objective for result in results])
        self.duality_gap_ = np.array([result.duality_gap for result in results])
        self.history_ = [result.history for result in results]
        self.n_iter_ = max(len(result.history) for result in results)
        return self._store_model(data, side_by_side(results))

    def _store_model(self, data: FitData, solution: Expansion) -> Any:
        mean = data.targets.intercept
        self.intercept_ = float(mean[0]) if data.targets.flat else mean
        return super()._store_model(data, solution)

    def _restored(self) -> None:
        n_targets = len(np.atleast_1d(self.intercept_))
        agree = {
            "intercept": self._model.coef.shape[1] == n_targets,
            "certificate": np.shape(self.objective_) == np.shape(self.duality_gap_),
        }
        require_all(type(self).__name__, agree)
        super()._restored()

    def _facts(self) -> dict[str, Any]:
        return {"targets": self._model.coef.shape[1], **super()._facts()}
