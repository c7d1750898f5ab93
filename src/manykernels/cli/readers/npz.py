"""NPZ: arrays by name, checked before they are read and never unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from manykernels.cli.readers.samples import (
    Roles,
    Sample,
    TableError,
    listed,
    require_count,
    require_finite,
    require_rows,
)

TABLE, STACK, NAMES = "X", "kernels", "names"
KINDS = "biufU"  # booleans, numbers and text; objects would need pickle


def read_npz(stream: BinaryIO, roles: Roles) -> Sample:
    """Read X, or a stack of kernels, and what belongs to the rows.

    The arrays are `X` (n, d) with optional `names`, or `kernels` (n, n_train, F); `y`
    and others are found under the names of their roles.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            return _read(Archive(archive), roles)
    except TableError:
        raise
    except Exception as error:  # zlib, struct, tokenize, ... on broken bytes
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise TableError(
            f"expected a whole NPZ file, but it cannot be read ({why}); copy the "
            "original again, or name its format with --format."
        ) from error


class Archive:
    """The arrays of an open NPZ file."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.names = [
            name.removesuffix(".npy")
            for name in archive.namelist()
            if name.endswith(".npy")
        ]

    def read(self, name: str, n_dims: int) -> np.ndarray:
        """One array, whose size is compared with the bytes there are."""
        if name not in self.names:
            raise TableError(
                f"expected an array {name!r} in the NPZ file, got "
                f"{listed(self.names) or 'no array'}; save it under that name."
            )
        entry = self.archive.getinfo(f"{name}.npy")
        with self.archive.open(entry) as stream:
            shape, dtype = _header(stream, name)
            n_bytes = math.prod(shape) * dtype.itemsize
            if not 0 <= n_bytes <= entry.file_size:
                raise TableError(
                    f"expected {n_bytes} bytes in the array {name!r}, got "
                    f"{entry.file_size}; copy the original again."
                )
        if len(shape) != n_dims:
            raise TableError(
                f"expected {n_dims} dimensions in the array {name!r}, got "
                f"{len(shape)}; reshape it."
            )
        with self.archive.open(entry) as stream:
            return np.asarray(npy.read_array(stream, allow_pickle=False))

    def optional(self, name: str | None, n_rows: int) -> np.ndarray | None:
        """An array with one entry per row, if it was asked for."""
        if name is None:
            return None
        values = self.read(name, 1)
        if len(values) != n_rows:
            raise TableError(
                f"expected {n_rows} entries in the array {name!r}, one per row, got "
                f"{len(values)}; use the same rows for all arrays."
            )
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values))) + 1
            raise TableError(
                f"expected an entry in every row of the array {name!r}, got "
                f"{values[row - 1]} in row {row}; fill it in or leave the row out."
            )
        return values


def _header(stream: Any, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.kind not in KINDS:
        raise TableError(
            f"expected numbers or text in the array {name!r}, got {dtype}; convert it "
            "before saving."
        )
    return shape, dtype


def _read(archive: Archive, roles: Roles) -> Sample:
    given = STACK in archive.names and TABLE not in archive.names
    X = archive.read(STACK if given else TABLE, 3 if given else 2)
    require_rows(len(X))
    if X.dtype.kind == "U":
        raise TableError(
            f"expected numbers in the array {STACK if given else TABLE!r}, got text; "
            "turn it into numbers first."
        )
    y = archive.optional(roles.target, len(X))
    group = archive.optional(roles.group, len(X))
    weight = _as_weights(archive.optional(roles.weight, len(X)))
    if given:
        require_count(X.shape[1], roles.n_features)
        return Sample(X, None, y, weight, group)
    names = _names(archive, X.shape[1])
    index = _features(roles, names, X.shape[1])
    X = X[:, index] if index != list(range(X.shape[1])) else X
    kept = None if names is None else [names[j] for j in index]
    require_finite(X, kept)
    return Sample(X, kept, y, weight, group)


def _features(roles: Roles, names: list[str] | None, n: int) -> list[int]:
    """Feature positions; roles name arrays here, so they take no column away."""
    columns = replace(roles, target=None, weight=None, group=None)
    return columns.plan(names, n).features


def _names(archive: Archive, n_columns: int) -> list[str] | None:
    if NAMES not in archive.names:
        return None
    names: Sequence[Any] = archive.read(NAMES, 1).tolist()
    if len(names) != n_columns:
        raise TableError(
            f"expected {n_columns} names, one per column of X, got {len(names)}; "
            "save one for each."
        )
    return [str(name) for name in names]


def _as_weights(values: np.ndarray | None) -> np.ndarray | None:
    if values is None:
        return None
    if values.dtype.kind not in "biuf":
        raise TableError(
            f"expected numbers as weights, got {values.dtype}; name another array."
        )
    return values.astype(np.float64)
