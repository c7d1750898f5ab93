"""Sentences with and without trees: checks, and codes for compiled loops."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.hot.arcs import MARGIN, Corpus
from manykernels.structured.conllu import BLANK, Sentence
from manykernels.structured.feature_templates import FIELDS

# Columns of a Sentence, in the order of FIELDS.
SENTENCE_COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "suffixes")
# Codes of words that are none of a vocabulary, or no words of the sentence.
UNKNOWN, BEFORE, ROOT, AFTER, N_SPECIAL = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Vocabulary:
    """The frequent values of each field; all others are one unknown value.

    Examples
    --------
    >>> vocabulary = Vocabulary.of([Sentence.of(["a", "b", "a"])], min_count=2)
    >>> vocabulary.values[0]
    ('a',)
    """

    values: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, sentences: Sequence[Sentence], min_count: int = 1) -> Vocabulary:
        """The values in sentences; tags count however rare they are."""
        counts = [
            Counter(v for s in sentences for v in getattr(s, name))
            for name in SENTENCE_COLUMNS
        ]
        # Tags and inflection are closed classes: rare ones are no noise.
        fewest = (min_count, min_count, 1, 1, 1, min_count)
        return cls(
            tuple(
                tuple(sorted(v for v, count in c.items() if count >= least))
                for c, least in zip(counts, fewest, strict=True)
            )
        )

    @property
    def sizes(self) -> list[int]:
        """Codes of each field, the special ones included."""
        return [N_SPECIAL + len(values) for values in self.values]

    @property
    def has_tags(self) -> bool:
        """Whether training words had different coarse tags."""
        return len(self.values[FIELDS.index("upos")]) > 1

    def encode(self, sentences: Sequence[Sentence]) -> Corpus:
        """The sentences as one table of codes with root and margins."""
        lengths = np.array([len(s) + 1 + 2 * MARGIN for s in sentences], dtype=np.int64)
        # Margins on both sides: templates read neighbors without asking for the ends.
        starts = np.concatenate([[0], np.cumsum(lengths)])
        words = np.ones(starts[-1], bool)
        tokens = np.full((starts[-1], len(FIELDS)), AFTER, np.int32)
        for k in range(MARGIN + 1):
            tokens[starts[:-1] + k] = ROOT if k == MARGIN else BEFORE
            words[starts[:-1] + k] = False
        for k in range(MARGIN):
            words[starts[1:] - 1 - k] = False
        for j, (name, values) in enumerate(
            zip(SENTENCE_COLUMNS, self.values, strict=True)
        ):
            code = {value: k for k, value in enumerate(values, N_SPECIAL)}
            cells = [code.get(v, UNKNOWN) for s in sentences for v in getattr(s, name)]
            tokens[words, j] = cells
        heads = np.zeros(starts[-1], np.int32)
        if all(sentence.heads is not None for sentence in sentences):
            heads[words] = [head for s in sentences for head in s.heads or ()]
        return Corpus(tokens, starts, heads)


def rows_of_words(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all words, and the rows of their heads."""
    spans = zip(corpus.starts[:-1], corpus.starts[1:], strict=True)
    rows = np.concatenate([np.arange(a + MARGIN + 1, b - MARGIN) for a, b in spans])
    roots = np.repeat(corpus.starts[:-1] + MARGIN, np.diff(corpus.starts))[rows]
    return rows, roots + corpus.heads[rows]


def heads_by_sentence(corpus: Corpus, heads: np.ndarray) -> list[tuple[int, ...]]:
    """Heads by row as one tuple for each sentence."""
    spans = zip(corpus.starts[:-1], corpus.starts[1:], strict=True)
    return [tuple(heads[a + MARGIN + 1 : b - MARGIN].tolist()) for a, b in spans]


def without_tags(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Words alone, beside their trees.

    Examples
    --------
    >>> without_tags([Sentence.of(["Go"], ["VERB"], xpos=["VB"])])[0].upos
    ('_',)
    """
    return [
        replace(s, lemmas=blank, upos=blank, xpos=blank, feats=blank)
        for s, blank in ((s, (BLANK,) * len(s)) for s in sentences)
    ]


def warn_of_missing_tags(
    vocabulary: Vocabulary, sentences: Sequence[Sentence], score: float | None
) -> None:
    """Warn where sentences lack the tags that a parser has learned from.

    `score` is the share of right heads in training sentences without tags, if known.
    """
    bare = sum(all(tag == BLANK for tag in sentence.upos) for sentence in sentences)
    if bare and vocabulary.has_tags:
        n_tags = len(vocabulary.values[FIELDS.index("upos")])
        expected = (
            "most heads to be wrong"
            if score is None
            else f"about {100.0 * score:.0f} % of the heads to be right, as in "
            "training sentences without theirs"
        )
        warnings.warn(
            f"{bare} of {len(sentences)} sentences have no tags, of which this parser "
            f"knows {n_tags}; expect {expected}, or tag the words first "
            "(manykernels parse --tag).",
            stacklevel=3,
        )


def check_sentences(sentences: Any, heads: bool = False) -> list[Sentence]:
    """A list of sentences with words, and with heads that form trees if asked for."""
    given = isinstance(sentences, Iterable) and not isinstance(
        sentences, str | Sentence
    )
    checked = list(sentences) if given else []
    if not checked:
        raise ValueError(
            "expected a list with at least one sentence, got "
            f"{'an empty one' if given else type(sentences).__name__}; read some with "
            "manykernels.structured.read_conllu."
        )
    for i, sentence in enumerate(checked):
        if not isinstance(sentence, Sentence):
            raise TypeError(
                "expected sentences of manykernels.structured, got "
                f"{type(sentence).__name__} at position {i}; read them with "
                "read_conllu, or make them with Sentence.of."
            )
        if not len(sentence):
            raise ValueError(
                f"expected words in every sentence, got none at position {i}; leave "
                "it out."
            )
        if heads and sentence.heads is None:
            raise ValueError(
                "expected a head for every word, got none in the sentence at position "
                f"{i}; leave it out, or fill in the seventh column."
            )
    return checked


def check_treebank(sentences: Any, single_root: bool) -> list[Sentence]:
    """A list of sentences with heads that form trees, of one root if that matters."""
    checked = check_sentences(sentences, heads=True)
    for i, sentence in enumerate(checked):
        heads = sentence.heads or ()
        n_roots = sum(head == 0 for head in heads)
        if not _is_tree(heads):
            raise ValueError(
                f"expected heads that form a tree, got {_listed(heads)} in the "
                f"sentence at position {i}; correct or leave out the sentence."
            )
        if single_root and n_roots > 1:
            raise ValueError(
                f"expected one word with head 0 per sentence, got {n_roots} at "
                f"position {i}; pass single_root=False, or leave out the sentence."
            )
    return checked


def _is_tree(heads: Sequence[int]) -> bool:
    """Whether every word hangs on the root, by following heads once each."""
    # Paths end where an earlier one has been: every word is passed once.
    reached = [True] + [False] * len(heads)
    for start in range(1, len(heads) + 1):
        path: list[int] = []
        node = start
        while not reached[node]:
            if not 0 <= heads[node - 1] <= len(heads) or len(path) > len(heads):
                return False
            path.append(node)
            node = heads[node - 1]
        for node in path:
            reached[node] = True
    return True


def _listed(heads: Sequence[int]) -> str:
    shown = ", ".join(str(head) for head in heads[:12])
    return f"{shown}{', ...' if len(heads) > 12 else ''}"
