"""Data files of every format, read into rows, labels and names."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from manykernels.cli.readers.arrays import read_libsvm, read_npz
from manykernels.cli.readers.columns import Roles, Sample, TableError
from manykernels.cli.readers.frames import read_delimited, read_parquet

STDIN = "-"
GZIP = b"\x1f\x8b"

Reader = Callable[[BinaryIO, Roles, bool | None], Sample]

READERS: dict[str, Reader] = {
    "csv": lambda stream, roles, header: read_delimited(stream, roles, ",", header),
    "tsv": lambda stream, roles, header: read_delimited(stream, roles, "\t", header),
    "parquet": lambda stream, roles, header: read_parquet(stream, roles),
    "libsvm": lambda stream, roles, header: read_libsvm(stream, roles),
    "libsvm0": lambda stream, roles, header: read_libsvm(stream, roles, True),
    "npz": lambda stream, roles, header: read_npz(stream, roles),
}
# Where the labels are unless the user says so; LIBSVM rows begin with theirs.
TARGETS = {"npz": "y"}
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".npz": "npz",
}


def read_sample(
    source: str,
    roles: Roles | None = None,
    format: str | None = None,
    header: bool | None = None,
) -> Sample:
    r"""Rows of a file, or of standard input for ``"-"``.

    Parameters
    ----------
    source : str
        Path; a gzip-compressed file is unpacked.
    roles : Roles, optional
        Which column is what; all are features if not given.
    format : str, optional
        A key of `READERS`; from the file's suffix if not given, CSV for ``"-"``.
    header : bool, optional
        Whether CSV and TSV begin with the names; looked up if not given.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "small.csv"
    >>> _ = path.write_text("a,b\n1,2\n3,4\n")
    >>> read_sample(str(path)).X.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    reader = READERS[choose_format(source, format)]
    return reader(_open(source), roles or Roles(), header)


def choose_format(source: str, format: str | None = None) -> str:
    """A format by name, or by the suffix of a file.

    Examples
    --------
    >>> choose_format("rows.csv.gz"), choose_format("-"), choose_format("x", "npz")
    ('csv', 'csv', 'npz')
    """
    if format is not None:
        if format not in READERS:
            raise TableError(
                f"expected a format among {', '.join(READERS)}, got {format!r}; choose "
                "one of these."
            )
        return format
    if source == STDIN:
        return "csv"
    path = Path(source)
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if suffix not in SUFFIXES:
        raise TableError(
            f"expected a file that ends in one of {', '.join(SUFFIXES)}, got "
            f"{path.name!r}; name its format with --format."
        )
    return SUFFIXES[suffix]


def _open(source: str) -> BinaryIO:
    """The whole file in memory, unpacked: every reader may then seek."""
    if source == STDIN:
        content = sys.stdin.buffer.read()
    else:
        content = Path(source).read_bytes()
    if not content.startswith(GZIP):
        return io.BytesIO(content)
    try:
        return io.BytesIO(gzip.decompress(content))
    except Exception as error:  # EOFError, zlib.error, BadGzipFile
        raise TableError(
            f"expected a whole gzip file, got one that ends or changes within "
            f"({error}); copy the original again."
        ) from error
