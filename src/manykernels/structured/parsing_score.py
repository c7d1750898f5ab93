"""How right predicted trees are: attachment scores, with and without relations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from manykernels.base.quoted import quoted
from manykernels.structured.conllu import Sentence

PUNCTUATION = "PUNCT"
SCORINGS = ("uas", "las", "sentences")

Scoring = Callable[[Sequence[Sentence], Sequence[Sentence]], float]


class ParsingScore(NamedTuple):
    """Shares of words with the right head, and with the right relation as well.

    Relations count with their subtypes ("nmod:poss"); where the sentences, or
    those that were found, have none, the labeled scores are NaN. The last is the share
    of sentences without a wrong head.
    """

    uas: float
    las: float
    uas_without_punctuation: float
    las_without_punctuation: float
    sentences: float

    @classmethod
    def of(
        cls, sentences: Sequence[Sentence], found: Sequence[Sentence]
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
        pairs = list(zip(sentences, found, strict=True))
        right = [np.array(guess.heads) == true.heads for true, guess in pairs]
        heads = np.concatenate(right)
        labeled = heads & np.concatenate(
            [np.array(guess.deprels) == true.deprels for true, guess in pairs]
        )
        kept = np.array([tag != PUNCTUATION for s in sentences for tag in s.upos])
        known = all(
            any(sentence.has_relations for sentence in some)
            for some in (sentences, found)
        )
        return cls(
            _mean(heads),
            _mean(labeled) if known else float("nan"),
            _mean(heads[kept]),
            _mean(labeled[kept]) if known else float("nan"),
            float(np.mean([one.all() for one in right])),
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
