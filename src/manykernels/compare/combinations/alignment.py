"""Kernel weights by centered alignment with the labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.compare.combinations.alignment_weights import METHODS
from manykernels.compare.combinations.base import CombinedKernelClassifier, Training
from manykernels.mkl.choices import _listed


class AlignmentClassifier(CombinedKernelClassifier):
    r"""An SVM on the sum of kernels that is aligned best with the labels.

    The centered alignment of a kernel with the labels is the cosine between the two
    matrices :math:`H K H` and :math:`H Y Y^\top H`, where Y has a column of zeros and
    ones per class and H takes off the mean.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    method : {"alignf", "align"}, default="alignf"
        "alignf" maximizes the alignment of the weighted sum over non-negative weights;
        "align" weighs every kernel by its own alignment.
    C : float, default=1.0
        Weight of the losses.
    tol, max_iter, class_weight, psd, dtype, storage, memory_limit, storage_dir, \
verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,)
        Sum to one; all alike if no kernel is aligned with the labels at all.
    kernel_names_, classes_, dual_coef_, support_, objective_, duality_gap_, history_, \
n_iter_, temperature_, n_features_in_, feature_names_in_ : see `MKLClassifier`

    References
    ----------
    Cortes, Mohri and Rostamizadeh (2012), Algorithms for learning kernels based on
    centered alignment.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AlignmentClassifier("rbf@0; rbf@1; rbf@2; rbf@3").fit(X, y)
    >>> model.kernel_names_[int(model.kernel_weights_.argmax())] in ("rbf@2", "rbf@3")
    True
    """

    def __init__(
        self,
        kernels: Any = None,
        method: str = "alignf",
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
        self.method = method

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.method not in METHODS:
            raise ValueError(
                f"method must be one of {_listed(METHODS)}, got {self.method!r}; "
                "choose one of these."
            )

    def _find_weights(self, data: Training) -> Array:
        indicator = np.eye(len(data.rows.classes))[data.rows.target]
        return METHODS[self.method](data.bank, indicator, data.rows.weight)
