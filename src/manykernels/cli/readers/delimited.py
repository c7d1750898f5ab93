"""CSV and TSV: a header where there is one, numbers, and labels as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO

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

# Cells turned into numbers at a time: text takes ten times the memory of a number.
CHUNK_CELLS = 500_000
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})


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
    rows = _rows(stream, delimiter)
    first = next(rows, [])
    require_rows(len(first))
    cells = [cell.strip() for cell in first]
    if header is None:
        header = is_header(cells, roles.asked())
    plan = roles.plan(cells if header else None, len(cells))
    columns = Columns(plan, len(cells))
    columns.read(rows if header else chain([first], rows))
    return columns.sample()


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
    return not any(_number(cell) is not None or _missing(cell) for cell in cells)


class Columns:
    """Collects the planned columns of a table, a chunk of rows at a time."""

    def __init__(self, plan: Plan, width: int) -> None:
        self.plan = plan
        self.width = width
        self.numeric = [*plan.features, *([] if plan.weight is None else [plan.weight])]
        self.kept = [j for j in (plan.target, plan.group) if j is not None]
        self.chunks: list[np.ndarray] = []
        self.text: dict[int, list[str]] = {j: [] for j in self.kept}
        self.words: dict[int, str] = {}  # columns that hold no numbers: an example
        self.n_rows = 0

    def read(self, rows: Iterator[list[str]]) -> None:
        """Take in all rows."""
        size = max(1, CHUNK_CELLS // max(1, self.width))
        while chunk := list(islice(rows, size)):
            for i, row in enumerate(chunk):
                if len(row) != self.width:
                    raise TableError(
                        f"expected {self.width} cells in every row, got {len(row)} in "
                        f"row {self.n_rows + i + 1}; check its separators and quotes."
                    )
            self.chunks.append(self._numbers(chunk))
            for j, cells in self.text.items():
                cells.extend(row[j].strip() for row in chunk)
            self.n_rows += len(chunk)

    def sample(self) -> Sample:
        """The rows, if all features are finite numbers and all labels are there."""
        require_rows(self.n_rows)
        self._require_numbers()
        plan, values = self.plan, np.concatenate(self.chunks)
        require_finite(values, plan.titles(self.numeric))
        for j in self.kept:
            self._require_labels(j)
        n_features = len(plan.features)
        return Sample(
            values[:, :n_features],
            plan.feature_names,
            self._kept(plan.target),
            None if plan.weight is None else values[:, n_features],
            self._kept(plan.group),
        )

    def _numbers(self, chunk: list[list[str]]) -> np.ndarray:
        cells = [row[j] for row in chunk for j in self.numeric]
        shape = (len(chunk), len(self.numeric))
        # Python reads 1_0 as ten, which no other program writes.
        if not self.words and "_" not in "".join(cells):
            try:
                return np.fromiter(map(float, cells), float, len(cells)).reshape(shape)
            except ValueError:
                pass
        return self._some_numbers(cells, shape)

    def _some_numbers(self, cells: list[str], shape: tuple[int, int]) -> np.ndarray:
        """Numbers where there are any; columns with words are noted."""
        values = np.full(len(cells), np.nan)
        for place, cell in enumerate(cells):
            number = _number(cell)
            if number is not None:
                values[place] = number
            elif not _missing(cell):
                self.words.setdefault(self.numeric[place % shape[1]], cell.strip())
        return values.reshape(shape)

    def _require_numbers(self) -> None:
        if not self.words:
            return
        columns = sorted(self.words)
        raise TableError(
            f"expected numbers to learn from, got text such as "
            f"{self.words[columns[0]][:40]!r} in the columns "
            f"{listed(self.plan.titles(columns))}; leave them out with --drop, or turn "
            "them into numbers first."
        )

    def _require_labels(self, column: int) -> None:
        for i, cell in enumerate(self.text[column]):
            if cell.lower() in ("", "nan"):
                raise TableError(
                    f"expected an entry in every row of column "
                    f"{self.plan.title(column)}, got none in row {i + 1}; fill it in "
                    "or leave the row out."
                )

    def _kept(self, column: int | None) -> np.ndarray | None:
        if column is None:
            return None
        return np.array(self.text[column], dtype=object)


def _rows(stream: BinaryIO, delimiter: str) -> Iterator[list[str]]:
    """The rows of a text table, blank lines left out."""
    text = io.StringIO(_decoded(stream.read()), newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise TableError(
                f"expected cells separated by {delimiter!r}, got a line that cannot be "
                f"read (line {reader.line_num}: {error}); correct its quotes."
            ) from error
        if row is None:
            return
        if len(row) > 1 or any(cell.strip() for cell in row):
            yield row


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"expected text in UTF-8, got the byte {error.object[error.start]:#x} in "
            f"line {line}; convert the file, or name its format with --format."
        ) from error


def _number(cell: str) -> float | None:
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING
