"""What people pass as X, checked once and early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import _check_feature_names, validate_data

from manykernels.kernels import (
    Kernel,
    approximate_kernels,
    as_kernels,
    select_columns,
)


def training_kernels(
    kernels: Any, X: Any, approximate: Any = None, rank: int | None = None
) -> list[Kernel]:
    """The kernels, with callable column selectors applied to X as it was passed.

    Selectors such as `make_column_selector` read the names and types of a data
    frame, which are gone once X has been checked. Kernels that say nothing of an
    approximation get this one.
    """
    chosen = [_with_columns(kernel, X) for kernel in as_kernels(kernels)]
    return approximate_kernels(chosen, approximate, rank)


def _with_columns(kernel: Kernel, X: Any) -> Kernel:
    if not callable(kernel.columns):
        return kernel
    if kernel.family == "given":
        raise TypeError(
            f"kernel {kernel.label!r} picks matrices of a stack by position, got the "
            f"selector {kernel.columns!r}; pass for instance columns=[0, 2]."
        )
    table = X if hasattr(X, "shape") else np.asarray(X)
    chosen = select_columns(kernel.columns, table, None)
    return replace(kernel, columns=np.arange(table.shape[1])[chosen].tolist())


def check_table(
    estimator: BaseEstimator,
    X: Any,
    reset: bool,
    min_rows: int = 1,
    sparse: bool = True,
) -> Any:
    """Feature tables: dense or CSR, finite, with remembered column names."""
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr" if sparse else False,
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
    )
    _require_finite(X, getattr(estimator, "feature_names_in_", None))
    return X


def check_matrices(
    estimator: BaseEstimator, X: Any, reset: bool, min_rows: int = 1
) -> Any:
    """Stacks (n, n_train, F), lists of matrices, or one matrix.

    Values are checked where they are read, once, by the kernels.
    """
    _check_feature_names(estimator, X, reset=reset)
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
        X = [_check_array(estimator, matrix, min_rows) for matrix in X]
        _require_same_shape(X)
        n_train = X[0].shape[1]
    else:
        X = _check_array(estimator, X, min_rows, allow_nd=True)
        n_train = X.shape[1]
    if reset:
        estimator.n_features_in_ = n_train
    elif n_train != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_train} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input; a kernel matrix of new "
            "rows needs one column per training row."
        )
    return X


def _check_array(
    estimator: BaseEstimator, X: Any, min_rows: int, allow_nd: bool = False
) -> np.ndarray:
    """X as an array of numbers, without a copy or a look at the values."""
    X = check_array(
        X,
        allow_nd=allow_nd,
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
        estimator=estimator,
        input_name="X",
    )
    if X.ndim > 3:
        raise ValueError(
            "precomputed kernels must come as an array of shape (n, n_train, kernels), "
            f"a list of matrices or one matrix, got the shape {X.shape}; reshape it so."
        )
    return X


def require_finite_scores(scores: np.ndarray) -> np.ndarray:
    """Raise where values are so large that kernels overflow: NaN predicts nothing."""
    bad = ~np.isfinite(scores).all(axis=1)
    if bad.any():
        raise ValueError(
            "X must hold values whose kernels are finite numbers, got an overflow in "
            f"row {int(np.argmax(bad))}; check that row, or rescale its columns as in "
            "training."
        )
    return scores


def _require_same_shape(matrices: Sequence[np.ndarray]) -> None:
    shapes = [matrix.shape for matrix in matrices]
    if len(set(shapes)) > 1:
        raise ValueError(
            f"all kernel matrices must have the same shape, got {shapes}; compute them "
            "on the same samples."
        )


def _require_finite(X: Any, names: Any) -> None:
    """Raise if a table holds NaN or infinity, naming the first such column."""
    values = X.data if sp.issparse(X) else X
    # The sum is finite if all values are, and costs no array of its own; it may
    # also overflow, so the values have the last word.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return
    table = sp.coo_array(X) if sp.issparse(X) else X
    bad = ~np.isfinite(values)
    column = table.coords[1][bad][0] if sp.issparse(X) else np.nonzero(bad)[1].min()
    missing = np.isnan(values[bad]).any()
    raise ValueError(
        f"X must hold finite numbers, got {'NaN' if missing else 'infinity (inf)'} in "
        f"column {column if names is None else repr(str(names[column]))}; fill or drop "
        "such values first, for instance with a SimpleImputer in a Pipeline."
    )
