r"""Scores of predicted label sequences: positions, sequences, chunks and entities.

Labels say where chunks lie: ``B-NP`` begins one, ``I-NP`` goes on with it, ``O`` is
outside. The rules are those of conlleval (2004-01-26), the script of CoNLL's shared
tasks, so that any labels make chunks: a chunk also begins at an ``I-`` behind ``O`` or
behind another type, and ends before a label that begins one or lies outside. ``E-`` and
``L-`` close a chunk, ``S-`` and ``U-`` are one of their own, as in later versions of
that script. A predicted chunk is right if its type, beginning and end are right:

.. math:: precision = \frac{right}{predicted}, \quad recall = \frac{right}{true}, \quad
    F_1 = \frac{2\, right}{true + predicted}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import make_scorer

from manykernels.base.quoted import quoted

CHUNK_TAGS = "BIELSU"
BEGINNING_TAGS, CLOSING_TAGS = "BSU", "OSUEL"  # before, and behind which a chunk ends

Metric = Callable[[Sequence[Any], Sequence[Any]], float]


class Chunk(NamedTuple):
    """A type and the positions begin, ..., end - 1.

    Examples
    --------
    >>> Chunk("NP", 0, 2) == chunks(["B-NP", "I-NP", "O"])[0]
    True
    """

    type: str
    begin: int
    end: int


class SequenceCounts(NamedTuple):
    """Numbers of true items, of predicted ones (found), and of those that are right.

    Examples
    --------
    >>> counts = SequenceCounts(true=4, found=2, right=1)
    >>> counts.precision, counts.recall, round(counts.f1, 3)
    (0.5, 0.25, 0.333)
    """

    true: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        """right / found; 0 if none is predicted."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """right / true; 0 if none is true."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if none is right."""
        return 2.0 * self.right / (self.true + self.found) if self.right else 0.0


@dataclass(frozen=True)
class SequenceReport:
    """SequenceCounts of everything, and of every type; printed as a table in percent.

    Examples
    --------
    >>> print(chunk_report([["B-NP", "I-NP", "B-VP"]], [["B-NP", "I-NP", "O"]]))
           precision  recall      f1     true    found
    NP        100.00  100.00  100.00        1        1
    VP          0.00    0.00    0.00        1        0
    total     100.00   50.00   66.67        2        1
    """

    total: SequenceCounts
    by_type: dict[str, SequenceCounts]

    def __str__(self) -> str:
        width = max(5, *(len(name) for name in self.by_type), 5)
        head = f"{'':{width}}  precision  recall      f1     true    found"
        lines = {**self.by_type, "total": self.total}
        return "\n".join([head, *(_line(n.ljust(width), c) for n, c in lines.items())])


def _line(name: str, counts: SequenceCounts) -> str:
    shares = (counts.precision, counts.recall, counts.f1)
    precision, recall, f1 = (f"{100.0 * share:.2f}" for share in shares)
    sizes = f"{counts.true:7d}  {counts.found:7d}"
    return f"{name}  {precision:>9}  {recall:>6}  {f1:>6}  {sizes}"


def chunks(labels: Sequence[Any]) -> list[Chunk]:
    """The chunks of one sequence, from left to right.

    Examples
    --------
    >>> chunks(["B-NP", "I-NP", "B-NP", "O", "I-VP", "I-NP"])  # doctest: +ELLIPSIS
    [Chunk(type='NP', begin=0, end=2), Chunk(type='NP', begin=2, end=3), ...]
    """
    spans: list[Chunk] = []
    begin, before, kind = 0, "O", ""
    # An "O" behind the end closes the last chunk.
    for place, label in enumerate([*labels, "O"]):
        tag, next_kind = _parts(label)
        new = next_kind != kind or tag in BEGINNING_TAGS or before in CLOSING_TAGS
        if before != "O" and (tag == "O" or new):
            spans.append(Chunk(kind, begin, place))
        if tag != "O" and new:
            begin = place
        before, kind = tag, next_kind
    return spans


def are_chunks(labels: Iterable[Any]) -> bool:
    """Whether all labels are such as "B-NP", "I-NP" and "O", and one begins a chunk.

    Examples
    --------
    >>> are_chunks(["B-NP", "O"]), are_chunks(["O", "noun"])
    (True, False)
    """
    typed = {str(label) for label in labels} - {"O"}
    return bool(typed) and all(
        label[:1] in CHUNK_TAGS and label[1:2] == "-" and label[2:] for label in typed
    )


def _parts(label: Any) -> tuple[str, str]:
    """Tag and type of a label; the type of "O" is empty."""
    tag, _, kind = str(label).partition("-")
    if tag == "O" and not kind:
        return "O", ""
    if len(tag) != 1 or tag not in CHUNK_TAGS:
        raise ValueError(
            "chunks are counted in labels such as 'B-NP', 'I-NP' and 'O', got "
            f"{quoted(label)}; score other labels by tokens."
        )
    return tag, kind


def chunk_report(y_true: Sequence[Any], y_pred: Sequence[Any]) -> SequenceReport:
    """Chunks of all sequences, by type.

    Parameters
    ----------
    y_true, y_pred : lists of label sequences

    Examples
    --------
    >>> truth = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> print(chunk_report(truth, [["B-PER", "I-PER", "O", "O"]]))
           precision  recall      f1     true    found
    LOC         0.00    0.00    0.00        1        0
    PER       100.00  100.00  100.00        1        1
    total     100.00   50.00   66.67        2        1
    """
    # Chunks of different sequences must not be taken for each other.
    return _report(
        {(n, chunk) for n, labels in enumerate(y) for chunk in chunks(labels)}
        for y in _aligned(y_true, y_pred)
    )


def label_report(y_true: Sequence[Any], y_pred: Sequence[Any]) -> SequenceReport:
    """Tokens of all sequences, by label; the total's precision is the accuracy.

    Examples
    --------
    >>> label_report([["a", "b", "b"]], [["a", "a", "b"]]).by_type["b"].recall
    0.5
    """
    return _report(
        {
            (n, Chunk(str(label), place, place + 1))
            for n, labels in enumerate(y)
            for place, label in enumerate(labels)
        }
        for y in _aligned(y_true, y_pred)
    )


def chunk_f1(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """F1 of whole chunks, between 0 and 1.

    Examples
    --------
    >>> chunk_f1([["B-NP", "I-NP", "O", "B-NP"]], [["B-NP", "I-NP", "O", "O"]])
    0.6666666666666666
    """
    return chunk_report(y_true, y_pred).total.f1


# For scoring= of GridSearchCV, cross_val_score and their relatives.
chunk_scorer = make_scorer(chunk_f1)


def _report(sides: Iterator[set[tuple[int, Chunk]]]) -> SequenceReport:
    true, predicted = sides
    right = true & predicted
    counted = [Counter(c.type for _, c in part) for part in (true, predicted, right)]
    types = sorted({*counted[0], *counted[1]})
    by_type = {
        name: SequenceCounts(*(part[name] for part in counted)) for name in types
    }
    return SequenceReport(
        SequenceCounts(len(true), len(predicted), len(right)), by_type
    )


def _aligned(y_true: Sequence[Any], y_pred: Sequence[Any]) -> Iterator[Sequence[Any]]:
    lengths = [[len(labels) for labels in y] for y in (y_true, y_pred)]
    if lengths[0] != lengths[1]:
        raise ValueError(
            "y_true and y_pred must hold sequences of the same lengths, got "
            f"{len(lengths[0])} and {len(lengths[1])} sequences, "
            f"{sum(lengths[0])} and {sum(lengths[1])} labels; pass the same data."
        )
    return iter((y_true, y_pred))


def token_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Share of the positions that get their label.

    Examples
    --------
    >>> token_accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.6666666666666666
    """
    return float(np.mean(np.concatenate(_right(y_true, y_pred))))


def sequence_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Share of the sequences without any wrong label.

    Examples
    --------
    >>> sequence_accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    return float(np.mean([right.all() for right in _right(y_true, y_pred)]))


METRICS: dict[str, Metric] = {
    "tokens": token_accuracy,
    "sequences": sequence_accuracy,
    "chunks": chunk_f1,
}


def sequence_metric(scoring: Any) -> Metric:
    """A metric by its name, or the function itself.

    Examples
    --------
    >>> sequence_metric("tokens").__name__
    'token_accuracy'
    """
    if callable(scoring):
        return scoring  # type: ignore[no-any-return]
    if not isinstance(scoring, str) or scoring not in METRICS:
        names = ", ".join(map(repr, METRICS))
        raise ValueError(
            f"scoring must be {names} or a function of true and predicted labels, got "
            f"{quoted(scoring)}; choose one of these."
        )
    return METRICS[scoring]


def _right(y_true: Sequence[Any], y_pred: Sequence[Any]) -> list[np.ndarray]:
    pairs = zip(y_true, y_pred, strict=True)
    return [np.asarray(true) == np.asarray(guess) for true, guess in pairs]
