"""``manykernels label``: labels for the tokens of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from manykernels.cli import options as opt
from manykernels.cli.errors import fail
from manykernels.cli.metrics import metric_lines, summary_lines
from manykernels.cli.outputs import STDOUT, check_learning, load_as, opened, tell
from manykernels.cli.progress import learn_and_save
from manykernels.cli.readers.kernel_files import choose_kernels
from manykernels.structured import (
    Report,
    SequenceLabeler,
    are_chunks,
    chunk_report,
    label_report,
    sequence_accuracy,
    token_accuracy,
)

Tokens = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATA]",
        help="Tokens to label: one per line, columns separated by tabs or blanks, an "
        "empty line between sequences; - for standard input.",
    ),
]
LabelerFile = Annotated[Path, opt.in_files("--model", "-m", help="The model's file.")]
Train = Annotated[
    str | None,
    opt.in_files(
        "--train",
        help="File with labels in its last column to learn from first; the model is "
        "written to --model.",
    ),
]
LabeledOut = Annotated[
    str,
    opt.in_output(
        "--out",
        "-o",
        help="Where to write the tokens with their labels; - for standard output.",
    ),
]
Score = Annotated[
    bool,
    opt.in_output(
        "--score",
        help="Compare with the labels in the file's last column instead of writing.",
    ),
]
Window = Annotated[
    int,
    opt.in_learning(
        "--window",
        help="Neighbors on each side whose columns a token sees, where columns are "
        "text; the model remembers it.",
    ),
]
Regularizer = Annotated[
    str | None,
    opt.in_learning(
        "--regularizer", help="sparse_mkl, group_lasso, squared_l2, elastic_net, ..."
    ),
]
ChainLoss = Annotated[str | None, opt.in_learning("--loss", help="hinge or crf.")]
Epochs = Annotated[
    int | None, opt.in_learning("--epochs", help="Passes over the sequences.")
]


def label(
    model: LabelerFile,
    data: Tokens = None,
    train: Train = None,
    out: LabeledOut = STDOUT,
    score: Score = False,
    window: Window = 1,
    kernels: opt.Kernels = None,
    regularizer: Regularizer = None,
    loss: ChainLoss = None,
    C: opt.C = None,
    epochs: Epochs = None,
    seed: opt.Seed = None,
    as_json: opt.AsJson = False,
    verbose: opt.Verbose = False,
) -> None:
    """Learn to label sequences, or label the tokens in a file.

    manykernels label --train train.txt --model tagger.mk

    manykernels label new.txt --model tagger.mk --out labeled.txt
    """
    check_learning(data, train, model, out, "label")
    if window < 0:
        fail(f"--window must be 0 or more, got {window}; try 1")
    if train is None:
        labeler = load_as("sequences", "labeler", model)
    else:
        labeler = SequenceLabeler(
            choose_kernels(kernels),
            **opt.chosen(
                regularizer=regularizer,
                loss=loss,
                C=C,
                max_iter=epochs,
                random_state=seed,
            ),
        )
        _learn(labeler, _read(train), window, model, verbose)
    if data is None:
        tell(labeler.summary(), as_json, summary_lines)
    elif score:
        tell(evaluate_sequences(labeler, data), as_json, metric_lines)
    else:
        label_sequences(labeler, data, out)


def label_sequences(labeler: Any, data: str, out: str) -> None:
    """Write the tokens of a file with their labels in a column after the others."""
    lines = _read(data)
    _write(out, lines, labeler.predict(_inputs(labeler, lines)))


def evaluate_sequences(labeler: Any, data: str) -> dict[str, Any]:
    """The shares of tokens and sequences that are right; where labels make chunks, F1.

    Else figures are given for every label.
    """
    X, y = _labeled(labeler, _read(data))
    found = labeler.predict(X)
    figures: dict[str, Any] = {
        "tokens": token_accuracy(y, found),
        "sequences": sequence_accuracy(y, found),
    }
    if not are_chunks([*labeler.classes_.tolist(), *np.concatenate(y).tolist()]):
        return {**figures, "labels": _table(label_report(y, found))}
    report = chunk_report(y, found)
    return {**figures, "chunk_f1": report.total.f1, "chunks": _table(report)}


def _table(report: Report) -> list[dict[str, Any]]:
    """A line for each type, as data."""
    return [
        {
            "type": name,
            "true": counts.true,
            "found": counts.found,
            "precision": counts.precision,
            "recall": counts.recall,
            "f1": counts.f1,
        }
        for name, counts in report.by_type.items()
    ]


def _learn(
    labeler: SequenceLabeler, lines: TokenLines, window: int, path: Path, verbose: bool
) -> None:
    if lines.n_columns < 2:
        fail(
            "expected labels in the last column of --train and at least one column "
            "before it, got one column; separate them by tabs"
        )
    features = lines.without(lines.n_columns - 1)
    X: Any = as_arrays(features)
    if X is None:
        X = as_tokens(features)
        labeler.window = window
    y = [np.array(labels) for labels in lines.column(lines.n_columns - 1)]
    learn_and_save(labeler, path, verbose, X, y)


def _inputs(labeler: SequenceLabeler, lines: TokenLines) -> Any:
    """Tokens as in training, with or without a column of labels at the end."""
    n_columns = _columns_of(labeler)
    if lines.n_columns == n_columns + 1:
        lines = lines.without(n_columns)
    if lines.n_columns != n_columns:
        fail(
            f"expected lines with {n_columns} columns as in training, and labels after "
            f"them or not, got {lines.n_columns}; pass the same columns"
        )
    if hasattr(labeler, "token_attributes_"):
        return as_tokens(lines)
    arrays = as_arrays(lines)
    if arrays is None:
        fail("expected columns of numbers as in training, got text; check the file")
    return arrays


def _columns_of(labeler: SequenceLabeler) -> int:
    """Columns of a line, labels not counted."""
    attributes = getattr(labeler, "token_attributes_", None)
    if attributes is None:
        return int(labeler.n_features_in_)
    if set(attributes) != {str(column) for column in range(len(attributes))}:
        fail(
            "expected a labeler that 'manykernels label --train' wrote, got one with "
            f"tokens of {', '.join(attributes[:3])}, ...; label its tokens in Python"
        )
    return len(attributes)


def _labeled(labeler: SequenceLabeler, lines: TokenLines) -> tuple[Any, Any]:
    n_columns = _columns_of(labeler)
    if lines.n_columns != n_columns + 1:
        fail(
            f"expected labels after the {n_columns} columns of training, got "
            f"{lines.n_columns} columns; add them"
        )
    kind = labeler.classes_.dtype.type
    labels = [np.array(y).astype(kind) for y in lines.column(n_columns)]
    return _inputs(labeler, lines), labels


def _read(path: str) -> TokenLines:
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


def _write(path: str, lines: TokenLines, labels: list[np.ndarray]) -> None:
    parts = []
    for sequence, found in zip(lines.sequences, labels, strict=True):
        rows = zip(sequence, found.tolist(), strict=True)
        parts.append("".join("\t".join([*line, str(y)]) + "\n" for line, y in rows))
    with opened(path) as stream:
        stream.write("\n".join(parts))


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
