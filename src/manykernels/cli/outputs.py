"""Output files: checked before anything is computed, then written."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import typer

from manykernels.cli.errors import fail, printable, show

STDOUT = "-"
PICTURE_FORMATS = (".pdf", ".png", ".svg")
TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": ","}


def check_files(read: dict[str, Any], written: dict[str, Any]) -> None:
    """Refuse files that cannot be written, or that have two purposes.

    Both name files by the words of the command line that they belong to.
    """
    for words, path in written.items():
        _check_writable(words, path)
    used: dict[str, str] = {}
    for words, path in (*read.items(), *written.items()):
        if path is None or str(path) == STDOUT:
            continue
        place = os.path.realpath(path)  # links and "./" may hide that two are one
        if words in written and place in used:
            fail(
                f"{words} must be a file of its own, got '{path}', which is that of "
                f"{used[place]}; choose another name"
            )
        used.setdefault(place, words)
    if list(read.values()).count(STDOUT) > 1:  # both have the same name
        fail("expected at most one file from standard input, got two; name the other")


def _check_writable(words: str, path: str | Path | None) -> None:
    if path is None or str(path) == STDOUT:
        return
    place = Path(path)
    if not place.parent.is_dir():
        fail(f"{words} must lie in an existing folder, got '{path}'; create it")
    if place.is_dir():
        fail(f"{words} must be writable, got the folder '{path}'; name a file in it")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        fail(f"{words} must be writable, got '{path}'; change its permissions")


def check_suffix(
    words: str, path: str | Path | None, suffixes: Iterable[str], wanted: str
) -> None:
    """Refuse a file whose name promises another format than those that are written."""
    if path is None or str(path) == STDOUT or Path(path).suffix.lower() in suffixes:
        return
    fail(f"{words} must {wanted}, got '{Path(path).name}'; rename it")


def print_results(
    content: dict[str, Any],
    as_json: bool,
    lines: Callable[[dict[str, Any]], Iterable[str]],
) -> None:
    """Print text, or JSON if that was asked for, on standard output."""
    if as_json:
        print_json(content)
        return
    for line in lines(content):
        show(line)


def check_picture(words: str, path: Path | None) -> None:
    """Refuse a picture that cannot be drawn, before anything is computed."""
    wanted = f"end in one of {', '.join(PICTURE_FORMATS)}"
    check_suffix(words, path, PICTURE_FORMATS, wanted)
    check_files({}, {words: path})


def write_table(
    path: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Write a table with a header as CSV, or as TSV by the name of the file."""
    delimiter = TABLE_DELIMITERS.get(Path(path).suffix.lower(), ",")
    with opened(path) as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_json(path: str | Path, content: Any) -> None:
    """One JSON object in a file."""
    with opened(str(path)) as stream:
        stream.write(as_json(content) + "\n")


def print_json(content: Any) -> None:
    """One JSON object on standard output."""
    typer.echo(as_json(content))


def as_json(content: Any) -> str:
    """JSON that every reader accepts: without NaN and NumPy's types.

    Examples
    --------
    >>> print(as_json({"gap": np.float64("inf"), "rows": np.int64(3)}))
    {
      "gap": null,
      "rows": 3
    }
    """
    # JSON has no NaN and no infinity: they become null.
    return json.dumps(_plain(content), indent=2, allow_nan=False)


class TerminalWriter(io.TextIOBase):
    """A terminal that shows control characters instead of executing them."""

    def write(self, text: str) -> int:
        parts = re.split(r"([\n\t])", text)
        return sys.stdout.write(
            "".join(p if p in "\n\t" else printable(p) for p in parts)
        )


@contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """Open a file for text; what goes to a pipe or a file is not changed."""
    if path == STDOUT:
        yield TerminalWriter() if sys.stdout.isatty() else sys.stdout  # type: ignore[misc]
        return
    with open(path, "w", encoding="utf-8", newline="") as stream:
        yield stream


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
