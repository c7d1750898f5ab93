"""CSV, TSV and Parquet, read by pandas: numbers to learn from, labels as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from manykernels.cli.readers.columns import (
    Plan,
    Roles,
    Sample,
    TableError,
    listed,
    require_entries,
    require_finite,
    require_rows,
)

# Cells that say that there is no number; a label may well be "NA" or "none".
_WORDS = ("na", "n/a", "nan", "null", "none")
MISSING = {"", "?", *_WORDS, *map(str.upper, _WORDS), "NaN", "None", "Null"}
NO_LABEL = {"", "nan", "NaN", "NAN"}
# Since 3.1, pandas finds the nearest number without being asked to.
_OLD = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD else {}


def read_delimited(
    stream: BinaryIO, roles: Roles, delimiter: str = ",", header: bool | None = None
) -> Sample:
    r"""Read a table of text; `header` None looks at the first line.

    The first line is a header if it names a column that was asked for, if none of
    its cells is a number, or if it counts the columns.

    Examples
    --------
    >>> text = io.BytesIO(b"a,b,kind\n1,2,x\n3,4,y\n")
    >>> sample = read_delimited(text, Roles(target="kind"))
    >>> sample.names, sample.X.tolist(), sample.y.tolist()
    (['a', 'b'], [[1.0, 2.0], [3.0, 4.0]], ['x', 'y'])
    """
    text = _decoded(stream.read())
    first, n_rows = _checked_rows(text, delimiter)
    if header is None:
        header = is_header(first, roles.asked())
    plan = roles.plan(first if header else None, len(first))
    try:
        frame = _read_csv(text, plan, delimiter, header, len(first), float)
    except ValueError:  # words in a column: which, is found out from the cells
        frame = _read_csv(text, plan, delimiter, header, len(first), str)
    if len(frame) != n_rows - header:
        raise TableError(
            f"expected {n_rows - header} rows, got {len(frame)}; check the file for "
            "odd line ends and quotes."
        )
    return _from_frame(frame, plan)


def _read_csv(
    text: str, plan: Plan, delimiter: str, header: bool, width: int, numbers: type
) -> pd.DataFrame:
    """The planned columns by position: labels are text, the others `numbers`."""
    labels = {j for j in (plan.target, plan.group) if j is not None}
    used = sorted({j for j in (*plan.features, plan.weight) if j is not None} | labels)
    return pd.read_csv(
        io.StringIO(text),
        sep=delimiter,
        header=0 if header else None,
        names=list(range(width)),
        usecols=used,
        dtype={j: str if j in labels else numbers for j in used},
        na_values={j: NO_LABEL if j in labels else MISSING for j in used},
        keep_default_na=False,
        skipinitialspace=True,
        low_memory=False,
        **EXACT,
    )


def read_parquet(stream: BinaryIO, roles: Roles) -> Sample:
    """Read the columns that are asked for."""
    try:
        # One thread: a broken file must fail alike every time.
        frame = pd.read_parquet(stream, engine="pyarrow", use_threads=False)
    except Exception as error:  # pyarrow has many errors for broken bytes
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise TableError(
            f"expected a whole Parquet file, but it cannot be read ({why}); copy the "
            "original again, or name its format with --format."
        ) from error
    names = [str(name) for name in frame.columns]
    frame.columns = pd.RangeIndex(len(names))
    return _from_frame(frame, roles.plan(names, len(names)))


def is_header(cells: Sequence[str], asked: set[str]) -> bool:
    """Whether the first line names the columns.

    Examples
    --------
    >>> is_header(["5.1", "setosa"], set()), is_header(["5.1", "kind"], {"kind"})
    (False, True)
    >>> is_header(["0", "1", "2"], set()), is_header(["a", "b"], set())
    (True, True)
    """
    if asked & set(cells):
        return True
    if len(cells) > 1 and list(cells) == [str(j) for j in range(len(cells))]:
        return True
    return not any(_is_number(cell) or cell in MISSING for cell in cells)


def _from_frame(frame: pd.DataFrame, plan: Plan) -> Sample:
    """The planned columns, if features are finite numbers and all labels are there."""
    require_rows(len(frame))
    columns = [*plan.features, *([] if plan.weight is None else [plan.weight])]
    found = [_as_numbers(frame[j]) for j in columns]
    words = [(j, v) for j, v in zip(columns, found, strict=True) if isinstance(v, str)]
    if words:
        raise TableError(
            f"expected numbers to learn from, got text such as {words[0][1][:40]!r} in "
            f"the columns {listed(plan.titles([j for j, _ in words]))}; leave them out "
            "with --drop, or turn them into numbers first."
        )
    values = np.column_stack(found)
    require_finite(values, plan.titles(columns))
    n_features = len(plan.features)
    return Sample(
        values[:, :n_features],
        plan.feature_names,
        _labels(frame, plan, plan.target),
        None if plan.weight is None else values[:, n_features],
        _labels(frame, plan, plan.group),
    )


def _as_numbers(column: pd.Series) -> np.ndarray | str:
    """Numbers with NaN where there are none; or one of the words in their place."""
    if column.dtype.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    there = column.dropna()
    word = next((cell for cell in there if not _is_number(cell)), None)
    if word is not None:
        return str(word).strip()
    return there.map(float).reindex(column.index).to_numpy(np.float64)


def _labels(frame: pd.DataFrame, plan: Plan, j: int | None) -> np.ndarray | None:
    if j is None:
        return None
    column = frame[j]
    if column.dtype.kind not in "biuf":
        column = column.astype(object).where(
            column.isna(), column.astype(str).str.strip()
        )
        column = column.mask(column == "")
    require_entries(column.isna().to_numpy(), f"column {plan.titles([j])[0]!r}")
    return column.to_numpy()


def _is_number(cell: Any) -> bool:
    if isinstance(cell, Real | Decimal):
        return True
    # Python reads 1_0 as ten, which no other program writes.
    if not isinstance(cell, str) or "_" in cell:
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _checked_rows(text: str, delimiter: str) -> tuple[list[str], int]:
    """First row and number of rows, all whole: pandas would fill short ones up."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    first: list[str] = []
    n_rows = 0
    try:
        for row in reader:
            if len(row) < 2 and not any(cell.strip() for cell in row):
                continue
            first = first or row
            if len(row) != len(first):
                raise TableError(
                    f"expected {len(first)} cells in every row, got {len(row)} in line "
                    f"{reader.line_num}; check its separators and quotes."
                )
            n_rows += 1
    except csv.Error as error:
        raise TableError(
            f"expected cells separated by {delimiter!r}, got a line that cannot be "
            f"read (line {reader.line_num}: {error}); correct its quotes."
        ) from error
    require_rows(n_rows)
    return [cell.strip() for cell in first], n_rows


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"expected text in UTF-8, got the byte {error.object[error.start]:#x} in "
            f"line {line}; convert the file, or name its format with --format."
        ) from error
