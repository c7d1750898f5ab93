"""Parquet, with whichever of the common readers is installed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any, BinaryIO

import numpy as np

from manykernels.cli.readers.samples import (
    Plan,
    Roles,
    Sample,
    TableError,
    listed,
    require_finite,
    require_rows,
)

# Names of all columns, and a function from a position to the column's values.
Opened = tuple[list[str], Callable[[int], Any]]


def read_parquet(stream: BinaryIO, roles: Roles) -> Sample:
    """Read the columns that are asked for."""
    names, column = _open(stream)
    plan = roles.plan(names, len(names))
    text = [j for j in plan.features if not _is_numeric(_column(column, j))]
    if text:
        raise TableError(
            "expected numbers to learn from, got others in the columns "
            f"{listed([names[j] for j in text])}; leave them out with --drop, or turn "
            "them into numbers first."
        )
    parts = [_as_floats(_column(column, j)) for j in plan.features]
    require_rows(len(parts[0]))
    X = np.column_stack(parts)
    require_finite(X, plan.feature_names)
    return Sample(
        X,
        plan.feature_names,
        _labels(plan, plan.target, column),
        _weights(plan, column),
        _labels(plan, plan.group, column),
    )


def _open(stream: BinaryIO) -> Opened:
    for module, opener in READERS.items():
        try:
            library = import_module(module)
        except ImportError:
            continue
        try:
            return opener(library, stream)
        except Exception as error:  # each reader has errors of its own
            raise _broken(error) from error
    raise TableError(
        "expected pyarrow, polars or pandas to read Parquet, got none of them; install "
        "manykernels[files], or convert the file to CSV."
    )


def _with_pyarrow(parquet: Any, stream: BinaryIO) -> Opened:
    # One thread: a broken file must fail alike every time.
    table = parquet.ParquetFile(stream).read(use_threads=False)
    return list(table.column_names), lambda j: table.column(j).to_numpy()


def _with_polars(polars: Any, stream: BinaryIO) -> Opened:
    frame = polars.read_parquet(stream)
    return list(frame.columns), lambda j: frame.to_series(j).to_numpy()


def _with_pandas(pandas: Any, stream: BinaryIO) -> Opened:
    frame = pandas.read_parquet(stream)
    return list(map(str, frame.columns)), lambda j: frame.iloc[:, j].to_numpy()


READERS: dict[str, Callable[[Any, BinaryIO], Opened]] = {
    "pyarrow.parquet": _with_pyarrow,
    "polars": _with_polars,
    "pandas": _with_pandas,
}


def _column(column: Callable[[int], Any], j: int) -> np.ndarray:
    try:
        return np.asarray(column(j))
    except Exception as error:  # each reader has errors of its own
        raise _broken(error) from error


def _is_numeric(values: np.ndarray) -> bool:
    if values.dtype == object:
        numbers = (Real, Decimal, type(None))
        return all(isinstance(value, numbers) for value in values)
    return values.dtype.kind in "biuf" and values.ndim == 1


def _as_floats(values: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _broken(error) from error


def _weights(plan: Plan, column: Callable[[int], Any]) -> np.ndarray | None:
    if plan.weight is None:
        return None
    values = _column(column, plan.weight)
    if not _is_numeric(values):
        raise TableError(
            f"expected numbers as weights, got others in the column "
            f"{plan.title(plan.weight)}; name another column."
        )
    weight = _as_floats(values)
    require_finite(weight[:, None], plan.titles([plan.weight]))
    return weight


def _labels(
    plan: Plan, j: int | None, column: Callable[[int], Any]
) -> np.ndarray | None:
    if j is None:
        return None
    values = _column(column, j)
    empty = np.array([value is None or value != value for value in values.tolist()])
    if empty.any():
        raise TableError(
            f"expected an entry in every row of column {plan.title(j)}, got none in "
            f"row {int(np.argmax(empty)) + 1}; fill it in or leave the row out."
        )
    if values.dtype == object:
        return np.array([str(value) for value in values], dtype=object)
    return values


def _broken(error: Exception) -> TableError:
    why = " ".join(str(error).split())[:200].rstrip(".")
    return TableError(
        f"expected a whole Parquet file, but it cannot be read ({why}); copy the "
        "original again, or name its format with --format."
    )
