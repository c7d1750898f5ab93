"""Predictions of a fitted labeler, and what its weights are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manykernels.base.arrays import Array
from manykernels.inputs.parameters import Whole
from manykernels.kernels.kernel_set import KernelSet
from manykernels.structured.decoders import ChainDecoder
from manykernels.structured.sequence_model import SequenceModel
from manykernels.structured.sequence_scores import sequence_metric
from manykernels.structured.sequences import (
    Positions,
    TokenColumns,
    read_labels,
    read_sequences,
)

LINEAR = ("linear", "cosine")  # kernels whose features are the columns


class FeatureWeight(NamedTuple):
    """What a column adds to the score of a label."""

    feature: str
    weight: float


class Transition(NamedTuple):
    """What one label after another scores: always, or times a feature's value."""

    before: Any
    after: Any
    feature: str | None
    weight: float


class LabeledSequence(NamedTuple):
    """Labels of a whole sequence, their score, and how probable all of them are."""

    labels: np.ndarray
    score: float
    probability: float | None


class LabelerPredictions:
    """The part of `SequenceLabeler` that reads a model and never changes it."""

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
        chances = np.empty((positions.table.shape[0], len(self.classes_)))
        for rows, decoder in self._decoders(positions):
            chances[rows] = decoder.marginals().labels
        return positions.split(chances)

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
        with_probabilities = self.loss == "crf"
        best: list[list[LabeledSequence]] = []
        for _, decoder in self._decoders(positions):
            totals = decoder.log_partition() if with_probabilities else None
            for chain, (paths, scores) in enumerate(decoder.k_best(k)):
                chances: Any = [None] * len(scores)
                if totals is not None:
                    chances = np.exp(scores - totals[chain]).tolist()
                parts = zip(self.classes_[paths], scores.tolist(), chances, strict=True)
                best.append([LabeledSequence(*part) for part in parts])
        return best

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

    def strongest_features(self, n: int = 10) -> dict[Any, list[FeatureWeight]]:
        """For every label the features with the largest weights, by size.

        These are the largest of :meth:`feature_weights`.

        Returns
        -------
        dict from label to list of FeatureWeight(feature, weight)
        """
        Whole(example=10).check("n", n)
        weights, names = self.feature_weights(), self._column_names()
        return {
            label: [
                FeatureWeight(names[i], float(column[i])) for i in _strongest(column, n)
            ]
            for label, column in zip(self.classes_.tolist(), weights.T, strict=True)
        }

    def strongest_transitions(self, n: int = 10) -> list[Transition]:
        """Pairs of neighboring labels that score most, or least.

        Returns
        -------
        list of Transition(before, after, feature, weight)
            The feature, one of `edges`, times which the weight is added; None for the
            table `transitions_`, which holds always.
        """
        Whole(example=10).check("n", n)
        check_is_fitted(self, "classes_")
        weights, edges = self._model.weights, self._model.kernels.edges
        table, names = weights.pairs.reshape(1, -1), self._column_names()
        if edges is not None:
            table = np.vstack([table, column_weights(edges, weights.edges)])
        labels, named = self.classes_.tolist(), [None, *names]
        shape = (len(table), len(labels), len(labels))
        places = np.unravel_index(_strongest(table.ravel(), n), shape)
        return [
            Transition(labels[j], labels[k], named[i], float(weight))
            for i, j, k, weight in zip(
                *places, table.reshape(shape)[places], strict=True
            )
        ]

    def feature_weights(self) -> Array:
        """What each column adds to each label's score, `(n_features_in_, n_labels)`.

        Needs linear kernels. Weights belong to columns as the kernels scale them: by
        default every row of a kernel has length 1, so that the only text of its group
        counts 1.
        """
        check_is_fitted(self, "classes_")
        kernels = self._model.kernels
        valued = kernels.blocks_of("dense", "sparse")
        require_linear([kernels.names[f] for f in valued])
        assert kernels.explicit is not None  # without kernel values, all kernels are
        return column_weights(kernels.explicit, self._model.weights.table)

    def _column_names(self) -> list[str]:
        if self._columns is not None:
            return list(self._columns.names)
        return [f"x{column}" for column in range(self.n_features_in_)]

    def _read(self, X: Any) -> Positions:
        check_is_fitted(self, "classes_")
        return read_sequences(X, self._columns, self.n_features_in_)[0]

    def _decoders(self, positions: Positions) -> Iterator[tuple[slice, ChainDecoder]]:
        return self._model.scores(positions.table).decoders(positions.starts)

    def _decode(self, positions: Positions) -> np.ndarray:
        """Indices in `classes_` of the best labels of all positions."""
        labels = np.empty(positions.table.shape[0], np.int64)
        for rows, decoder in self._decoders(positions):
            labels[rows], _ = decoder.best()
        return labels


def column_weights(kernels: KernelSet, table: Array) -> Array:
    """Weights of the columns of the data, (columns, outputs), summed over kernels.

    Kernels scale the rows they read, by default to length 1; a weight is the score per
    unit of the scaled column.
    """
    total = np.zeros((kernels.n_columns, table.shape[1]))
    parts = np.split(table, np.cumsum(kernels.n_feature_columns())[:-1])
    group: Any
    for group in kernels.groups:
        columns = np.arange(kernels.n_columns)[group.columns]
        for f in group.members:
            # Features of other kernels are no columns of the data.
            kernel = kernels.kernels[f]
            if kernel.kind not in LINEAR or kernel.approximate is not None:
                require_linear([kernel.label])
            total[columns] += np.sqrt(kernels.scalings[f].factor) * parts[f]
    return total


def require_linear(others: Sequence[str]) -> None:
    """Raise if there are kernels whose features are no columns."""
    if others:
        raise ValueError(
            "weights of features need linear kernels only, got "
            f"{others[0]!r}; see kernel_weights_, or fit with 'linear'."
        )


def _strongest(weights: Array, n: int) -> Any:
    """Places of the n weights of the largest size that are not zero."""
    sizes = np.abs(weights)
    n = min(n, int(np.count_nonzero(sizes)))
    # Partitioned first: millions of weights need not be sorted for ten of them.
    few = np.argpartition(-sizes, n - 1)[:n] if n else np.empty(0, np.intp)
    return few[np.argsort(-sizes[few], kind="stable")]
