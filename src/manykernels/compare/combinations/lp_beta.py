"""LP-beta: one SVM per kernel, and a linear program that mixes their scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from manykernels.banks.base import support_of
from manykernels.banks.combined import weighted_sum
from manykernels.base.arrays import Array
from manykernels.compare.combinations.base import (
    CombinedKernelClassifier,
    Training,
    only,
    restricted,
)
from manykernels.compare.combinations.models import StackedModel
from manykernels.compare.combinations.score_mixing import mix_scores
from manykernels.inputs.parameters import require_number
from manykernels.mkl.calibration import fit_temperature
from manykernels.mkl.choices import _listed
from manykernels.mkl.search import Fold, make_folds
from manykernels.solvers import Problem

WEIGHTS = ("shared", "per_class")


class _Part(NamedTuple):
    """What one kernel learns."""

    unseen: Array  # (rows, classes), scores without the row's fold
    coef: Array  # (rows, classes), from all the rows
    n_epochs: int


class LPBetaClassifier(CombinedKernelClassifier):
    r"""One SVM per kernel, their scores mixed with weights of a linear program.

    The SVMs score rows that they have not seen, by cross-validation; the weights
    maximize the margin of the mixed scores, where the share `nu` of the rows may miss
    it, and then the SVMs learn from all the rows. LP-beta has one weight per kernel,
    LP-B one per kernel and class.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    weights : {"shared", "per_class"}, default="shared"
        "shared" is LP-beta, "per_class" is LP-B.
    nu : float in (0, 1], default=0.5
        Share of the rows that may miss the margin, at most; small values listen to
        the hardest rows.
    C : float, default=1.0
        Weight of the losses in every SVM.
    cv : int, splitter or iterable, optional
        Leaves every row out once. None takes 5 folds with the same share of every
        class.
    tol, max_iter, class_weight, psd, dtype, storage, memory_limit, storage_dir, \
verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,) or (n_kernels, n_classes)
        Weights of the kernels' scores, summing to one over the kernels.
    margin_ : float
        The margin rho of the linear program, and `objective_` its optimum.
    objective_ : float
    dual_coef_ : array of shape (n_kernels, n_support, n_classes)
        Of the SVM of every kernel.
    support_ : array of int
        Training rows that some of the SVMs need.
    n_iter_ : int
        Epochs of the longest fit of an SVM.
    kernel_names_, classes_, temperature_, n_features_in_, feature_names_in_ : see \
`MKLClassifier`

    References
    ----------
    Gehler and Nowozin (2009), On feature combination for multiclass object
    classification. Their SVMs are one-vs-rest, these are multiclass.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LPBetaClassifier("rbf@0; rbf@1; rbf@2; rbf@3", C=10).fit(X, y)
    >>> model.score(X, y) > 0.9, bool(model.kernel_weights_[1] < 0.2)
    (True, True)
    """

    def __init__(
        self,
        kernels: Any = None,
        weights: str = "shared",
        nu: float = 0.5,
        C: float = 1.0,
        cv: Any = None,
        tol: float = 1e-2,
        max_iter: int | None = None,
        class_weight: Any = None,
        psd: Any = "check",
        dtype: str = "float32",
        storage: str = "auto",
        memory_limit: int | str | None = None,
        storage_dir: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernels,
            C,
            tol,
            max_iter,
            class_weight,
            psd,
            dtype,
            storage,
            memory_limit,
            storage_dir,
            verbose,
            random_state,
        )
        self.weights = weights
        self.nu = nu
        self.cv = cv

    def _check_settings(self) -> None:
        super()._check_settings()
        require_number("nu", self.nu, 0.0, 1.0)
        if self.weights not in WEIGHTS:
            raise ValueError(
                f"weights must be one of {_listed(WEIGHTS)}, got {self.weights!r}; "
                "choose one of these."
            )

    def _learn(self, data: Training) -> LPBetaClassifier:
        rows, n_kernels = data.rows, data.bank.n_blocks
        folds = make_folds(self.cv, rows.target, None, rows.kept, True)
        _require_partition(folds, len(rows.kept))
        parts = [self._learn_alone(data, f, folds) for f in range(n_kernels)]
        unseen = np.stack([part.unseen for part in parts])
        per_class = self.weights == "per_class"
        found = mix_scores(unseen, rows.target, rows.weight, self.nu, per_class)
        mixed = np.sum(found.weights.reshape(n_kernels, 1, -1) * unseen, axis=0)
        self.temperature_ = fit_temperature(mixed, rows.target, rows.weight)
        self.margin_, self.objective_ = found.margin, found.objective
        self.n_iter_ = max(part.n_epochs for part in parts)
        coefs = np.stack([part.coef for part in parts])
        return self._store_stack(data, coefs, found.weights)

    def _learn_alone(self, data: Training, f: int, folds: list[Fold]) -> _Part:
        """The SVM of one kernel, on all rows and without every fold."""
        alone = weighted_sum(data.bank, only(f, data.bank.n_blocks))
        problem = self._problem(alone, data.rows)
        unseen = self._unseen_scores(problem, folds)
        result = self._solve_one(problem)
        coef = result.model.weights[0] * result.model.coef
        return _Part(unseen, coef, len(result.history))

    def _unseen_scores(self, problem: Problem, folds: list[Fold]) -> Array:
        """Scores of every row by the fit without its fold, shape (rows, classes)."""
        scores = np.empty((problem.n_rows, problem.n_outputs))
        for train, held in folds:
            part = restricted(problem, problem.bank.subset(train), train)
            model = self._make_solver(self.random_state).solve(part).model
            coef = np.zeros_like(scores)
            coef[train] = model.coef
            scores[held] = problem.bank.combine(model.weights, held) @ coef
        return scores

    def _store_stack(
        self, data: Training, coefs: Array, weights: Array
    ) -> LPBetaClassifier:
        support = support_of(np.concatenate(coefs, axis=1))
        kernels = data.kernels.for_new_rows(support)
        self._model = StackedModel(kernels, coefs[:, support], weights)
        self.kernel_names_ = list(kernels.names)
        self.kernel_weights_ = weights
        self.dual_coef_ = self._model.coef
        self.support_ = data.rows.kept[support]
        return self

    @property
    def save(self) -> Any:  # type: ignore[override]
        """Files hold one classifier, not one per kernel."""
        raise AttributeError(
            "LPBetaClassifier has no save: files hold one SVM, not one per kernel; "
            "keep its parameters and data, and fit again."
        )


def _require_partition(folds: list[Fold], n_rows: int) -> None:
    held = np.concatenate([held for _, held in folds])
    counts = np.bincount(held, minlength=n_rows)
    if np.any(counts != 1):
        row = int(np.argmax(counts != 1))
        raise ValueError(
            f"cv must leave every row out exactly once, got row {row} left out "
            f"{counts[row]} times; choose for instance a StratifiedKFold."
        )
