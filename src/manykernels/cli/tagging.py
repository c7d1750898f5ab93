"""Tags for the words of sentences: a labeler of the package's own, for the parser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.structured import DependencyParser, Sentence, SequenceLabeler
from manykernels.structured.conllu import BLANK, without_trees
from manykernels.structured.parsing_score import ParsingScore
from manykernels.structured.treebank import check_sentences


def words_as_tokens(sentences: Sequence[Sentence]) -> list[list[dict[str, str]]]:
    """What a tagger sees of every word: itself, its beginning, its ends, its shape.

    Examples
    --------
    >>> words_as_tokens([Sentence.of(["Dogs"])])[0][0]["shape"]
    'Xx'
    """
    return [[_token(form) for form in s.forms] for s in sentences]


def _token(form: str) -> dict[str, str]:
    low = form.lower()
    kinds = [_kind(letter) for letter in form]
    shape = [k for k, before in zip(kinds, ["", *kinds], strict=False) if k != before]
    return {
        "word": low,
        "first": low[:3],
        "last": low[-3:],
        "end": low[-2:],
        "shape": "".join(shape),
    }


def _kind(letter: str) -> str:
    if letter.isdigit():
        return "0"
    return "X" if letter.isupper() else "x" if letter.isalpha() else letter


def new_tagger(**settings: Any) -> SequenceLabeler:
    """A labeler for such tokens."""
    return SequenceLabeler(window=2, **settings)


def tag_words(tagger: SequenceLabeler, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences with tags that the tagger finds in place of their own."""
    found = tagger.predict(words_as_tokens(sentences))
    return [
        replace(sentence, upos=tuple(map(str, tags)))
        for sentence, tags in zip(sentences, found, strict=True)
    ]


def evaluate_tagged(
    parser: DependencyParser, sentences: Sequence[Sentence], tagger: SequenceLabeler
) -> dict[str, float]:
    """Shares of right tags, heads and relations when the tags are the tagger's.

    Punctuation is what the sentences call so, if they have tags.
    """
    tagged = tag_words(tagger, check_sentences(sentences, heads=True))
    trees = parser.predict(words_and_tags(without_trees(tagged)))
    right = [
        a == b
        for true, found in zip(sentences, tagged, strict=True)
        for a, b in zip(true.upos, found.upos, strict=True)
        if a != BLANK
    ]
    scores = ParsingScore.of(sentences if right else tagged, trees)
    tags = float(np.mean(right)) if right else float("nan")
    return {"tags": tags, **scores._asdict()}


def words_and_tags(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Without what a tagger does not give: lemmas, finer tags, inflection.

    Examples
    --------
    >>> words_and_tags([Sentence.of(["Go"], ["VERB"], xpos=["VB"])])[0].xpos
    ('_',)
    """
    return [
        replace(s, lemmas=blank, xpos=blank, feats=blank)
        for s, blank in ((s, (BLANK,) * len(s)) for s in sentences)
    ]
