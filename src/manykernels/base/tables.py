"""Some rows or columns of a table, whatever it is: pandas, polars, sparse or array."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Selection


def count_rows(X: Any) -> int:
    """Rows of a table, of a stack, or of a list of matrices."""
    first = X[0] if isinstance(X, list) and hasattr(X[0], "shape") else X
    return int(first.shape[0] if hasattr(first, "shape") else len(first))


def table_rows(table: Any, index: Selection) -> Any:
    """Rows by position.

    Examples
    --------
    >>> table_rows(np.eye(3), np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """
    if hasattr(table, "iloc"):
        return table.iloc[index]
    if hasattr(table, "columns"):  # polars
        return table[_listed(index)]
    return (sp.csr_array(table) if sp.issparse(table) else table)[index]


def table_columns(table: Any, index: Selection) -> Any:
    """Columns by position.

    Examples
    --------
    >>> table_columns([[1, 2], [3, 4]], slice(1, None)).tolist()
    [[2], [4]]
    """
    if hasattr(table, "iloc"):
        return table.iloc[:, index]
    if hasattr(table, "columns"):  # polars
        return table[:, _listed(index)]
    table = sp.csr_array(table) if sp.issparse(table) else np.asarray(table)
    return table[:, index]


def _listed(index: Selection) -> Any:
    return index if isinstance(index, slice) else index.tolist()


def is_number(cell: Any) -> bool:
    """Whether NumPy makes a float of a cell; None becomes NaN."""
    try:
        float(0.0 if cell is None else cell)
    except (TypeError, ValueError):
        return False
    return True
