"""Text files of sequences: a token per line, columns apart, an empty line between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TokenLines:
    """Columns of every token of every sequence, as text."""

    sequences: list[list[list[str]]]

    @property
    def n_columns(self) -> int:
        """Columns of every line."""
        return len(self.sequences[0][0]) if self.sequences else 0

    def without(self, column: int) -> TokenLines:
        """The same without one column."""
        return TokenLines(
            [[line[:column] + line[column + 1 :] for line in s] for s in self.sequences]
        )

    def column(self, column: int) -> list[list[str]]:
        """One column of every sequence."""
        return [[line[column] for line in sequence] for sequence in self.sequences]


def parse_token_lines(text: str, name: str = "the file") -> TokenLines:
    r"""Read columns separated by tabs, or by blanks where a line has no tab.

    Lines that begin with "# " are comments.

    Examples
    --------
    >>> parse_token_lines("the DET\ncat NOUN\n\nit PRON\n").sequences
    [[['the', 'DET'], ['cat', 'NOUN']], [['it', 'PRON']]]
    """
    sequences = [s for s in _sequences(text, name) if s]
    if not sequences:
        raise ValueError(
            f"expected at least one token in {name}, got none; write a token per line."
        )
    return TokenLines(sequences)


def _sequences(text: str, name: str) -> Iterator[list[list[str]]]:
    current: list[list[str]] = []
    width: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            yield current
            current = []
            continue
        if line.startswith("# "):
            continue
        columns = line.split("\t") if "\t" in line else line.split()
        width = len(columns) if width is None else width
        if len(columns) != width:
            raise ValueError(
                f"expected {width} columns in every line of {name}, got {len(columns)} "
                f"in line {number}; separate them by tabs."
            )
        current.append(columns)
    yield current


def as_arrays(lines: TokenLines) -> list[np.ndarray] | None:
    """Numbers as one array per sequence; None where any column is text.

    Examples
    --------
    >>> as_arrays(TokenLines([[["1", "2.5"]]]))
    [array([[1. , 2.5]])]
    >>> as_arrays(TokenLines([[["1", "b"]]])) is None
    True
    """
    try:
        return [np.array(s, dtype=np.float64) for s in lines.sequences]
    except ValueError:
        return None


def as_tokens(lines: TokenLines) -> list[list[dict[str, str]]]:
    """Token dicts: every column under its number, as text.

    Examples
    --------
    >>> as_tokens(TokenLines([[["a", "x"], ["b", "y"]]]))
    [[{'0': 'a', '1': 'x'}, {'0': 'b', '1': 'y'}]]
    """
    return [
        [{str(column): v for column, v in enumerate(line)} for line in sequence]
        for sequence in lines.sequences
    ]
