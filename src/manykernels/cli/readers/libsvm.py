"""LIBSVM text: sparse rows ``label index:value ...``."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from manykernels.cli.readers.samples import (
    Roles,
    Sample,
    TableError,
    require_finite,
    require_rows,
)

# A typing error in an index must not cost all the memory there is.
MOST_COLUMNS = 10_000_000


def read_libsvm(stream: BinaryIO, roles: Roles, zero_based: bool = False) -> Sample:
    r"""Read sparse rows; indices count from 1 unless `zero_based`.

    Examples
    --------
    >>> import io
    >>> sample = read_libsvm(io.BytesIO(b"1 1:0.5 3:2\n-1 2:1\n"), Roles())
    >>> sample.X.toarray().tolist(), sample.y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    _require_no_names(roles)
    try:
        X, y = load_svmlight_file(stream, zero_based=zero_based)
    except Exception as error:  # its parser has no errors of its own
        raise _broken(error, zero_based) from error
    require_rows(X.shape[0])
    X = _with_width(sp.csr_matrix(X), roles.n_features)
    require_finite(X, None)
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y))) + 1
        raise TableError(
            f"expected a label in every row, got {y[row - 1]} in row {row}; fill it in "
            "or leave the row out."
        )
    return Sample(X, None, y)


def _with_width(X: sp.csr_matrix, n_features: int | None) -> sp.csr_matrix:
    """The same rows with as many columns as in training."""
    n_columns = X.shape[1]
    if n_columns > MOST_COLUMNS:
        raise TableError(
            f"expected indices up to {MOST_COLUMNS}, got {n_columns}; check the file "
            "for a typing error."
        )
    if n_features is None:
        return X
    if n_columns > n_features:
        raise TableError(
            f"expected indices of the {n_features} columns of the training data, got "
            f"{n_columns} columns; leave out those that training did not have."
        )
    return sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], n_features))


def _require_no_names(roles: Roles) -> None:
    wanted = {
        "--target": roles.target,
        "--group": roles.group,
        "--weight": roles.weight,
    }
    for option, name in {**wanted, "--drop": ", ".join(roles.drop) or None}.items():
        if name is not None:
            raise TableError(
                f"expected no {option} for a LIBSVM file, which has no column names, "
                f"got {name!r}; leave it out."
            )


def _broken(error: Exception, zero_based: bool) -> TableError:
    why = " ".join(str(error).split())[:200].rstrip(".")
    if not zero_based and "index 0" in why:
        return TableError(
            "expected LIBSVM indices that count from 1, got the index 0; read the file "
            "with --format libsvm0."
        )
    return TableError(
        f"expected LIBSVM rows such as '1 3:0.5 7:2', but the file cannot be read "
        f"({why}); correct the row, or name its format with --format."
    )
