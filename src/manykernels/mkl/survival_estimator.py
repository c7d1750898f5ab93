"""Multiple kernel learning of times until an event, some of them censored."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from manykernels.banks import Storage
from manykernels.base.stored import Fields, ListOf, Part, Real, require_all
from manykernels.inputs.parameters import Rules
from manykernels.inputs.training_kernels import training_kernels
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.kernels import Kernel
from manykernels.kernels.grammar import VIEW_WIDTHS
from manykernels.losses import CensoredEpsilonInsensitive
from manykernels.mkl.choices import SURVIVAL, TIME_SOLVERS
from manykernels.mkl.estimator import FitData, MKLEstimator
from manykernels.solvers.loop import Epoch
from manykernels.solvers.problem import Expansion
from manykernels.targets import Times, concordance_index

SMOOTH = "linear; " + "; ".join(f"rbf:gamma={width}" for width in VIEW_WIDTHS[:3])


class MKLSurvival(MKLEstimator):
    r"""Learn times until an event, and the weight of every kernel, together.

    Minimizes :math:`\frac12 \|w\|_{2,p}^2 + C \sum_i c_i\, loss(s_i, t_i)` over all
    kernels at once, with a duality gap that bounds the distance from the optimum. The
    score s stands for the logarithm t of the time. After an event the loss is what
    \|t - s\| exceeds `epsilon` by; for a row that is censored, so that its time is
    longer than t, only what t - s exceeds it by: no score is too high for it.

    Parameters
    ----------
    kernels : see MKLRegressor
        None takes a linear kernel and Gaussians at 1/16, 1/4 and 1 times one over the
        median squared distance, on all columns or on every view: narrower ones learn
        the noise of times.
    p : float in [1, 2], default=1.1
        1 selects few kernels with exact zeros, 2 trusts all kernels alike.
    C : float, default=1.0
        Weight of the losses.
    epsilon : float, default=0.0
        Errors up to this size cost nothing; in units of log time, where 0.1 is about
        a tenth of the time.
    time_scale : {"log", "linear"}, default="log"
        What is learned of the times: their logarithm, or the times as they are.
    fit_intercept : bool, default=True
        Take the constant that costs least, a median where nothing is censored, off the
        target, and add it to predictions.
    solver : {"auto", "dual_ascent"} or solver, default="auto"
        Both end with a certified relative gap of at most `tol` or a
        ConvergenceWarning. A solver object keeps its own tolerance and limit, and its
        seed if it has one.
    tol : float, default=1e-2
        Relative duality gap to reach.
    max_iter, scale, missing, psd, nugget, approximate, storage : see MKLRegressor
    memory_limit : see MKLRegressor
    warm_start : bool, default=False
        Start the next fit from the current solution where sizes agree.
    checkpoint : path, optional
        File in which `fit` keeps its state from time to time; the same fit, killed
        and started again, goes on from there.
    callback, verbose, random_state : see MKLRegressor

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,)
        Non-negative, summing to one; the order of `kernel_names_`.
    kernel_names_ : list of str
    kernel_views_ : list of str
        For every kernel its group, the views that it reads, or its columns.
    nugget_parts_ : see MKLRegressor
    dual_coef_ : array of shape (n_support, 1)
        ``sum_f kernel_weights_[f] * K_f(X, X_support) @ dual_coef_ + intercept_`` are
        the logarithms of the predicted times. Not negative for censored rows.
    support_ : array of int
        Training rows with a coefficient.
    intercept_ : float
    objective_, duality_gap_ : float
        Primal value (divided by C n) and how far it can be above the optimum.
    dual_point_ : array of shape (n, 1)
        The dual point that certifies `duality_gap_`, a row per training row of positive
        weight. Not saved.
    history_ : list of Epoch
        epoch, time, objective, relative gap and updates, one line per epoch.
    n_iter_, n_features_in_, feature_names_in_ : see MKLRegressor

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 4))
    >>> time, end = np.exp(X[:, 0] + X[:, 1] ** 2), rng.exponential(4.0, size=80)
    >>> y = np.minimum(time, end), time <= end  # what was seen until the end
    >>> model = MKLSurvival("rbf@0-1; rbf@2-3", C=10.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> bool(model.kernel_weights_[0] > model.kernel_weights_[1])
    True
    """

    _rules: ClassVar[Rules] = SURVIVAL
    _solvers = TIME_SOLVERS
    _precision = "float64"
    _stored: ClassVar[Fields] = {
        **MKLEstimator._stored,
        "intercept_": Real(),
        "objective_": Real(nan=True),
        "duality_gap_": Real(nan=True),
        "history_": ListOf(Part(Epoch)),
    }

    def __init__(
        self,
        kernels: Any = None,
        p: float = 1.1,
        C: float = 1.0,
        epsilon: float = 0.0,
        time_scale: str = "log",
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-2,
        max_iter: int | None = None,
        scale: Any = "auto",
        missing: str = "rescale",
        psd: Any = "check",
        nugget: str | None = None,
        approximate: str | None = None,
        storage: str | Storage = "auto",
        memory_limit: int | str | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        callback: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.p = p
        self.C = C
        self.epsilon = epsilon
        self.time_scale = time_scale
        self.fit_intercept = fit_intercept
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
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    @rollback_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLSurvival:
        """Learn coefficients and kernel weights.

        Parameters
        ----------
        X : table (array, CSR, data frame) or kernel matrices
        y : times and events
            A structured array with a boolean field (whether the event was seen) and a
            field of numbers (when, or until when), as scikit-survival has it; the pair
            (time, event); an array of shape (n, 2) with these columns; or a data frame
            with columns such as time and event. Splitters of scikit-learn take all but
            the pair.
        sample_weight : array of shape (n,), optional
        """
        data = self._read(X, y, sample_weight)
        problem, start = data.problem(float(self.p), float(self.C)), None
        if self.warm_start:
            start = self._warm_start(data.kernels, problem)
        return self._finish(data, problem, self._solve(data, problem, start))

    def _specs(self, X: Any) -> list[Kernel]:
        chosen = SMOOTH if self.kernels is None else self.kernels
        return training_kernels(chosen, X, self.approximate)

    def _read_targets(self, n_rows: int, y: Any, sample_weight: Any) -> Times:
        return Times.of(
            y,
            sample_weight,
            n_rows=n_rows,
            log=self.time_scale == "log",
            loss=CensoredEpsilonInsensitive(self.epsilon),
            center=self.fit_intercept,
        )

    def predict(self, X: Any) -> np.ndarray:
        """Predicted times until the event, in the unit of the training times."""
        values = -self.predict_risk(X)
        if self.time_scale == "linear":
            return values
        largest = np.log(np.finfo(np.float64).max)  # a longer time is infinite
        return np.asarray(np.exp(np.minimum(values, largest)))

    def predict_risk(self, X: Any) -> np.ndarray:
        """Higher for earlier events: minus the logarithm of the predicted time.

        What functions that compare risks expect, such as scikit-survival's measures;
        with `time_scale="linear"`, minus the predicted time.
        """
        return np.asarray(-(self._evaluate(X)[:, 0] + self.intercept_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Harrell's concordance of the predicted risks, see `concordance_index`.

        Rows of views are matched with y by index, as in `fit`.
        """
        X, y, sample_weight = self._match(X, y, sample_weight)
        return concordance_index(y, self.predict_risk(X), sample_weight)

    def kernel_contributions(self, X: Any) -> np.ndarray:
        """Each kernel's part of the predicted log time, of shape (n, n_kernels).

        The sum over the kernels, plus `intercept_`, is minus the predicted risk.
        """
        return self._evaluate(X, "block_scores")[..., 0]

    def _store_model(self, data: FitData, solution: Expansion) -> Any:
        self.intercept_ = float(data.targets.intercept)
        return super()._store_model(data, solution)

    def _restored(self) -> None:
        one = self._model.coef.shape[1] == 1 and self._model.weights.ndim == 1
        require_all(type(self).__name__, {"outputs": one})
        super()._restored()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
