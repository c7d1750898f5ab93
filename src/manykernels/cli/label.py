"""``manykernels label``: labels for the tokens of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.cli.errors import fail
from manykernels.cli.file_kinds import LearnedFileKind
from manykernels.cli.kernel_files import choose_kernels
from manykernels.cli.options import Given, chosen, command
from manykernels.cli.outputs import STDOUT, opened
from manykernels.cli.progress import learn_and_save
from manykernels.structured import (
    SequenceLabeler,
    are_chunks,
    chunk_report,
    label_report,
    sequence_accuracy,
    token_accuracy,
)
from manykernels.structured.sequence_scores import SequenceReport


@command(
    "model data train out score window kernels regularizer loss C epochs seed as_json "
    "verbose"
)
def label(given: Given) -> None:
    """Learn to label sequences, or label the tokens in a file.

    manykernels label --train train.txt --model tagger.mk

    manykernels label new.txt --model tagger.mk --out labeled.txt
    """
    if given.window < 0:
        fail(f"--window must be 0 or more, got {given.window}; try 1")
    TokenFiles().run(given)


class TokenFiles(LearnedFileKind):
    """Files of tokens in columns, and models of sequences."""

    input_kind, model_name, purpose = "sequences", "labeler", "label"

    def learn(self, given: Given) -> SequenceLabeler:
        settings = chosen(
            regularizer=given.regularizer,
            loss=given.loss,
            C=given.C,
            max_iter=given.epochs,
            random_state=given.seed,
        )
        labeler = SequenceLabeler(choose_kernels(given.kernels), **settings)
        lines = read_tokens(given.train)
        if lines.n_columns < 2:
            fail(
                "expected labels in the last column of --train and at least one column "
                "before it, got one column; separate them by tabs"
            )
        features, labels = lines.split(lines.n_columns - 1)
        # Columns of numbers are features for kernels; one text makes all of them words.
        X: Any = features.as_arrays()
        if X is None:
            X = features.as_tokens()
            labeler.window = given.window
        y = [np.array(names) for names in labels]
        return learn_and_save(labeler, given.model, given.verbose, X, y)

    def predict(self, model: SequenceLabeler, given: Given) -> None:
        """Write the tokens with their labels in a column after the others."""
        lines = read_tokens(given.data)
        labels = model.predict(_inputs(model, lines))
        parts = []
        for sequence, found in zip(lines.sequences, labels, strict=True):
            rows = zip(sequence, found.tolist(), strict=True)
            parts.append("".join("\t".join([*line, str(y)]) + "\n" for line, y in rows))
        with opened(given.out) as stream:
            stream.write("\n".join(parts))

    def evaluate(self, model: SequenceLabeler, given: Given) -> dict[str, Any]:
        """Shares of right tokens and sequences; F1 of chunks, or figures per label."""
        lines = read_tokens(given.data)
        n_columns = _columns_of(model)
        if lines.n_columns != n_columns + 1:
            fail(
                f"expected labels after the {n_columns} columns of training, got "
                f"{lines.n_columns} columns; add them"
            )
        # Labels of the file are text, those of the model may be numbers.
        kind = model.classes_.dtype.type
        y = [np.array(names).astype(kind) for names in lines.split(n_columns)[1]]
        found = model.predict(_inputs(model, lines))
        figures: dict[str, Any] = {
            "tokens": token_accuracy(y, found),
            "sequences": sequence_accuracy(y, found),
        }
        if not are_chunks([*model.classes_.tolist(), *np.concatenate(y).tolist()]):
            return {**figures, "labels": _table(label_report(y, found))}
        report = chunk_report(y, found)
        return {**figures, "chunk_f1": report.total.f1, "chunks": _table(report)}


def _table(report: SequenceReport) -> list[dict[str, Any]]:
    figures = ("true", "found", "precision", "recall", "f1")
    return [
        {"type": name, **{figure: getattr(counts, figure) for figure in figures}}
        for name, counts in report.by_type.items()
    ]


def _inputs(labeler: SequenceLabeler, lines: TokenLines) -> Any:
    """Tokens as in training, with or without a column of labels at the end."""
    n_columns = _columns_of(labeler)
    if lines.n_columns == n_columns + 1:
        lines, _ = lines.split(n_columns)
    if lines.n_columns != n_columns:
        fail(
            f"expected lines with {n_columns} columns as in training, and labels after "
            f"them or not, got {lines.n_columns}; pass the same columns"
        )
    if hasattr(labeler, "token_attributes_"):
        return lines.as_tokens()
    arrays = lines.as_arrays()
    if arrays is None:
        fail("expected columns of numbers as in training, got text; check the file")
    return arrays


def _columns_of(labeler: SequenceLabeler) -> int:
    """Number of columns of a line without the labels."""
    attributes = getattr(labeler, "token_attributes_", None)
    if attributes is None:
        return int(labeler.n_features_in_)
    if set(attributes) != {str(column) for column in range(len(attributes))}:
        fail(
            "expected a labeler that 'manykernels label --train' wrote, got one with "
            f"tokens of {', '.join(attributes[:3])}, ...; label its tokens in Python"
        )
    return len(attributes)


@dataclass(frozen=True)
class TokenLines:
    """Columns of every token of every sequence, as text."""

    sequences: list[list[list[str]]]

    @property
    def n_columns(self) -> int:
        return len(self.sequences[0][0]) if self.sequences else 0

    def split(self, column: int) -> tuple[TokenLines, list[list[str]]]:
        """Return the columns before one, and that one of every sequence."""
        before = [[line[:column] for line in s] for s in self.sequences]
        return TokenLines(before), [
            [line[column] for line in s] for s in self.sequences
        ]

    def as_arrays(self) -> list[np.ndarray] | None:
        """Numbers as one array per sequence; None if any column is text.

        Examples
        --------
        >>> TokenLines([[["1", "2.5"]]]).as_arrays()
        [array([[1. , 2.5]])]
        """
        try:
            return [np.array(s, dtype=np.float64) for s in self.sequences]
        except ValueError:
            return None

    def as_tokens(self) -> list[list[dict[str, str]]]:
        """Token dicts: every column under its number, as text.

        Examples
        --------
        >>> TokenLines([[["a", "x"], ["b", "y"]]]).as_tokens()
        [[{'0': 'a', '1': 'x'}, {'0': 'b', '1': 'y'}]]
        """
        return [
            [{str(column): v for column, v in enumerate(line)} for line in sequence]
            for sequence in self.sequences
        ]


def read_tokens(path: str) -> TokenLines:
    """Read the tokens of a file, or of standard input."""
    if path == STDOUT:
        return parse_token_lines(sys.stdin.read(), "standard input")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"expected text in UTF-8 in {path!r}, got byte {error.start} that is none; "
            "convert the file."
        ) from None
    return parse_token_lines(text, repr(path))


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
