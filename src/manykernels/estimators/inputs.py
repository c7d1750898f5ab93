"""What people pass as X, checked once and early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, validate_data

from manykernels.kernels import Kernel, as_kernels, select_columns


def reads_matrices(kernels: Any) -> bool:
    """Whether the kernels read given kernel or distance matrices instead of columns.

    Examples
    --------
    >>> reads_matrices("precomputed"), reads_matrices("rbf")
    (True, False)
    """
    try:
        return any(kernel.family == "given" for kernel in as_kernels(kernels))
    except (TypeError, ValueError):
        return False  # fit reports what is wrong


def training_kernels(estimator: BaseEstimator, X: Any) -> list[Kernel]:
    """The estimator's kernels, with callable column selectors applied to X itself."""
    kernels = as_kernels(estimator.kernels)
    chosen = []
    for kernel in kernels:
        if callable(kernel.columns):
            columns = select_columns(kernel.columns, X, None)
            width = np.arange(X.shape[1])
            kernel = replace(kernel, columns=width[columns].tolist())
        chosen.append(kernel)
    return chosen


def check_table(estimator: BaseEstimator, X: Any, reset: bool) -> Any:
    """Feature tables: dense or CSR, finite, with remembered column names."""
    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_min_samples=2 if reset else 1,
    )


def check_matrices(estimator: BaseEstimator, X: Any, reset: bool) -> Any:
    """Stacks (n, n_train, F), lists of matrices, or one matrix.

    Values are checked where they are read, once, by the kernels.
    """
    _check_feature_names(estimator, _FEATURELESS, reset=reset)
    if isinstance(X, (list, tuple)):
        X = [np.asarray(matrix) for matrix in X]
        _require_matrices(X)
    else:
        X = np.asarray(X)
        if X.ndim not in (2, 3):
            raise ValueError(
                "precomputed kernels come as an array of shape (n, n_train, kernels), "
                f"a list of matrices, or one matrix; got an array of shape {X.shape}. "
                "Reshape your data either way."
            )
    n_train = X[0].shape[1] if isinstance(X, list) else X.shape[1]
    if reset:
        estimator.n_features_in_ = n_train
    elif n_train != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_train} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input: a kernel matrix of new "
            "rows needs one column per training row."
        )
    return X


_FEATURELESS = np.empty((0, 0))


def _require_matrices(matrices: Sequence[Any]) -> None:
    if not matrices or any(matrix.ndim != 2 for matrix in matrices):
        raise ValueError(
            "expected a list of kernel matrices, got "
            f"{[matrix.shape for matrix in matrices]}; every entry must have 2 axes."
        )
    if len({matrix.shape for matrix in matrices}) > 1:
        raise ValueError(
            "all kernel matrices must have the same shape, got "
            f"{[matrix.shape for matrix in matrices]}; compute them on the same "
            "samples."
        )
