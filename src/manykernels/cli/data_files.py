"""Data files of every format, read by pandas, scikit-learn and NumPy."""

from __future__ import annotations

import csv
import io
import math
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.lib import format as npy
from sklearn.datasets import load_svmlight_file

from manykernels.base.disk import read_whole, require_room, unpacked
from manykernels.cli.roles import (
    ColumnPlan,
    DataRows,
    Roles,
    TableError,
    is_number,
    listed,
    readable,
    require_entries,
    require_finite,
    require_rows,
)

STDIN_NAME = "-"
GZIP_START = b"\x1f\x8b"
# Cells without a number; "NA" and "none" can be labels.
_MISSING_WORDS = ("na", "n/a", "nan", "null", "none")
MISSING_CELLS = {
    "",
    "?",
    *_MISSING_WORDS,
    *map(str.upper, _MISSING_WORDS),
    "NaN",
    "None",
    "Null",
}
MISSING_LABELS = {"", "nan", "NaN", "NAN"}
# From version 3.1 on, pandas rounds to the nearest number by default.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
EXACT_NUMBERS: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}
# A typing error in an index must not cost all the memory there is.
MOST_LIBSVM_COLUMNS = 10_000_000
FORMAT_SUFFIXES = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv"},
    **{".parquet": "parquet", ".pq": "parquet"},
    **{".libsvm": "libsvm", ".svm": "libsvm", ".svmlight": "libsvm", ".npz": "npz"},
}


@dataclass(frozen=True)
class RowSource:
    r"""A file and how to read it.

    Parameters
    ----------
    path : str
        ``"-"`` for standard input; a gzip-compressed file is unpacked.
    format : str, optional
        A key of `FORMAT_READERS`; from the file's suffix if not given, CSV for ``"-"``.
    header : bool, optional
        Whether CSV and TSV begin with the names; looked up if not given.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "small.csv"
    >>> _ = path.write_text("a,b\n1,2\n3,4\n")
    >>> RowSource(str(path)).read(Roles()).X.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """

    path: str
    format: str | None = None
    header: bool | None = None

    def read(self, roles: Roles) -> DataRows:
        """Return the rows; with labels if the roles name their column."""
        reader = FORMAT_READERS[choose_format(self.path, self.format)]
        return reader(_open(self.path), roles, self.header)

    def read_labeled(self, roles: Roles) -> DataRows:
        """Return the rows with labels, wherever the format keeps them."""
        kind = choose_format(self.path, self.format)
        if roles.target is None and kind == "npz":
            roles = replace(roles, target="y")
        if roles.target is None and not kind.startswith("libsvm"):
            raise TableError(
                "expected --target with the column of the labels, got none; give its "
                "name or position."
            )
        return self.read(roles)


def choose_format(source: str, format: str | None = None) -> str:
    """A format by name, or by the suffix of a file.

    Examples
    --------
    >>> choose_format("rows.csv.gz"), choose_format("-"), choose_format("x", "npz")
    ('csv', 'csv', 'npz')
    """
    if format is not None:
        if format not in FORMAT_READERS:
            raise TableError(
                f"expected a format among {', '.join(FORMAT_READERS)}, got {format!r}; "
                "choose one of these."
            )
        return format
    if source == STDIN_NAME:
        return "csv"
    path = Path(source)
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if suffix not in FORMAT_SUFFIXES:
        raise TableError(
            f"expected a file that ends in one of {', '.join(FORMAT_SUFFIXES)}, got "
            f"{path.name!r}; name its format with --format."
        )
    return FORMAT_SUFFIXES[suffix]


def _open(source: str) -> BinaryIO:
    """The whole file in memory, unpacked: every reader may then seek."""
    if source == STDIN_NAME:
        content = read_whole(sys.stdin.buffer, "a data file")
    else:
        with open(source, "rb") as stream:
            content = read_whole(stream, "a data file")
    if content.startswith(GZIP_START):
        with readable("a whole gzip file", "copy the original again"):
            content = unpacked(content, "an unpacked data file")
    return io.BytesIO(content)


def read_delimited(
    stream: BinaryIO, roles: Roles, delimiter: str = ",", header: bool | None = None
) -> DataRows:
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
    # pandas fills short rows up and guesses in other places, so rows are checked first.
    text = _decoded(stream.read())
    first, n_rows = _checked_rows(text, delimiter)
    if header is None:
        header = is_header(first, roles.wanted_names())
    plan = roles.plan(first if header else None, len(first))
    try:
        frame = _read_csv(text, plan, delimiter, header, len(first), float)
    except ValueError:
        # A column has words. Read as text, `_from_frame` can name it with a cell.
        frame = _read_csv(text, plan, delimiter, header, len(first), str)
    # Both parsers must agree, else a quote or a line end means something else to each.
    if len(frame) != n_rows - header:
        raise TableError(
            f"expected {n_rows - header} rows, got {len(frame)}; check the file for "
            "odd line ends and quotes."
        )
    return _from_frame(frame, plan)


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"expected text in UTF-8, got the byte {error.object[error.start]:#x} in "
            f"line {line}; convert the file, or name its format with --format."
        ) from error


def _checked_rows(text: str, delimiter: str) -> tuple[list[str], int]:
    """First row and number of rows; raise if one is short, for pandas would fill it."""
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


def is_header(cells: Sequence[str], wanted: set[str]) -> bool:
    """Whether the first line names the columns.

    Examples
    --------
    >>> is_header(["5.1", "setosa"], set()), is_header(["5.1", "kind"], {"kind"})
    (False, True)
    >>> is_header(["0", "1", "2"], set()), is_header(["", "a", "b"], set())
    (True, True)
    """
    if wanted & set(cells):
        return True
    if len(cells) > 1 and list(cells) == [str(j) for j in range(len(cells))]:
        return True
    if len(cells) > 1 and not cells[0].strip():  # the corner above names of rows
        cells = cells[1:]
    return not any(is_number(cell) or cell in MISSING_CELLS for cell in cells)


def _read_csv(
    text: str, plan: ColumnPlan, delimiter: str, header: bool, width: int, numbers: type
) -> pd.DataFrame:
    """The planned columns by position: labels are text, the others `numbers`."""
    labels = plan.labels
    places = [j for j in plan.places.values() if j is not None]
    used = sorted({*plan.features, *places})
    return pd.read_csv(
        io.StringIO(text),
        sep=delimiter,
        header=0 if header else None,
        names=list(range(width)),
        usecols=used,
        dtype={j: str if j in labels else numbers for j in used},
        na_values={j: MISSING_LABELS if j in labels else MISSING_CELLS for j in used},
        keep_default_na=False,
        skipinitialspace=True,
        low_memory=False,
        **EXACT_NUMBERS,
    )


def read_parquet(stream: BinaryIO, roles: Roles) -> DataRows:
    """Read a table as pandas or R wrote it."""
    with readable("a whole Parquet file"):
        # One thread: a broken file must fail alike every time.
        frame = pd.read_parquet(stream, engine="pyarrow", use_threads=False)
    frame = _with_index(frame, roles)
    # Roles are found by position: names may be numbers, and positions are unique.
    names = [str(name) for name in frame.columns]
    frame.columns = pd.RangeIndex(len(names))
    return _from_frame(frame, roles.plan(names, len(names)))


def _with_index(frame: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Make columns of the names of rows that are wanted; pandas keeps them apart."""
    unnamed = frame.index.name is None and not isinstance(frame.index, pd.RangeIndex)
    if unnamed and roles.index not in frame.columns:
        frame = frame.rename_axis(index=roles.index)
    return frame.reset_index(
        [n for n in frame.index.names if n in roles.wanted_names()]
    )


def _from_frame(frame: pd.DataFrame, plan: ColumnPlan) -> DataRows:
    """The planned columns; raise if a feature is not finite or a label is missing."""
    require_rows(len(frame))
    weight = plan.places["weight"]
    columns = [*plan.features, *([] if weight is None else [weight])]
    found = [_as_numbers(frame[j]) for j in columns]
    words = {j: v for j, v in zip(columns, found, strict=True) if isinstance(v, str)}
    if words and plan.lenient and weight not in words:
        # Kernels decide which columns must be numbers.
        pairs = zip(columns, found, strict=True)
        found = [frame[j].to_numpy(object) if j in words else v for j, v in pairs]
    elif words:
        raise TableError(
            f"expected numbers to learn from, got text such as "
            f"{next(iter(words.values()))[:40]!r} in the columns "
            f"{listed(plan.titles(list(words)))}; leave them out with --drop, or turn "
            "them into numbers first."
        )
    values = np.column_stack(found) if found else np.empty((len(frame), 0))
    if not plan.lenient:
        require_finite(values, plan.titles(columns))
    cells = {
        role: _labels(frame, plan, j)
        for role, j in plan.places.items()
        if role != "weight"
    }
    if weight is not None:
        cells["weight"] = np.asarray(found[-1], dtype=np.float64)
    X = values[:, : len(plan.features)]
    return DataRows(X, plan.feature_names, y=cells.pop("target"), **cells)


def _as_numbers(column: pd.Series) -> np.ndarray | str:
    """Numbers, NaN in empty cells; or a cell that is no number."""
    if column.dtype.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    filled = column.dropna()
    word = next((cell for cell in filled if not is_number(cell)), None)
    if word is not None:
        return str(word).strip()
    return filled.map(float).reindex(column.index).to_numpy(np.float64)


def _labels(frame: pd.DataFrame, plan: ColumnPlan, j: int | None) -> np.ndarray | None:
    if j is None:
        return None
    column = frame[j]
    if column.dtype.kind not in "biuf":
        text = column.astype(str).str.strip()
        column = column.astype(object).where(column.isna(), text)
        column = column.mask(column == "")
    require_entries(column.isna().to_numpy(), f"column {plan.titles([j])[0]!r}")
    return column.to_numpy()


def read_libsvm(stream: BinaryIO, roles: Roles, zero_based: bool = False) -> DataRows:
    r"""Read sparse rows; indices count from 1 unless `zero_based`.

    Examples
    --------
    >>> import io
    >>> sample = read_libsvm(io.BytesIO(b"1 1:0.5 3:2\n-1 2:1\n"), Roles())
    >>> sample.X.toarray().tolist(), sample.y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    for role, name in (roles.columns | {"drop": ", ".join(roles.drop)}).items():
        if name:
            raise TableError(
                f"expected no --{roles.option(role)} for a LIBSVM file, which has no "
                f"column names, got {name!r}; leave it out."
            )
    action = "correct it, or if its indices count from 0, read it with --format libsvm0"
    with readable("LIBSVM rows such as '1 3:0.5 7:2'", action):
        X, y = load_svmlight_file(stream, zero_based=zero_based)
    require_rows(X.shape[0])
    most = MOST_LIBSVM_COLUMNS if roles.n_features is None else roles.n_features
    if X.shape[1] > most:
        raise TableError(
            f"expected indices up to {most}, got {X.shape[1]}; check for a typing "
            "error, and leave out columns that training did not have."
        )
    # Rows to predict may end before the last column that training had.
    width = roles.n_features or X.shape[1]
    X = sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], width))
    require_finite(X, None)
    require_entries(~np.isfinite(y), "the labels")
    return DataRows(X, None, y)


def read_npz(stream: BinaryIO, roles: Roles) -> DataRows:
    """Read X, or a stack of kernels, and what belongs to the rows.

    The arrays are `X` (n, d) with optional `names`, or `kernels` (n, n_train, F); `y`
    and others are found under the names of their roles.
    """
    roles.require_apart(roles.columns)
    with readable("a whole NPZ file"), zipfile.ZipFile(stream) as archive:
        names = archive.namelist()
        given = "kernels.npy" in names and "X.npy" not in names
        X = _read_array(archive, "kernels" if given else "X", 3 if given else 2, "biuf")
        require_rows(len(X))
        cells = {
            role: _read_array(
                archive, name, 1, "biuf" if role == "weight" else "biufU", len(X)
            )
            for role, name in roles.columns.items()
            if name is not None
        }
        y = cells.pop("target", None)
        if given:
            roles.require_count(X.shape[1])
            return DataRows(X, None, y, **cells)
        titles = None
        if "names.npy" in names:
            titles = _read_array(archive, "names", 1, "U", X.shape[1]).tolist()
    # Roles name arrays here, so they take no column away.
    no_columns: dict[str, Any] = dict.fromkeys(roles.columns)
    plan = replace(roles, **no_columns).plan(titles, X.shape[1])
    X = X if len(plan.features) == X.shape[1] else X[:, plan.features]
    if not plan.lenient:
        require_finite(X, plan.feature_names)
    return DataRows(X, plan.feature_names, y, **cells)


def _read_array(
    archive: zipfile.ZipFile,
    name: str,
    n_dims: int,
    kinds: str,
    length: int | None = None,
) -> np.ndarray:
    """One array, read if its size fits to its bytes and to the free memory."""
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
    require_room(n_bytes, f"an array {name!r}")
    if dtype.kind not in kinds:
        wanted = "numbers or text" if "U" in kinds else "numbers"
        raise TableError(
            f"expected {wanted} in the array {name!r}, got {dtype.type.__name__}; "
            "convert it before saving."
        )
    with archive.open(entry) as stream:
        values = np.asarray(npy.read_array(stream, allow_pickle=False))
    letters = np.dtype(np.uint32).newbyteorder(dtype.byteorder)
    if dtype.kind == "U" and (values.view(letters) > sys.maxunicode).any():
        raise TableError(
            f"expected text in the array {name!r}, got bytes that are no letters; save "
            "it again."
        )
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        values = values.astype(np.float64)  # halves and quadruples serve no kernel
    if length is not None and dtype.kind == "f":
        require_entries(~np.isfinite(values), f"the array {name!r}")
    return values


FORMAT_READERS: dict[str, Callable[[BinaryIO, Roles, bool | None], DataRows]] = {
    "csv": lambda stream, roles, header: read_delimited(stream, roles, ",", header),
    "tsv": lambda stream, roles, header: read_delimited(stream, roles, "\t", header),
    "parquet": lambda stream, roles, header: read_parquet(stream, roles),
    "libsvm": lambda stream, roles, header: read_libsvm(stream, roles),
    "libsvm0": lambda stream, roles, header: read_libsvm(stream, roles, True),
    "npz": lambda stream, roles, header: read_npz(stream, roles),
}
