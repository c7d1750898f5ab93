"""What a fitted labeler says of new sequences: labels, probabilities, scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manykernels.inputs.parameters import Whole
from manykernels.structured.chain_decoder import marginals, viterbi
from manykernels.structured.chain_scores import (
    LabeledSequence,
    ScoredChains,
    best_sequences,
)
from manykernels.structured.sequence_metrics import sequence_metric
from manykernels.structured.sequence_model import SequenceModel
from manykernels.structured.sequences import (
    Positions,
    TokenColumns,
    read_labels,
    read_sequences,
)


class LabelsOfNew:
    """Labels of new sequences; learning is in `SequenceLabeler`."""

    loss: Any
    classes_: np.ndarray
    n_features_in_: int
    _model: SequenceModel
    _columns: TokenColumns | None

    def predict(self, X: Any) -> list[np.ndarray]:
        """The labels of the highest score, one array per sequence."""
        positions = self._read(X)
        return positions.split(self.classes_[self._decode(positions)])

    def predict_marginals(self, X: Any) -> list[np.ndarray]:
        """Probability of each label at each position, (length, n_labels) arrays.

        Only with loss="crf": scores of the hinge are no log probabilities.
        """
        if self.loss != "crf":
            raise ValueError(
                f"predict_marginals needs loss='crf', got loss={self.loss!r}; fit with "
                "loss='crf' for probabilities."
            )
        positions = self._read(X)
        found = np.empty((positions.table.shape[0], len(self.classes_)))
        for part in self._parts(positions):
            found[part.rows] = marginals(*part[1:]).labels
        return positions.split(found)

    def predict_best(self, X: Any, k: int = 5) -> list[list[LabeledSequence]]:
        """The k best label sequences of every sequence, best first.

        Returns
        -------
        list of lists of LabeledSequence(labels, score, probability)
            Fewer where fewer exist. The probability of the whole sequence of labels is
            known with loss="crf" only, else None.
        """
        Whole(example=5).check("k", k)
        positions = self._read(X)
        return [
            chain
            for part in self._parts(positions)
            for chain in best_sequences(part, k, self.classes_, self.loss == "crf")
        ]

    def position_scores(self, X: Any) -> list[np.ndarray]:
        """Scores of each label at each position, without those of label pairs."""
        positions = self._read(X)
        return positions.split(self._model.unary(positions.table))

    def score(self, X: Any, y: Any, scoring: Any = "tokens") -> float:
        """How good the predicted labels are, between 0 and 1.

        Parameters
        ----------
        X : list of sequences
        y : list of label sequences
        scoring : {"tokens", "sequences", "chunks"} or callable
            Share of the positions that get their label, share of the sequences without
            any wrong label, F1 of whole chunks or entities (labels such as "B-NP",
            "I-NP", "O"), or a function of true and predicted label sequences.
        """
        positions = self._read(X)
        read_labels(y, positions)
        if not positions.n_sequences:
            raise ValueError("X must hold a sequence to score, got none; pass some.")
        predicted = positions.split(self.classes_[self._decode(positions)])
        return float(sequence_metric(scoring)(y, predicted))

    def _read(self, X: Any) -> Positions:
        check_is_fitted(self, "classes_")
        return read_sequences(X, self._columns, self.n_features_in_)[0]

    def _parts(self, positions: Positions) -> Iterator[ScoredChains]:
        return self._model.scores(positions.table).parts(positions.starts)

    def _decode(self, positions: Positions) -> np.ndarray:
        """The best labels of all positions, by their places in `classes_`."""
        labels = np.empty(positions.table.shape[0], np.int64)
        for part in self._parts(positions):
            labels[part.rows] = viterbi(*part[1:])
        return labels
