"""X as kernels read it, checked once: a table, several views, or kernel matrices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import _check_feature_names

from manykernels.base.quoted import described
from manykernels.base.stored import Fields, Maybe, Part
from manykernels.base.tables import is_number
from manykernels.device import Device, open_device
from manykernels.inputs.preparation import Preparation, warn_of_empty
from manykernels.inputs.row_matching import match_rows
from manykernels.inputs.scaling import read_scale
from manykernels.inputs.training_kernels import training_kernels
from manykernels.inputs.view_table import JoinedTable, ViewReader
from manykernels.inputs.views import Views, are_views, as_views
from manykernels.inputs.wrappers import from_other_libraries, given_matrices
from manykernels.kernels import Kernel
from manykernels.kernels.base import reads_matrices
from manykernels.kernels.columns import select_columns
from manykernels.kernels.matrices import is_device_matrix
from manykernels.kernels.pairwise import row_blocks

MATRIX_FORMS = (
    "precomputed kernels must come as an array of shape (n, n_train, kernels), a list "
    "of matrices or one matrix"
)
# What a file holds of the way from X to numbers.
READING_FIELDS: Fields = {
    "_reader": Maybe(Part(ViewReader)),
    "_preparation": Maybe(Part(Preparation)),
}

logger = logging.getLogger(__name__)


class RowsEstimator(BaseEstimator):
    """An estimator whose parameter `kernels` decides what X must be.

    `scale` and `missing`, where it has such parameters, are applied to the numbers
    before kernels read them.
    """

    _reader: ViewReader | None = None  # of views
    _preparation: Preparation | None = None  # of views, and of tables that are scaled

    def _match(self, X: Any, y: Any, *others: Any) -> tuple[Any, ...]:
        """X, y and the others in one order of rows; kernel matrices as they are."""
        if not reads_matrices(self.kernels):
            X = from_other_libraries(X)
            if are_views(X):
                return match_rows(X, y, *others)
        return X, *map(from_other_libraries, (y, *others))

    def _open_device(self) -> Device | None:
        """Where to compute; None is the processor with NumPy."""
        name = getattr(self, "device", None)  # some estimators have no such parameter
        return None if name is None else open_device(name)

    def _specs(self, X: Any) -> list[Kernel]:
        """The kernels to fit on matched rows."""
        return training_kernels(self.kernels, X, getattr(self, "approximate", None))

    def _read_training(self, X: Any, specs: Sequence[Kernel], min_rows: int = 1) -> Any:
        """Check the X of a first fit, of which `specs` are the kernels.

        What comes of it goes through `_prepare`, and X of later calls through
        `_read_new`.
        """
        # What an earlier fit learned of X must not read this one.
        self._reader = self._preparation = None
        if reads_matrices(specs):
            X = given_matrices(X, self._open_device())
            return check_matrices(self, X, True, min_rows)
        if not isinstance(X, Views):
            return check_table(
                self, X, True, min_rows, used=lambda: self._used(X, specs)
            )
        if len(X) < min_rows:
            raise ValueError(
                f"views must have at least {min_rows} rows, got {len(X)}; pass more."
            )
        self._reader = ViewReader.of(X)
        self.feature_names_in_ = self._reader.feature_names
        self.n_features_in_ = len(self.feature_names_in_)
        return self._reader.read(X, self._used(self._reader.no_rows, specs))

    def _check_new(self, X: Any) -> Any:
        """Check the X of a call after fit: its values as they came."""
        if reads_matrices(self.kernels):
            return check_matrices(
                self, given_matrices(X, self._open_device()), reset=False
            )
        X = from_other_libraries(X)
        several = are_views(X)
        if several != (self._reader is not None):
            raise _other_form(self._reader, X)
        if self._reader is not None:
            return self._reader.read(as_views(X), self._used(self._reader.no_rows))
        return check_table(self, X, reset=False, used=lambda: self._used(X))

    def _read_new(self, X: Any) -> Any:
        """New rows as the kernels shall read them."""
        X = self._check_new(X)
        return X if self._preparation is None else self._preparation.apply(X)

    def _used(self, X: Any, specs: Sequence[Kernel] | None = None) -> np.ndarray:
        """Which columns the kernels read: those of a first fit, or of the model."""
        used = np.zeros(X.shape[1], dtype=bool)
        if specs is None:
            used = np.zeros(self.n_features_in_, dtype=bool)
            # The parameter `kernels` may have been set anew since the fit.
            used[self._model.kernels.columns_read()] = True
            return used
        names: Any = None if self._reader is None else self._reader.feature_names
        for kernel in specs:
            if kernel.family != "constant":
                used[select_columns(kernel.columns, X, names)] = True
        return used

    def _prepare(self, X: Any, weight: np.ndarray) -> Any:
        """Fit scaling, and the way with missing views, on rows of positive weight."""
        wanted = read_scale(getattr(self, "scale", "auto"))
        if isinstance(X, JoinedTable):
            missing = getattr(self, "missing", "rescale")
            self._preparation, X = Preparation.fit_views(X, wanted, missing, weight)
        elif wanted is not None and wanted != ["none"]:
            if reads_matrices(self.kernels):
                raise ValueError(
                    "scale is for tables, got given kernel matrices; leave scale out."
                )
            if isinstance(wanted, Mapping):
                raise ValueError(
                    "scale by view needs X with several views, got one table; name one "
                    "scale."
                )
            self._preparation, X = Preparation.fit_table(X, wanted, weight)
        return X

    def _new_parts(self, table: Any, block_bytes: int) -> Iterator[Any]:
        """Checked new rows as the kernels shall read them, some at a time.

        Scaled numbers take as much memory as the table.
        """
        if self._preparation is None:
            yield table
            return
        if isinstance(table, JoinedTable):
            warn_of_empty(table)
        # Twice the columns: scaled numbers and what a step makes of them.
        for rows in row_blocks(table.shape[0], 2 * table.shape[1], 8, block_bytes):
            yield self._preparation.apply(table[rows])

    def _reading_agrees(self) -> bool:
        """Whether a file's views, columns and scaling fit together."""
        widths, names = [int(self.n_features_in_)], [""]
        if self._reader is not None:
            widths = [len(columns) for columns in self._reader.columns]
            names = self._reader.names
        if sum(widths) != self.n_features_in_:
            return False
        if self._preparation is None:
            return self._reader is None
        same = self._preparation.names == names
        return same and self._preparation.fits(widths)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = reads_matrices(self.kernels)
        tags.input_tags.pairwise = given
        tags.input_tags.three_d_array = given
        tags.input_tags.sparse = not given
        return tags


def _other_form(reader: ViewReader | None, X: Any) -> ValueError:
    got = type(X).__name__
    if reader is None:
        return ValueError(
            f"X must be one table as in fit, got {got}; pass the table itself."
        )
    return ValueError(
        f"X must be views as in fit, some of {', '.join(reader.names)}, got one table "
        f"({got}); pass a dict of tables."
    )


# --- one table ------------------------------------------------------------------------


def check_table(
    estimator: BaseEstimator,
    X: Any,
    reset: bool,
    min_rows: int = 1,
    sparse: bool = True,
    used: Callable[[], np.ndarray] | None = None,
) -> Any:
    """Feature tables: dense or CSR, finite, with remembered column names.

    `used` returns which columns are read; only these must hold finite numbers.
    """
    # Names come first: a frame with other columns is refused by their names, which
    # says more than their number.
    _check_feature_names(estimator, X, reset=reset)
    n_features = None if reset else estimator.n_features_in_
    X = _as_table(estimator, X, n_features, min_rows)
    if len(X.shape) > 2:
        raise ValueError(
            f"Found array with dim {len(X.shape)}, while dim <= 2 is required; pass "
            "rows and columns."
        )
    if getattr(getattr(X, "dtype", None), "kind", "x") in "mM":
        raise _no_number(np.asarray(X).ravel()[0], 0)
    if sp.issparse(X) and not sparse:
        raise TypeError(
            "X must be dense here, but sparse data was passed; use '.toarray()' to "
            "convert it."
        )
    try:
        table = _as_numbers(estimator, X)
    except (TypeError, ValueError) as error:
        # Text in columns that no kernel reads is allowed: zeros take its place.
        blanked = None if used is None else without_unused(X, used)
        _require_numbers(X if blanked is None else blanked)
        if blanked is None:
            raise ValueError(
                f"X must hold real numbers, got {described(X)}; turn it into numbers."
            ) from error
        table = _as_numbers(estimator, blanked)
    if reset:
        estimator.n_features_in_ = table.shape[1]
    values = table.data if sp.issparse(table) else table
    # The sum is finite if all values are, and costs no array of its own; it may
    # also overflow, so the values have the last word.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return table
    # So is NaN in such columns.
    if used is not None and not sp.issparse(table):
        table = np.where(used(), table, 0.0).astype(table.dtype)
        if np.isfinite(table).all():
            return table
    raise _not_finite(table, getattr(estimator, "feature_names_in_", None))


def _as_numbers(estimator: BaseEstimator, X: Any, allow_nd: bool = False) -> Any:
    """X as an array or CSR matrix of floats, whatever their values and their number."""
    return check_array(
        X,
        accept_sparse="csr" if not allow_nd else False,
        dtype=[np.float64, np.float32] if not allow_nd else "numeric",
        allow_nd=allow_nd,
        ensure_all_finite=False,
        ensure_min_samples=0,
        ensure_min_features=0,
        estimator=estimator,
        input_name="X",
    )


def _as_table(
    estimator: Any, X: Any, n_features: int | None = None, min_rows: int = 1
) -> Any:
    """X with its rows and columns; errors begin as scikit-learn's do.

    `n_features` are those of fit.
    """
    owner = type(estimator).__name__
    if not hasattr(X, "shape"):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise ValueError(
                f"X must have rows of equal length, got a {type(X).__name__} whose "
                "rows or entries differ; make them equal."
            ) from error
    shape = X.shape
    if len(shape) < 2:
        got = "1D" if len(shape) else "scalar"
        raise ValueError(
            f"Expected 2D array, got {got} array instead; Reshape your data to rows "
            "and columns, with X.reshape(-1, 1) for one column."
        )
    if shape[0] < min_rows:
        raise ValueError(
            f"Found array with {shape[0]} sample(s) (shape={shape}) while a minimum of "
            f"{min_rows} is required by {owner}; pass more rows."
        )
    if shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is "
            f"required by {owner}; pass at least one column."
        )
    if n_features is not None and shape[1] != n_features:
        raise ValueError(
            f"X has {shape[1]} features, but {owner} is expecting {n_features} "
            "features as input; pass the columns of the training data in their order."
        )
    return X


def without_unused(X: Any, used: Callable[[], np.ndarray]) -> Any | None:
    """A table with zeros in the columns that no kernel reads; None if all are read.

    Examples
    --------
    >>> table = np.array([["ann", 1.0]], dtype=object)
    >>> without_unused(table, lambda: np.array([False, True])).tolist()
    [[0.0, 1.0]]
    """
    if sp.issparse(X):
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
    if sp.issparse(X):
        return
    table = np.asarray(X, dtype=object)
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


# --- kernel matrices ------------------------------------------------------------------


def check_matrices(
    estimator: BaseEstimator, X: Any, reset: bool, min_rows: int = 1
) -> Any:
    """Stacks (n, n_train, F), lists of matrices, or one matrix; not yet the values."""
    if isinstance(X, Mapping) and not sp.issparse(X):
        raise TypeError(f"{MATRIX_FORMS}, got a dict; pass list(X.values()).")
    _check_feature_names(estimator, X, reset=reset)
    n_features = None if reset else estimator.n_features_in_
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
        X = [_check_matrix(estimator, matrix, min_rows) for matrix in X]
        shapes = [matrix.shape for matrix in X]
        if len(set(shapes)) > 1:
            raise ValueError(
                f"all kernel matrices must have the same shape, got {shapes}; compute "
                "them on the same samples."
            )
        n_train = X[0].shape[1]
    else:
        X = _check_matrix(estimator, X, min_rows)
        _require_kernels_last(X, n_features)
        n_train = X.shape[1]
    if reset:
        estimator.n_features_in_ = n_train
    elif n_train != n_features:
        raise ValueError(
            f"X has {n_train} features, but {type(estimator).__name__} is expecting "
            f"{n_features} features as input; a kernel matrix of new rows needs one "
            "column per training row."
        )
    return X


def _check_matrix(estimator: BaseEstimator, X: Any, min_rows: int) -> np.ndarray:
    """A matrix or a stack of numbers, without a copy or a look at the values."""
    if is_device_matrix(X):
        return X  # type: ignore[no-any-return]
    if sp.issparse(X):
        raise TypeError(
            "X must be dense here, but sparse data was passed; use '.toarray()' to "
            "convert it."
        )
    X = _as_table(estimator, X, None, min_rows)
    try:
        X = _as_numbers(estimator, X, allow_nd=True)
    except (TypeError, ValueError) as error:
        if len(X.shape) == 2:
            _require_numbers(X)
        raise ValueError(
            f"{MATRIX_FORMS}, of real numbers, got {described(X)}; turn them into "
            "numbers."
        ) from error
    if X.ndim > 3:
        raise ValueError(f"{MATRIX_FORMS}, got the shape {X.shape}; reshape it so.")
    return np.asarray(X)


def _require_kernels_last(X: Any, n_train: int | None) -> None:
    """Raise if a stack has its kernels first, as other libraries have them."""
    if len(X.shape) != 3:
        return
    expected = X.shape[0] if n_train is None else n_train
    n_columns = X.shape[1] if n_train is None else n_train
    # Of stacks with as many kernels as rows, the order of axes cannot be seen.
    if X.shape[1] != expected and X.shape[2] == n_columns:
        raise ValueError(
            f"{MATRIX_FORMS}, got {X.shape}, kernels first; pass np.moveaxis(X, 0, -1)."
        )
