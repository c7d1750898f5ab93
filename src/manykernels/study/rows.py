"""Some rows of whatever people pass as X."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.tables import table_rows
from manykernels.inputs.views import are_views


def as_table(X: Any) -> Any:
    """Lists of numbers as an array; everything else as it is, but for its rows."""
    if sp.issparse(X):
        return sp.csr_array(X)  # has rows
    return np.asarray(X) if isinstance(X, list | tuple) and not are_views(X) else X


def require_rows(X: Any, n_rows: int) -> None:
    """Raise unless X, or every matrix of it, has as many rows as y."""
    found = {one.shape[0] for one in (X if isinstance(X, list | tuple) else [X])}
    if found != {n_rows}:
        raise ValueError(
            f"X must have as many rows as y, which are {n_rows}, got "
            f"{', '.join(map(str, sorted(found)))}; pass as many."
        )


def take_rows(X: Any, rows: np.ndarray, columns: np.ndarray | None = None) -> Any:
    """Some rows; of kernel matrices, between these and the rows `columns`.

    Examples
    --------
    >>> take_rows(np.eye(3), np.array([0, 2]), np.array([0]))
    array([[1.],
           [0.]])
    """
    if columns is None:
        return table_rows(X, rows)
    if isinstance(X, list | tuple):
        return [take_rows(one, rows, columns) for one in X]
    X = X if sp.issparse(X) else np.asarray(X)
    return X[np.ix_(rows, columns)]
