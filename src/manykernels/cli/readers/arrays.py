"""LIBSVM rows by scikit-learn, and NPZ files by NumPy, never unpickled."""

from __future__ import annotations

import math
import zipfile
from dataclasses import replace
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from sklearn.datasets import load_svmlight_file

from manykernels.cli.readers.columns import (
    Roles,
    Sample,
    TableError,
    listed,
    require_count,
    require_entries,
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
        raise _broken("LIBSVM rows such as '1 3:0.5 7:2'", error) from error
    require_rows(X.shape[0])
    most = MOST_COLUMNS if roles.n_features is None else roles.n_features
    if X.shape[1] > most:
        raise TableError(
            f"expected indices up to {most}, got {X.shape[1]}; check for a typing "
            "error, and leave out columns that training did not have."
        )
    width = roles.n_features or X.shape[1]
    X = sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], width))
    require_finite(X, None)
    require_entries(~np.isfinite(y), "the labels")
    return Sample(X, None, y)


def read_npz(stream: BinaryIO, roles: Roles) -> Sample:
    """Read X, or a stack of kernels, and what belongs to the rows.

    The arrays are `X` (n, d) with optional `names`, or `kernels` (n, n_train, F); `y`
    and others are found under the names of their roles.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            return _read_arrays(archive, roles)
    except TableError:
        raise
    except Exception as error:  # zlib, struct, tokenize, ... on broken bytes
        raise _broken("a whole NPZ file", error) from error


def _read_arrays(archive: zipfile.ZipFile, roles: Roles) -> Sample:
    names = archive.namelist()
    given = "kernels.npy" in names and "X.npy" not in names
    X = _read(archive, "kernels" if given else "X", 3 if given else 2, "biuf")
    require_rows(len(X))
    y = _of_rows(archive, roles.target, len(X), "biufU")
    weight = _of_rows(archive, roles.weight, len(X), "biuf")
    group = _of_rows(archive, roles.group, len(X), "biufU")
    if given:
        require_count(X.shape[1], roles.n_features)
        return Sample(X, None, y, weight, group)
    titles = None
    if "names.npy" in names:
        titles = _read(archive, "names", 1, "U", X.shape[1]).tolist()
    # Roles name arrays here, so they take no column away.
    columns = replace(roles, target=None, weight=None, group=None)
    plan = columns.plan(titles, X.shape[1])
    X = X if len(plan.features) == X.shape[1] else X[:, plan.features]
    require_finite(X, plan.feature_names)
    return Sample(X, plan.feature_names, y, weight, group)


def _of_rows(
    archive: zipfile.ZipFile, name: str | None, n_rows: int, kinds: str
) -> np.ndarray | None:
    if name is None:
        return None
    values = _read(archive, name, 1, kinds, n_rows)
    if values.dtype.kind == "f":
        require_entries(~np.isfinite(values), f"the array {name!r}")
    return values


def _read(
    archive: zipfile.ZipFile,
    name: str,
    n_dims: int,
    kinds: str,
    length: int | None = None,
) -> np.ndarray:
    """One array, whose size is compared with the bytes there are before it is read."""
    arrays = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
    if name not in arrays:
        raise TableError(
            f"expected an array {name!r} in the NPZ file, got "
            f"{listed(arrays) or 'no array'}; save it under that name."
        )
    entry = archive.getinfo(f"{name}.npy")
    with archive.open(entry) as stream:
        first = npy.read_magic(stream) == (1, 0)
        read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape, _, dtype = read(stream)
    n_bytes = math.prod(shape) * dtype.itemsize
    for what, expected, found in (
        ("bytes", n_bytes, min(n_bytes, entry.file_size)),
        ("dimensions", n_dims, len(shape)),
        ("entries", shape[0] if length is None and shape else length, *shape[:1]),
    ):
        if expected != found:
            raise TableError(
                f"expected {expected} {what} in the array {name!r}, got {found}; save "
                "it again."
            )
    if dtype.kind not in kinds:
        wanted = "numbers or text" if "U" in kinds else "numbers"
        raise TableError(
            f"expected {wanted} in the array {name!r}, got {dtype.type.__name__}; "
            "convert it before saving."
        )
    with archive.open(entry) as stream:
        return np.asarray(npy.read_array(stream, allow_pickle=False))


def _require_no_names(roles: Roles) -> None:
    wanted = {
        "--target": roles.target,
        "--group": roles.group,
        "--weight": roles.weight,
        "--drop": ", ".join(roles.drop) or None,
    }
    for option, name in wanted.items():
        if name is not None:
            raise TableError(
                f"expected no {option} for a LIBSVM file, which has no column names, "
                f"got {name!r}; leave it out."
            )


def _broken(expected: str, error: Exception) -> TableError:
    why = " ".join(str(error).split())[:200].rstrip(".")
    action = "correct it, or name its format with --format"
    if "index 0" in why:
        action = "if its indices count from 0, read it with --format libsvm0"
    return TableError(
        f"expected {expected}, but the file cannot be read ({why}); {action}."
    )
