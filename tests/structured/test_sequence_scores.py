"""Chunks by the rules of CoNLL's shared tasks, on cases made by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import manykernels as mk
from manykernels.structured import (
    are_chunks,
    chunk_f1,
    chunk_report,
    chunk_scorer,
    chunks,
    label_report,
)
from manykernels.structured.sequence_scores import SequenceCounts as Counts

# Labels, and the chunks that conlleval finds in them: type, first and last position.
BY_HAND: list[tuple[str, list[tuple[str, int, int]]]] = [
    ("O O", []),
    ("B-x I-x O", [("x", 0, 1)]),
    ("B-x B-x", [("x", 0, 0), ("x", 1, 1)]),
    ("I-x I-x", [("x", 0, 1)]),  # IOB1: I may begin a chunk
    ("O I-x", [("x", 1, 1)]),
    ("I-x I-y", [("x", 0, 0), ("y", 1, 1)]),  # another type begins another chunk
    ("B-x I-y I-y", [("x", 0, 0), ("y", 1, 2)]),
    ("I-x B-x I-x", [("x", 0, 0), ("x", 1, 2)]),
    ("I-x E-x I-x", [("x", 0, 1), ("x", 2, 2)]),  # IOE: E ends one
    ("E-x E-x", [("x", 0, 0), ("x", 1, 1)]),
    ("B-x I-x E-x S-x", [("x", 0, 2), ("x", 3, 3)]),
    ("S-x I-x", [("x", 0, 0), ("x", 1, 1)]),
    ("U-x B-x L-x", [("x", 0, 0), ("x", 1, 2)]),
    ("B I O B", [("", 0, 1), ("", 3, 3)]),  # no types
    ("B-NP-SBJ I-NP-SBJ", [("NP-SBJ", 0, 1)]),
]


@pytest.mark.parametrize(("labels", "wanted"), BY_HAND)
def test_chunks_by_hand(labels: str, wanted: list[tuple[str, int, int]]) -> None:
    found = [(c.type, c.begin, c.end - 1) for c in chunks(labels.split())]
    assert found == wanted


# Tags of neighbors between which a chunk of one type ends or begins, as conlleval of
# 2004-01-26 lists them, and what its successors for single tokens add to it.
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
BEGINS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
MORE_ENDS = {"BS", "IS", "ES", "EB", "SE", "SI", "SO", "SS", "SB"}
MORE_BEGINS = {"SB", "EB", "BS", "IS", "OS", "SS", "ES", "SI", "SE"}


def ends(before: str, own: str, pairs: set[str]) -> bool:
    return before[0] + own[0] in pairs or (before[0] != "O" and before[1:] != own[1:])


def begins(before: str, own: str, pairs: set[str]) -> bool:
    return before[0] + own[0] in pairs or (own[0] != "O" and before[1:] != own[1:])


def by_tables(labels: list[str], more: bool) -> list[tuple[str, int, int]]:
    ending, beginning = ENDS, BEGINS
    if more:
        ending, beginning = ENDS | MORE_ENDS, BEGINS | MORE_BEGINS
    found, start = [], 0
    for place, own in enumerate([*labels, "O"]):
        before = labels[place - 1] if place else "O"
        if ends(before, own, ending):
            found.append((before[2:], start, place))
        if begins(before, own, beginning):
            start = place
    return found


@pytest.mark.parametrize(("tags", "more"), [("BI", False), ("IE", False), ("BIES", 1)])
def test_every_short_sequence_by_the_published_tables(tags: str, more: bool) -> None:
    """The script of 2004 knows no B behind E, and no S: there the later one counts."""
    labels = ["O", *(f"{tag}-{kind}" for tag in tags for kind in "xy")]
    for drawn in product(labels, repeat=4):
        assert [tuple(c) for c in chunks(drawn)] == by_tables(list(drawn), more)


def counts_in_one_pass(truth: list[str], found: list[str]) -> Counts:
    """As conlleval counts: right as long as both sides begin and end together."""
    true = guessed = right = 0
    agree, before, guess = False, "O", "O"
    for own, other in zip([*truth, "O"], [*found, "O"], strict=True):
        over = ends(before, own, ENDS), ends(guess, other, ENDS)
        new = begins(before, own, BEGINS), begins(guess, other, BEGINS)
        right += agree and all(over) and before[2:] == guess[2:]
        agree = agree and not any(over) and own[2:] == other[2:]
        agree = agree or (all(new) and own[2:] == other[2:])
        true, guessed = true + new[0], guessed + new[1]
        before, guess = own, other
    return Counts(true, guessed, right)


def test_counts_are_those_of_one_pass() -> None:
    rng = np.random.default_rng(1)
    labels = ["O", *(f"{tag}-{kind}" for tag in "BI" for kind in ("NP", "NP-SBJ"))]
    for _ in range(300):
        truth = rng.choice(labels, size=12)
        found = np.where(rng.random(12) < 0.6, truth, rng.choice(labels, size=12))
        counted = counts_in_one_pass(truth.tolist(), found.tolist())
        assert chunk_report([truth], [found]).total == counted


def test_counts_are_those_of_seqeval() -> None:
    """Another program after conlleval's rules: draws of true and found labels."""
    counted = pytest.importorskip("seqeval.metrics")
    rng = np.random.default_rng(0)
    tags = ["O", *(f"{tag}-{kind}" for tag in "BIES" for kind in ("NP", "VP"))]
    for _ in range(200):
        lengths = rng.integers(1, 9, size=4)
        truth, found = (
            [rng.choice(tags, size=n).tolist() for n in lengths] for _ in range(2)
        )
        for labels in truth:
            entities = counted.sequence_labeling.get_entities(labels)
            ours = [(c.type, c.begin, c.end - 1) for c in chunks(labels)]
            assert ours == [tuple(one) for one in entities]
        total = chunk_report(truth, found).total
        theirs = counted.sequence_labeling.precision_recall_fscore_support(
            truth, found, average="micro", zero_division=0
        )
        shares = (total.precision, total.recall, total.f1)
        assert shares == pytest.approx(theirs[:3])
        assert total.true == theirs[3]


def test_counts_of_a_known_table() -> None:
    """Two of three found, one of them with a wrong end."""
    truth = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP", "O"]]
    found = [["B-NP", "O", "O", "B-VP"], ["O", "O"]]
    report = chunk_report(truth, found)
    assert report.total == Counts(true=3, found=2, right=1)
    assert report.by_type == {
        "NP": Counts(2, 1, 0),
        "VP": Counts(1, 1, 1),
    }
    total = report.total
    shares = (total.precision, total.recall, total.f1)
    assert shares == pytest.approx((1 / 2, 1 / 3, 2 / 5))
    assert chunk_f1(truth, found) == pytest.approx(2 / 5)
    assert "VP        100.00  100.00  100.00        1        1" in str(report)


def test_nothing_found_and_nothing_there() -> None:
    assert chunk_f1([["O"]], [["O"]]) == 0.0
    assert chunk_report([["O"]], [["B-x"]]).total == Counts(0, 1, 0)


def test_labels_are_reported_one_by_one() -> None:
    report = label_report([["a", "b", "b"]], [["a", "a", "b"]])
    assert report.by_type == {
        "a": Counts(1, 2, 1),
        "b": Counts(2, 1, 1),
    }
    assert report.total.precision == pytest.approx(2 / 3)


def test_other_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="'B-NP', 'I-NP' and 'O', got 'noun'"):
        chunk_f1([["noun"]], [["noun"]])
    with pytest.raises(ValueError, match="sequences of the same lengths"):
        chunk_f1([["O"]], [["O", "O"]])
    assert are_chunks(["O", "B-x"])
    assert not are_chunks(["O"])
    assert not are_chunks(["O", "X-ray"])
    assert not are_chunks(["B-x", "noun"])


def tagged() -> tuple[Any, Any]:
    words = [["the", "cat", "sat"], ["dogs", "ran"]] * 6
    X = [[{"w": word, "n": "same"} for word in sentence] for sentence in words]
    return X, [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]] * 6


def test_scores_of_a_labeler() -> None:
    X, y = tagged()
    model = mk.SequenceLabeler(random_state=0).fit(X, y)
    wrong = [["O", "O", "B-VP"], ["B-NP", "B-VP"]] * 6
    assert model.score(X, y, scoring="chunks") == 1.0
    assert model.score(X, wrong, "chunks") == chunk_f1(wrong, model.predict(X)) < 1.0
    assert model.score(X, wrong, scoring=lambda true, found: len(true)) == 12.0
    with pytest.raises(ValueError, match="scoring must be 'tokens', 'sequences'"):
        model.score(X, y, scoring="f1")


def test_searches_score_chunks() -> None:
    X, y = tagged()
    search = GridSearchCV(
        mk.SequenceLabeler(random_state=0, max_iter=2),
        {"groups": [{"n": "n="}, {"w": "w="}]},
        scoring=chunk_scorer,
        cv=2,
        error_score="raise",
    ).fit(X, y)
    same, told = search.cv_results_["mean_test_score"]
    assert same < told == 1.0
