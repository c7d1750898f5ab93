"""Kernels chosen one after the other by a leave-one-out error in closed form."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.memory import require_memory
from manykernels.compare.combinations.base import CombinedKernelClassifier, Training
from manykernels.compare.combinations.forward import select_forward

SQUARES = 4  # matrices of all pairs of rows, in float64, that one factor takes


class LeaveOneOutKernelClassifier(CombinedKernelClassifier):
    r"""An SVM on the mean of kernels chosen by leave-one-out errors.

    Starting from none, the kernel is added that gives the mean of the chosen ones the
    highest leave-one-out accuracy, until none does better. The accuracy is that of a
    least-squares SVM, where it has a closed form: one Cholesky factor of the rows for
    every kernel that is tried.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    max_kernels : int, optional
        Kernels to choose at most; None for no bound.
    C : float, default=1.0
        Weight of the losses, squared ones for the choice and hinge losses then.
    tol, max_iter, class_weight, psd, dtype, storage, memory_limit, storage_dir, \
verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    selected_ : array of int
        Positions of the chosen kernels, in the order of their choice.
    loo_scores_ : array of shape (n_selected,)
        Leave-one-out accuracy of the least-squares SVM after every choice.
    kernel_weights_ : array of shape (n_kernels,)
        1 / n_selected for chosen kernels, 0 for the others.
    kernel_names_, classes_, dual_coef_, support_, objective_, duality_gap_, history_, \
n_iter_, temperature_, n_features_in_, feature_names_in_ : see `MKLClassifier`

    References
    ----------
    Cawley (2006), Leave-one-out cross-validation based model selection criteria for
    weighted LS-SVMs; Orabona, Jie and Caputo (2010), Online-batch strongly convex
    multi kernel learning, choose kernels in this way.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LeaveOneOutKernelClassifier("rbf@0; rbf@1; rbf@2; rbf@3", C=10)
    >>> float(model.fit(X, y).kernel_weights_[1])
    0.0
    """

    def __init__(
        self,
        kernels: Any = None,
        max_kernels: int | None = None,
        C: float = 1.0,
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
        self.max_kernels = max_kernels

    def _check_settings(self) -> None:
        super()._check_settings()
        limit = self.max_kernels
        whole = isinstance(limit, Integral) and not isinstance(limit, bool)
        if limit is not None and not (whole and limit >= 1):
            raise ValueError(
                f"max_kernels must be a positive whole number or None, got {limit!r}; "
                "choose for instance 5."
            )

    def _find_weights(self, data: Training) -> Array:
        n_rows = data.bank.n_rows
        what = f"leaving out each of {n_rows} rows"
        require_memory(SQUARES * 8 * n_rows**2, self.memory_limit, what)
        found = select_forward(
            data.bank, data.rows.target, data.rows.weight, self.C, self.max_kernels
        )
        self.selected_ = np.array([step.position for step in found])
        self.loo_scores_ = np.array([step.accuracy for step in found])
        weights = np.zeros(data.bank.n_blocks)
        weights[self.selected_] = 1.0
        return weights
