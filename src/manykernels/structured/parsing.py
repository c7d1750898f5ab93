"""What a fitted parser says about sentences, and how right it is."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manykernels.structured.arc_labeler import ArcLabeler
from manykernels.structured.conllu import Sentence, format_conllu, without_trees
from manykernels.structured.parsing_score import ParsingScore, require_scoring
from manykernels.structured.tree_training import TreeModel
from manykernels.structured.treebank import check_sentences, warn_of_missing_tags


class TreePredictions:
    """The part of `DependencyParser` that reads a model and never changes it."""

    single_root: bool
    _model: TreeModel
    _labeler: ArcLabeler | None
    untagged_score_: float | None

    def predict(self, sentences: Any) -> list[Sentence]:
        """The sentences with the heads and relations that are found.

        Heads are 0 for the root and 1 for the first word. All other columns stay as
        they are, enhanced dependencies among them. A parser that has learned no
        relations keeps those of words whose head stays the same, and says how many it
        had to remove.

        Parameters
        ----------
        sentences : list of Sentence
            Their heads and relations are not looked at.
        """
        check_is_fitted(self, "templates_")
        found = check_sentences(sentences)
        model, layout = self._model, self._model.layout
        warn_of_missing_tags(layout.vocabulary, found, self.untagged_score_)
        corpus = layout.vocabulary.encode(found)
        rows = model.best_heads(corpus, self.single_root)
        heads = layout.by_sentence(corpus, rows)
        if self._labeler is None:
            return _with_heads(found, heads)
        flat, trees = iter(self._labeler.predict(corpus, rows)), []
        for sentence, own in zip(found, heads, strict=True):
            relations = tuple(next(flat) for _ in own)
            trees.append(replace(sentence, heads=own, deprels=relations))
        return trees

    def predict_conllu(self, sentences: Any) -> str:
        """The sentences with the trees that are found, as CoNLL-U text."""
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
        found = check_sentences(sentences, heads=True)
        if callable(scoring):
            return float(scoring(found, self.predict(found)))
        if scoring == "las":
            self._require_relations(found)
        return self.evaluate(found).by_name(scoring, punctuation)

    def evaluate(self, sentences: Any) -> ParsingScore:
        """Attachment scores with and without punctuation, and whole sentences.

        Labeled scores are NaN where the parser, or the sentences, know no relations.
        """
        check_is_fitted(self, "templates_")
        found = check_sentences(sentences, heads=True)
        return ParsingScore.of(found, self.predict(without_trees(found)))

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
    for sentence, own in zip(sentences, heads, strict=True):
        before = sentence.heads or (-1,) * len(own)
        cells = zip(sentence.deprels, before, own, strict=True)
        kept = tuple(x if old == new else "_" for x, old, new in cells)
        pairs = zip(sentence.deprels, kept, strict=True)
        removed += sum(old != new for old, new in pairs)
        trees.append(replace(sentence, heads=own, deprels=kept))
    if removed:
        warnings.warn(
            f"{removed} relations were removed, of words that have another head now: "
            "this parser has learned none; fit it on sentences with relations.",
            stacklevel=3,
        )
    return trees
