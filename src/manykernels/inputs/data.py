"""What people pass as X: checked here, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import _check_feature_names, validate_data

from manykernels.inputs.refusals import plain_refusals
from manykernels.kernels.matrices import is_device_matrix

logger = logging.getLogger(__name__)


@plain_refusals()
def check_table(
    estimator: BaseEstimator,
    X: Any,
    reset: bool,
    min_rows: int = 1,
    sparse: bool = True,
    used: Callable[[], np.ndarray] | None = None,
) -> Any:
    """Feature tables: dense or CSR, finite, with remembered column names.

    `used` says which columns are read at all; only these must hold finite numbers.
    """
    if getattr(getattr(X, "dtype", None), "kind", "x") in "mM":
        raise _no_number(np.asarray(X).ravel()[0], 0)
    validate = partial(
        validate_data,
        estimator,
        reset=reset,
        accept_sparse="csr" if sparse else False,
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
    )
    try:
        table = validate(X)
    except (TypeError, ValueError):
        blanked = None if used is None else without_unused(X, used)
        _require_numbers(X if blanked is None else blanked)
        if blanked is None:
            raise
        table = validate(blanked)
    values = table.data if sp.issparse(table) else table
    # The sum is finite if all values are, and costs no array of its own; it may
    # also overflow, so the values have the last word.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return table
    if used is not None and not sp.issparse(table):
        table = np.where(used(), table, 0.0).astype(table.dtype)
        if np.isfinite(table).all():
            return table
    raise _not_finite(table, getattr(estimator, "feature_names_in_", None))


def without_unused(X: Any, used: Callable[[], np.ndarray]) -> Any | None:
    """A table with zeros in the columns that nobody reads; None where there is none.

    Examples
    --------
    >>> table = np.array([["ann", 1.0]], dtype=object)
    >>> without_unused(table, lambda: np.array([False, True])).tolist()
    [[0.0, 1.0]]
    """
    if sp.issparse(X) or len(getattr(X, "shape", ())) != 2:
        return None
    read = used()
    unused = np.flatnonzero(~read)
    if not len(unused) or len(read) != X.shape[1]:
        return None
    columns = getattr(X, "columns", None)
    logger.info("%d columns that no kernel reads are ignored", len(unused))
    if columns is None:
        table = np.array(X, dtype=object)
        table[:, unused] = 0.0
        return table
    zeros = dict.fromkeys([columns[k] for k in unused], 0.0)
    return X.assign(**zeros) if hasattr(X, "assign") else X.with_columns(**zeros)


def _require_numbers(X: Any) -> None:
    """Raise with the first cell of a table that is no number, and its column."""
    table = np.empty(0) if sp.issparse(X) else np.asarray(X, dtype=object)
    if table.ndim != 2:
        return
    names = list(getattr(X, "columns", range(table.shape[1])))
    for name, column in zip(names, table.T, strict=True):
        odd = next((cell for cell in column if not is_number(cell)), None)
        if odd is not None:
            raise _no_number(odd, name)


def _no_number(odd: Any, name: Any) -> Exception:
    """Words that scikit-learn's own messages have, for tools that look for them."""
    if isinstance(odd, complex | np.complexfloating):
        return ValueError(
            f"Complex data not supported: X must hold real numbers, got {odd!r} in "
            f"column {name!r}; pass real and imaginary parts as columns."
        )
    if not isinstance(odd, str):
        return TypeError(
            f"X must hold numbers, got {odd!r} in column {name!r}, where an argument "
            "must be a string that is a number, or a number; leave the column out, or "
            "turn it into numbers."
        )
    return ValueError(
        f"X must hold numbers, got {odd!r} in column {name!r}; leave the column out, "
        "or turn it into numbers, for instance with a OneHotEncoder in a "
        "ColumnTransformer."
    )


def is_number(cell: Any) -> bool:
    """Whether NumPy makes a float of it; None becomes NaN."""
    try:
        float(0.0 if cell is None else cell)
    except (TypeError, ValueError):
        return False
    return True


@plain_refusals()
def check_matrices(
    estimator: BaseEstimator, X: Any, reset: bool, min_rows: int = 1
) -> Any:
    """Stacks (n, n_train, F), lists of matrices, or one matrix.

    Values are checked where they are read, once, by the kernels.
    """
    if isinstance(X, Mapping) and not sp.issparse(X):
        raise TypeError(
            "precomputed kernels must come as an array of shape (n, n_train, kernels), "
            "a list of matrices or one matrix, got a dict; pass list(X.values())."
        )
    _check_feature_names(estimator, X, reset=reset)
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
        X = [_check_array(estimator, matrix, min_rows) for matrix in X]
        _require_same_shape(X)
        n_train = X[0].shape[1]
    else:
        X = _check_array(estimator, X, min_rows, allow_nd=True)
        _require_kernels_last(X, None if reset else estimator.n_features_in_)
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


def _require_kernels_last(X: Any, n_train: int | None) -> None:
    """Raise if a stack has its kernels first, as other libraries have them."""
    if len(X.shape) != 3:
        return
    expected = X.shape[0] if n_train is None else n_train
    found = X.shape[1] if n_train is None else n_train
    if X.shape[1] != expected and X.shape[2] == found:
        raise ValueError(
            "precomputed kernels must come as an array of shape (n, n_train, kernels), "
            f"a list of matrices or one matrix, got {X.shape}, kernels first; pass "
            "np.moveaxis(X, 0, -1)."
        )


def _check_array(
    estimator: BaseEstimator, X: Any, min_rows: int, allow_nd: bool = False
) -> np.ndarray:
    """X as an array of numbers, without a copy or a look at the values."""
    if is_device_matrix(X):
        return X
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


def _not_finite(X: Any, names: Any) -> ValueError:
    """The error for a table with NaN or infinity names the first such column."""
    values = X.data if sp.issparse(X) else X
    table = sp.coo_array(X) if sp.issparse(X) else X
    bad = ~np.isfinite(values)
    column = table.coords[1][bad][0] if sp.issparse(X) else np.nonzero(bad)[1].min()
    missing = np.isnan(values[bad]).any()
    return ValueError(
        f"X must hold finite numbers, got {'NaN' if missing else 'infinity (inf)'} in "
        f"column {column if names is None else repr(str(names[column]))}; fill or drop "
        "such values first, for instance with a SimpleImputer in a Pipeline."
    )
