"""Predictions of a fitted parser, and how many heads and relations are right."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manykernels.base.quoted import quoted
from manykernels.files import by_weight
from manykernels.structured.arc_labeler import ArcLabeler
from manykernels.structured.conllu import Sentence, format_conllu, without_trees
from manykernels.structured.tree_model import TreeModel
from manykernels.structured.treebank import (
    check_sentences,
    heads_by_sentence,
    warn_of_missing_tags,
)

PUNCTUATION = "PUNCT"
SCORINGS = ("uas", "las", "sentences")


class ParsingScore(NamedTuple):
    """Shares of words with the right head, and with the right relation as well.

    Relations count with their subtypes ("nmod:poss"); where the sentences, or the
    predicted ones, have none, the labeled scores are NaN. The last is the share
    of sentences without a wrong head.
    """

    uas: float
    las: float
    uas_without_punctuation: float
    las_without_punctuation: float
    sentences: float

    @classmethod
    def of(
        cls, sentences: Sequence[Sentence], predicted: Sequence[Sentence]
    ) -> ParsingScore:
        """Predicted trees against those of the sentences.

        Examples
        --------
        >>> go = ["Go", "!"], ["VERB", "PUNCT"]
        >>> truth = Sentence.of(*go, [0, 1], deprels=["root", "punct"])
        >>> wrong = Sentence.of(*go, [0, 0], deprels=["root", "punct"])
        >>> ParsingScore.of([truth], [wrong])[:3]
        (0.5, 0.5, 1.0)
        """
        pairs = list(zip(sentences, predicted, strict=True))
        right = [np.array(guess.heads) == true.heads for true, guess in pairs]
        heads = np.concatenate(right)
        labeled = heads & np.concatenate(
            [np.array(guess.deprels) == true.deprels for true, guess in pairs]
        )
        kept = np.array([tag != PUNCTUATION for s in sentences for tag in s.upos])
        labels_exist = all(
            any(sentence.has_relations for sentence in side)
            for side in (sentences, predicted)
        )
        return cls(
            _mean(heads),
            _mean(labeled) if labels_exist else float("nan"),
            _mean(heads[kept]),
            _mean(labeled[kept]) if labels_exist else float("nan"),
            float(np.mean([words.all() for words in right])),
        )

    def by_name(self, scoring: str, punctuation: bool) -> float:
        """One of the scores."""
        if punctuation or scoring == "sentences":
            return float(getattr(self, scoring))
        return float(getattr(self, f"{scoring}_without_punctuation"))


def require_scoring(scoring: Any) -> None:
    """Raise unless it is a score's name or a function."""
    if not callable(scoring) and scoring not in SCORINGS:
        names = ", ".join(map(repr, SCORINGS))
        raise ValueError(
            f"scoring must be {names} or a function of true and predicted sentences, "
            f"got {quoted(scoring)}; choose one of these."
        )


def _mean(right: np.ndarray) -> float:
    return float(right.mean()) if len(right) else float("nan")


class ParserPredictions:
    """The part of `DependencyParser` that reads a model and never changes it."""

    single_root: bool
    _model: TreeModel
    _labeler: ArcLabeler | None
    untagged_score_: float | None
    relations_: list[str]
    templates_: list[str]
    template_weights_: np.ndarray
    n_features_: int
    n_iter_: int

    def predict(self, sentences: Any) -> list[Sentence]:
        """Return the sentences with the best trees and their relations.

        Heads are 0 for the root and 1 for the first word. All other columns stay as
        they are, enhanced dependencies among them. A parser that has learned no
        relations keeps those of words whose head stays the same, and warns of those
        that it removes.

        Parameters
        ----------
        sentences : list of Sentence
            Their heads and relations are not read.
        """
        check_is_fitted(self, "templates_")
        given = check_sentences(sentences)
        vocabulary = self._model.layout.vocabulary
        warn_of_missing_tags(vocabulary, given, self.untagged_score_)
        corpus = vocabulary.encode(given)
        rows = self._model.best_heads(corpus, self.single_root)
        heads = heads_by_sentence(corpus, rows)
        if self._labeler is None:
            return _with_heads(given, heads)
        flat, trees = iter(self._labeler.predict(corpus, rows)), []
        for sentence, tree in zip(given, heads, strict=True):
            relations = tuple(next(flat) for _ in tree)
            trees.append(replace(sentence, heads=tree, deprels=relations))
        return trees

    def predict_conllu(self, sentences: Any) -> str:
        """Return the sentences with the best trees as CoNLL-U text."""
        return format_conllu(self.predict(sentences))

    def arc_scores(self, sentence: Sentence) -> np.ndarray:
        """scores[h, m] of every arc of a sentence; minus infinity for those left out.

        The array has a row and a column for the root, and then one for each word.
        Templates with a third word do not score arcs and are not in it.
        """
        check_is_fitted(self, "templates_")
        return self._model.arc_scores(check_sentences([sentence])[0])

    def score(
        self,
        sentences: Any,
        y: Any = None,
        *,
        scoring: Any = "uas",
        punctuation: bool = True,
    ) -> float:
        """An attachment score: the share of words that hang where they should.

        Parameters
        ----------
        sentences : list of Sentence
        y : None
            Ignored.
        scoring : {"uas", "las", "sentences"} or callable
            Heads; heads and relations; sentences without a wrong head; or a function of
            true and predicted sentences.
        punctuation : bool
            Whether words with the tag PUNCT count.
        """
        require_scoring(scoring)
        given = check_sentences(sentences, heads=True)
        if callable(scoring):
            return float(scoring(given, self.predict(given)))
        if scoring == "las":
            self._require_relations(given)
        return self.evaluate(given).by_name(scoring, punctuation)

    def evaluate(self, sentences: Any) -> ParsingScore:
        """Attachment scores with and without punctuation, and whole sentences.

        Labeled scores are NaN where the parser, or the sentences, know no relations.
        """
        check_is_fitted(self, "templates_")
        given = check_sentences(sentences, heads=True)
        return ParsingScore.of(given, self.predict(without_trees(given)))

    def _require_fitted(self) -> None:
        check_is_fitted(self, "templates_")

    def _facts(self) -> dict[str, Any]:
        words, lemmas, upos, xpos, *_ = self._model.layout.vocabulary.values
        return {
            "words": len(words),
            "lemmas": len(lemmas),
            "tags": max(len(upos), len(xpos)),
            "relations": len(self.relations_),
            "weights": self.n_features_,
            "templates": by_weight(self.templates_, self.template_weights_),
            "epochs": self.n_iter_,
        }

    def _require_relations(self, sentences: Sequence[Sentence]) -> None:
        """Raise where there is nothing to compare."""
        check_is_fitted(self, "templates_")
        if self._labeler is None:
            raise ValueError(
                "scoring='las' needs a parser that has learned relations, got one "
                "without; fit it on sentences with relations, or use scoring='uas'."
            )
        if not any(sentence.has_relations for sentence in sentences):
            raise ValueError(
                "scoring='las' needs sentences with relations, got none; fill in the "
                "eighth column, or use scoring='uas'."
            )


def _with_heads(
    sentences: Sequence[Sentence], heads: Sequence[tuple[int, ...]]
) -> list[Sentence]:
    """The sentences with other heads; relations of other arcs are of no use."""
    trees, removed = [], 0
    for sentence, tree in zip(sentences, heads, strict=True):
        before = sentence.heads or (-1,) * len(tree)
        cells = zip(sentence.deprels, before, tree, strict=True)
        kept = tuple(x if old == new else "_" for x, old, new in cells)
        pairs = zip(sentence.deprels, kept, strict=True)
        removed += sum(old != new for old, new in pairs)
        trees.append(replace(sentence, heads=tree, deprels=kept))
    if removed:
        warnings.warn(
            f"{removed} relations were removed, of words that have another head now: "
            "this parser has learned none; fit it on sentences with relations.",
            stacklevel=3,
        )
    return trees
