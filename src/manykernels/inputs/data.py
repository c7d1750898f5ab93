"""What people pass as X, y and sample_weight: everything is checked here, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import (
    check_array,
    check_consistent_length,
    column_or_1d,
    compute_class_weight,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    validate_data,
)

from manykernels.inputs.refusals import plain_refusals
from manykernels.kernels.given import is_elsewhere

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
    if is_elsewhere(X):
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


@dataclass(frozen=True)
class TrainingLabels:
    """The rows to learn from: those with a positive weight.

    A row of weight zero is a row that is not there.
    """

    classes: np.ndarray  # sorted labels
    kept: np.ndarray  # positions in X
    target: np.ndarray  # class index of each kept row
    weight: np.ndarray  # positive weight of each kept row

    @classmethod
    @plain_refusals()
    def of(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        class_weight: Any = None,
        classes: np.ndarray | None = None,
        owner: str = "MKLClassifier",
    ) -> TrainingLabels:
        """Check labels and weights of a checked X; find the classes if not given.

        Messages speak of the estimator `owner`.
        """
        if y is None:
            raise _no_target(owner, "one label")
        rows = X[0] if isinstance(X, list) else X
        y = column_or_1d(y, warn=True)
        check_consistent_length(rows, y)
        check_classification_targets(y)
        weight = np.ones(len(y))
        if sample_weight is not None:
            weight = check_weights(rows, sample_weight)
        kept = np.flatnonzero(weight > 0.0)
        y, weight = y[kept], weight[kept]
        if classes is not None:
            target = _class_index(y, classes)
        else:
            classes, target = np.unique(y, return_inverse=True)
            require_classes(classes, owner)
        if class_weight is not None:
            factors = class_factors(class_weight, classes, target, weight)
            weight = weight * factors[target]
            used = weight > 0.0
            if not np.any(used):
                raise _nothing_counts("class_weight", class_weight)
            kept, target, weight = kept[used], target[used], weight[used]
        return cls(classes, kept, target, weight)


def require_classes(classes: np.ndarray, owner: str) -> None:
    """Raise unless there are two classes at least."""
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs samples of at least 2 classes, got one class only: "
            f"{classes.tolist()}; check the labels and sample weights."
        )


def check_same_classes(classes: Any, known: np.ndarray) -> None:
    """Raise if a later call to partial_fit names other classes than the first."""
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            "classes must stay the same in every call to partial_fit, got "
            f"{np.unique(classes).tolist()} after {known.tolist()}; leave the argument "
            "out, or start a new model."
        )


def first_classes(classes: Any) -> np.ndarray:
    """All the labels that will ever come, named in the first call to partial_fit."""
    if classes is None:
        raise ValueError(
            "classes must be passed on the first call to partial_fit, got None; give "
            "all the labels that will ever come, for instance np.unique(y)."
        )
    classes = np.unique(classes)
    require_classes(classes, "MKLClassifier")
    return classes


def _no_target(owner: str, each: str) -> ValueError:
    # Opens as scikit-learn's own message does, for tools that look for it.
    return ValueError(
        f"This {owner} estimator requires y to be passed, but the target y is None; "
        f"pass {each} per row."
    )


def check_weights(rows: Any, sample_weight: Any) -> np.ndarray:
    """One number per row, none negative and not all zero; ones for None."""
    weight = np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64))
    if np.any(weight < 0.0):
        row = int(np.argmin(weight))
        raise ValueError(
            f"sample_weight must not be negative, got {weight[row]:g} for row {row}; "
            "give rows that should not count the weight 0."
        )
    if not np.any(weight):
        raise _nothing_counts("sample_weight", "zeros only")
    return weight


def _nothing_counts(name: str, got: Any) -> ValueError:
    return ValueError(
        f"{name} must be positive for some of the rows, got {got}; leave it out to "
        "count all rows alike."
    )


def _class_index(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Position of each label among the classes, which must hold them all."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y must hold labels among the classes {classes.tolist()}, got "
            f"{unknown.tolist()} as well; pass all the labels that will ever come to "
            "the first call of partial_fit."
        )
    return np.searchsorted(classes, y)


def class_factors(
    class_weight: Any, classes: np.ndarray, target: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """A factor per class; "balanced" gives all classes the same total weight."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(target, weight, minlength=len(classes))
        return np.asarray(weight.sum() / (len(classes) * totals))
    # The classes stand for y: a chunk of a stream need not hold all of them.
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if np.any(factors < 0.0):
        raise ValueError(
            f"class_weight must not be negative, got {class_weight!r}; give classes "
            "that should not count the weight 0."
        )
    return np.asarray(factors, dtype=np.float64)


@dataclass(frozen=True)
class TrainingValues:
    """The rows to learn from: those with a positive weight.

    A row of weight zero is a row that is not there.
    """

    kept: np.ndarray  # positions in X
    target: np.ndarray  # (kept rows, targets), less the intercept
    weight: np.ndarray  # positive weight of each kept row
    intercept: np.ndarray  # (targets,)
    flat: bool  # whether y was one column of shape (n,)

    @classmethod
    @plain_refusals()
    def of(
        cls, X: Any, y: Any, sample_weight: Any = None, center: bool = True
    ) -> TrainingValues:
        """Check targets and weights of a checked X; take off the weighted mean."""
        rows = X[0] if isinstance(X, list) else X
        y = _check_values(rows, y)
        weight = check_weights(rows, sample_weight)
        kept = np.flatnonzero(weight > 0.0)
        weight = weight[kept]
        target = y[kept].reshape(len(kept), -1)
        intercept = np.zeros(target.shape[1])
        if center:
            intercept = np.average(target, axis=0, weights=weight)
        return cls(kept, target - intercept, weight, intercept, y.ndim == 1)


def _check_values(rows: Any, y: Any) -> np.ndarray:
    if y is None:
        raise _no_target("MKLRegressor", "one number, or one row of numbers,")
    y = check_array(
        y,
        ensure_2d=False,
        allow_nd=True,
        dtype="numeric",
        ensure_all_finite=False,
        input_name="y",
    ).astype(np.float64)
    if y.ndim > 2 or y.size == 0:
        raise ValueError(
            "y must have the shape (rows,) or (rows, targets), got "
            f"{y.shape}; reshape it so."
        )
    check_consistent_length(rows, y)
    bad = ~np.isfinite(y)
    if bad.any():
        place = int(np.argwhere(bad)[0][0])
        found = "NaN" if np.isnan(y[bad]).any() else "infinity (inf)"
        raise ValueError(
            f"y must hold finite numbers, got {found}, first in row {place}; drop such "
            "rows, or give them values, first."
        )
    return y
