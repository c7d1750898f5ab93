"""Kernels written in a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from manykernels.cli.roles import TableError, readable
from manykernels.kernels import Kernel
from manykernels.kernels.grammar import as_kernels, parse_kernel

TEXTS, TABLES = "kernels", "kernel"


def choose_kernels(text: str | None) -> list[Kernel] | None:
    """Kernels from the grammar or from a file that ends in .toml."""
    if text is None:
        return None
    return read_kernels(text) if text.endswith(".toml") else as_kernels(text)


def read_kernels(path: str) -> list[Kernel]:
    """The kernels of a file: texts in `kernels`, tables in `[[kernel]]`."""
    content = Path(path).read_bytes()
    with readable(f"TOML in {path!r}", "correct it there"):
        text = content.decode()
    return parse_kernels(text, path)


def parse_kernels(text: str, path: str = "kernels.toml") -> list[Kernel]:
    r"""The kernels that a TOML text describes.

    Examples
    --------
    >>> parse_kernels('kernels = ["linear@0-1"]')
    [Linear(columns=(0, 1))]
    >>> parse_kernels('[[kernel]]\nkind = "rbf"\ngamma = 0.5\ncolumns = "pixel*"')
    [RBF(gamma=0.5, columns='pixel*')]
    """
    with readable(f"TOML in {path!r}", "correct it there"):
        content = tomllib.loads(text)
    odd = sorted(set(content) - {TEXTS, TABLES})
    if odd or not content:
        raise TableError(
            f"expected 'kernels = [...]' or [[kernel]] tables in {path!r}, got "
            f"{', '.join(map(repr, odd)) or 'nothing'}; see the page on the command "
            "line."
        )
    texts, tables = content.get(TEXTS, []), content.get(TABLES, [])
    if not _list_of(str, texts) or not _list_of(dict, tables):
        raise TableError(
            f"expected a list of texts in 'kernels' and [[kernel]] tables in {path!r}, "
            "got other types; see the page on the command line."
        )
    return [*(as_kernels(texts) if texts else []), *map(_from_table, tables)]


def _from_table(table: dict[str, Any]) -> Kernel:
    """One kernel, held to the rules of the text grammar."""
    # TOML has no word for nothing.
    settings: dict[str, Any] = {
        key: None if value == "none" else value for key, value in table.items()
    }
    kind, columns = settings.pop("kind", None), settings.pop("columns", None)
    if not isinstance(kind, str):
        raise TableError(
            f'expected kind = "rbf" or another kernel in every [[kernel]], got '
            f"{kind!r}; name one."
        )
    plain = parse_kernel(kind)  # the grammar knows all kinds and spellings
    if plain.settings():
        raise TableError(
            f"expected the kind alone in a [[kernel]], got {kind!r}; give settings and "
            "columns lines of their own."
        )
    cls = type(plain)
    known = [field.name for field in fields(cls)]
    odd = sorted(set(settings) - set(known))
    if odd:
        raise TableError(
            f"expected settings of {cls.kind} among {', '.join(known)}, got "
            f"{', '.join(map(repr, odd))}; choose among these."
        )
    return cls(**settings, columns=_columns(columns))


def _columns(columns: Any) -> Any:
    """Columns as in the grammar if text, else a list of names and positions."""
    if isinstance(columns, str):
        return parse_kernel(f"linear@{columns}").columns
    if columns is None or isinstance(columns, int | list):
        return columns
    raise TableError(
        "expected columns as text, a number or a list of names and numbers, got "
        f'{columns!r}; write for instance "pixel*" or [0, 1].'
    )


def _list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)
