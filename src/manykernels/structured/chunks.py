r"""Chunks and entities in label sequences, and how many of them were found.

Labels say where chunks lie: ``B-NP`` begins one, ``I-NP`` goes on with it, ``O`` is
outside. The rules are those of conlleval (2004-01-26), the script of CoNLL's shared
tasks, so that any labels make chunks: a chunk also begins at an ``I-`` behind ``O`` or
behind another type, and ends before a label that begins one or lies outside. ``E-`` and
``L-`` close a chunk, ``S-`` and ``U-`` are one of their own, as in later versions of
that script. A chunk counts as found if its type, its beginning and its end are right:

.. math:: precision = \frac{right}{found}, \quad recall = \frac{right}{true}, \quad
    F_1 = \frac{2\, right}{true + found}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.metrics import make_scorer

from manykernels.base.quoted import quoted

TAGS = "BIELSU"
SINGLE, CLOSING = "SU", "SUEL"  # chunks of one token; tokens behind which a chunk ends


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


class Counts(NamedTuple):
    """How many there are, how many were found, how many of these are right.

    Examples
    --------
    >>> counts = Counts(true=4, found=2, right=1)
    >>> counts.precision, counts.recall, round(counts.f1, 3)
    (0.5, 0.25, 0.333)
    """

    true: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        """Share of what was found that is right; 0 if nothing was found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of what is there that was found; 0 if nothing is there."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if nothing is right."""
        return 2.0 * self.right / (self.true + self.found) if self.right else 0.0


@dataclass(frozen=True)
class Report:
    """Counts of everything, and of every type; printed as a table in percent.

    Examples
    --------
    >>> print(chunk_report([["B-NP", "I-NP", "B-VP"]], [["B-NP", "I-NP", "O"]]))
           precision  recall      f1     true    found
    NP        100.00  100.00  100.00        1        1
    VP          0.00    0.00    0.00        1        0
    total     100.00   50.00   66.67        2        1
    """

    total: Counts
    by_type: dict[str, Counts]

    def __str__(self) -> str:
        width = max(5, *(len(name) for name in self.by_type), 5)
        head = f"{'':{width}}  precision  recall      f1     true    found"
        lines = {**self.by_type, "total": self.total}
        return "\n".join([head, *(_line(n.ljust(width), c) for n, c in lines.items())])


def _line(name: str, counts: Counts) -> str:
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
    found: list[Chunk] = []
    begin, before, kind = 0, "O", ""
    for place, label in enumerate([*labels, "O"]):
        tag, own = _parts(label)
        new = tag in "B" + SINGLE or before in "O" + CLOSING or own != kind
        if before != "O" and (tag == "O" or new):
            found.append(Chunk(kind, begin, place))
        if tag != "O" and new:
            begin = place
        before, kind = tag, own
    return found


def are_chunks(labels: Iterable[Any]) -> bool:
    """Whether all labels are such as "B-NP", "I-NP" and "O", and one begins a chunk.

    Examples
    --------
    >>> are_chunks(["B-NP", "O"]), are_chunks(["O", "noun"])
    (True, False)
    """
    different = {str(label) for label in labels}
    typed = [label for label in different if "-" in label]
    return bool(typed) and all(label == "O" or _is_typed(label) for label in different)


def _is_typed(label: str) -> bool:
    tag, _, kind = label.partition("-")
    return len(tag) == 1 and tag in TAGS and bool(kind)


def _parts(label: Any) -> tuple[str, str]:
    """Tag and type of a label; the type of "O" is empty."""
    tag, _, kind = str(label).partition("-")
    if tag == "O" and not kind:
        return "O", ""
    if len(tag) != 1 or tag not in TAGS:
        raise ValueError(
            "chunks are counted in labels such as 'B-NP', 'I-NP' and 'O', got "
            f"{quoted(label)}; score other labels by tokens."
        )
    return tag, kind


def chunk_report(y_true: Sequence[Any], y_pred: Sequence[Any]) -> Report:
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
    return _report(
        {(n, chunk) for n, labels in enumerate(y) for chunk in chunks(labels)}
        for y in _aligned(y_true, y_pred)
    )


def label_report(y_true: Sequence[Any], y_pred: Sequence[Any]) -> Report:
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


def _report(sides: Iterator[set[tuple[int, Chunk]]]) -> Report:
    true, found = sides
    counted = [Counter(c.type for _, c in part) for part in (true, found, true & found)]
    types = sorted({*counted[0], *counted[1]})
    by_type = {name: Counts(*(part[name] for part in counted)) for name in types}
    return Report(Counts(len(true), len(found), len(true & found)), by_type)


def _aligned(y_true: Sequence[Any], y_pred: Sequence[Any]) -> Iterator[Sequence[Any]]:
    lengths = [[len(labels) for labels in y] for y in (y_true, y_pred)]
    if lengths[0] != lengths[1]:
        raise ValueError(
            "y_true and y_pred must hold sequences of the same lengths, got "
            f"{len(lengths[0])} and {len(lengths[1])} sequences, "
            f"{sum(lengths[0])} and {sum(lengths[1])} labels; pass the same data."
        )
    return iter((y_true, y_pred))
