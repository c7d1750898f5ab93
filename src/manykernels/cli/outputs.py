"""Where results go: checked before the work, written in one piece."""

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
from manykernels.files import load

STDOUT = "-"
PICTURE_FORMATS = (".pdf", ".png", ".svg")
TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": ","}


def check_output(option: str, path: str | Path | None) -> None:
    """Refuse a place that cannot be written to, before anything is computed."""
    if path is None or str(path) == STDOUT:
        return
    place = Path(path)
    if not place.parent.is_dir():
        fail(f"{option} must lie in an existing folder, got '{path}'; create it")
    if place.is_dir():
        fail(f"{option} must be writable, got the folder '{path}'; name a file in it")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        fail(f"{option} must be writable, got '{path}'; change its permissions")


def require_own_files(read: dict[str, Any], written: dict[str, Any]) -> None:
    """Refuse to write to a file that is read, or to one file for two purposes.

    Both name files by the words of the command line that they belong to.
    """
    known: dict[str, str] = {}
    for words, path in (*read.items(), *written.items()):
        if path is None or str(path) == STDOUT:
            continue
        place = os.path.realpath(path)
        if words in written and place in known:
            fail(
                f"{words} must be a file of its own, got '{path}', which is that of "
                f"{known[place]}; choose another name"
            )
        known.setdefault(place, words)


def check_survival(
    survival: bool, target: str | None, time: str | None, event: str | None
) -> str | None:
    """The column of the target; times need two options, and others have none."""
    if not survival and (time or event):
        fail(
            f"expected --target, got --{'time' if time else 'event'}, which is for "
            "times until an event; learn these with --survival"
        )
    if survival and (target or not time or not event):
        got = "--target" if target else "--time alone" if time else "--event alone"
        got = got if target or time or event else "neither"
        fail(f"expected --time and --event for survival, got {got}; name both columns")
    return time if survival else target


def require_one_stdin(*sources: str | None) -> None:
    """Refuse to read two files from standard input."""
    if sources.count(STDOUT) > 1:  # both have the same name
        fail("expected at most one file from standard input, got two; name the other")


def check_learning(
    data: str | None, train: str | None, model: Path, out: str, purpose: str
) -> None:
    """Refuse what cannot work before anything is read; `purpose`: what DATA is for."""
    if data is None and train is None:
        fail(f"expected a file to {purpose}, or --train, got neither; name one")
    require_one_stdin(data, train)
    check_output("--out", out)
    read: dict[str, Any] = {"DATA": data, "--train": train}
    if train is None:
        require_own_files({**read, "--model": model}, {"--out": out})
    else:
        check_output("--model", model)
        require_own_files(read, {"--model": model, "--out": out})


def load_as(kind: str, name: str, path: Path) -> Any:
    """The model in a file, which must read files of this kind."""
    model = load(path)
    if model.input_kind != kind:
        fail(
            f"expected the file of a {name}, got one of {type(model).__name__}; learn "
            f"a {name} with --train"
        )
    return model


def tell(
    content: dict[str, Any],
    as_json: bool,
    lines: Callable[[dict[str, Any]], Iterable[str]],
) -> None:
    """Lines for people, or JSON for machines, on standard output."""
    if as_json:
        print_json(content)
        return
    for line in lines(content):
        show(line)


def check_picture(option: str, path: Path | None) -> None:
    """Refuse a picture that cannot be drawn, before anything is computed."""
    if path is not None and path.suffix.lower() not in PICTURE_FORMATS:
        fail(
            f"{option} must end in one of {', '.join(PICTURE_FORMATS)}, got "
            f"'{path.name}'; rename it"
        )
    check_output(option, path)


def check_table(option: str, path: str) -> None:
    """Refuse a table that is neither CSV nor TSV, before anything is computed."""
    if path != STDOUT and Path(path).suffix.lower() not in TABLE_DELIMITERS:
        fail(
            f"{option} must be - or end in one of {', '.join(TABLE_DELIMITERS)}, got "
            f"'{Path(path).name}'; rename it"
        )
    check_output(option, path)


def write_table(
    path: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """CSV with a header, or TSV if the name says so."""
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
    """JSON that every reader accepts: no NaN, no NumPy.

    Examples
    --------
    >>> print(as_json({"gap": np.float64("inf"), "rows": np.int64(3)}))
    {
      "gap": null,
      "rows": 3
    }
    """
    return json.dumps(_plain(content), indent=2, allow_nan=False)


class Shown(io.TextIOBase):
    """A terminal that shows what it is told, and obeys nothing."""

    def write(self, text: str) -> int:
        """Lines and cells stay apart."""
        parts = re.split(r"([\n\t])", text)
        return sys.stdout.write(
            "".join(p if p in "\n\t" else printable(p) for p in parts)
        )


@contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """A file to write text to; data for a pipe or a file stay as they are."""
    if path == STDOUT:
        yield Shown() if sys.stdout.isatty() else sys.stdout  # type: ignore[misc]
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
