"""``manykernels parse``: heads and relations for the words of a CoNLL-U file.

Text without tags is tagged first, by a labeler that sees only the words.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any

import numpy as np
from rich.console import Console

from manykernels.cli.errors import fail
from manykernels.cli.file_kinds import LearnedFileKind, load_as
from manykernels.cli.options import Given, chosen, command
from manykernels.cli.outputs import STDOUT, opened
from manykernels.cli.progress import learn_and_save, shown_warnings
from manykernels.inputs.parameters import Number
from manykernels.structured import DependencyParser, SequenceLabeler
from manykernels.structured.conllu import (
    BLANK,
    Sentence,
    format_conllu,
    parse_conllu,
    read_conllu,
    without_trees,
    write_conllu,
)
from manykernels.structured.parsing import ParsingScore
from manykernels.structured.treebank import check_sentences


@command(
    "model data train out score tag templates loss regularizer refit n_templates C "
    "epochs keep memory_limit seed as_json verbose"
)
def parse(given: Given) -> None:
    """Learn a dependency parser, or find the heads of the words in a file.

    manykernels parse --train train.conllu --model parser.mk

    manykernels parse new.conllu --model parser.mk --out parsed.conllu

    manykernels parse --train train.conllu --model parser.mk --tag tagger.mk
    """
    if given.keep is not None:
        Number(high=1.0).check("--keep", given.keep)
    SentenceFiles().run(given)


class SentenceFiles(LearnedFileKind):
    """CoNLL-U files, and parsers."""

    input_kind, model_name, purpose = "sentences", "parser", "parse"

    def learn(self, given: Given) -> DependencyParser:
        settings = chosen(
            loss=given.loss,
            C=given.C,
            n_epochs=given.epochs,
            memory_limit=given.memory_limit,
            random_state=given.seed,
        )
        parser = DependencyParser(
            _templates(given.templates),
            regularizer=given.regularizer,
            refit=given.refit,
            n_templates=given.n_templates,
            **settings,
        )
        sentences = _read(given.train)
        if given.tag is not None:
            _learn_tagger(sentences, given)
            sentences = words_and_tags(sentences)
        keep = given.keep
        smaller = None if keep is None else methodcaller("compressed", keep)
        return learn_and_save(
            parser, given.model, given.verbose, sentences, smaller=smaller
        )

    def predict(self, model: DependencyParser, given: Given) -> None:
        """Write the sentences of a file with the trees that the parser finds."""
        sentences, tagger = _read(given.data), _load_tagger(given)
        with shown_warnings(Console(stderr=True)):
            if tagger is None:
                trees = model.predict(sentences)
            else:
                tagged = tag_words(tagger, sentences)
                found = model.predict(words_and_tags(tagged))
                pairs = zip(tagged, found, strict=True)
                trees = [replace(s, heads=t.heads, deprels=t.deprels) for s, t in pairs]
        if given.out != STDOUT:
            write_conllu(given.out, trees)
            return
        with opened(given.out) as stream:
            stream.write(format_conllu(trees))

    def evaluate(self, model: DependencyParser, given: Given) -> dict[str, Any]:
        """Shares of words and sentences whose trees, and tags, are right.

        Labeled scores are left out if the file has no relations, and tags if it has
        none. Punctuation is what the file calls so, if it has tags.
        """
        sentences, tagger = _read(given.data), _load_tagger(given)
        with shown_warnings(Console(stderr=True)):
            if tagger is None:
                scores = model.evaluate(sentences)._asdict()
            else:
                scores = evaluate_tagged(model, sentences, tagger)
        # NaN stands for what the file cannot show.
        return {name: value for name, value in scores.items() if value == value}


def _templates(text: str) -> Any:
    # A template has a dot in it, such as "h.upos"; the name of a set has none.
    parts = [part.strip() for part in text.split(";") if part.strip()]
    return parts if len(parts) > 1 or "." in text else text


def _read(path: str) -> list[Sentence]:
    if path == STDOUT:
        name = "standard input"
        sentences = list(parse_conllu(sys.stdin.buffer.read(), name))
    else:
        name, sentences = f"'{path}'", read_conllu(path)
    if not sentences:
        fail(f"expected sentences in {name}, got none; check the file")
    return sentences


def _load_tagger(given: Given) -> Any:
    return None if given.tag is None else load_as("sequences", "tagger", given.tag)


def _learn_tagger(sentences: list[Sentence], given: Given) -> None:
    if not any(tag != BLANK for sentence in sentences for tag in sentence.upos):
        fail("expected tags in the fourth column of --train, got none; add them")
    tags = [np.array(sentence.upos) for sentence in sentences]
    tagger = new_tagger(random_state=given.seed)
    X = words_as_tokens(sentences)
    learn_and_save(tagger, given.tag, given.verbose, X, tags)


def new_tagger(**settings: Any) -> SequenceLabeler:
    """A labeler for the tokens of `words_as_tokens`."""
    return SequenceLabeler(window=2, **settings)


def words_as_tokens(sentences: Sequence[Sentence]) -> list[list[dict[str, str]]]:
    """Tokens of words for a tagger: the word, its beginning, its ends, its shape.

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


def tag_words(tagger: SequenceLabeler, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences with the tagger's tags in place of their own."""
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
    # Punctuation is known by its tag: that of the file, or else the tagger's.
    scores = ParsingScore.of(sentences if right else tagged, trees)
    tags = float(np.mean(right)) if right else float("nan")
    return {"tags": tags, **scores._asdict()}


def words_and_tags(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Sentences without lemmas, finer tags and inflection, which no tagger gives.

    Examples
    --------
    >>> words_and_tags([Sentence.of(["Go"], ["VERB"], xpos=["VB"])])[0].xpos
    ('_',)
    """
    return [
        replace(s, lemmas=blank, xpos=blank, feats=blank)
        for s, blank in ((s, (BLANK,) * len(s)) for s in sentences)
    ]
