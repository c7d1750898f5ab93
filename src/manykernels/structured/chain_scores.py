"""Scores of chains, part by part where every position has a table of transitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from manykernels.base.arrays import Array
from manykernels.structured.chain_decoder import Labels, k_best, log_partition

TABLE_BYTES = 2**25  # of transitions that exist at a time


class ScoredChains(NamedTuple):
    """Some chains, laid end to end, with all that a decoder asks for."""

    rows: slice  # their positions among all
    unary: Array  # (positions, labels)
    transitions: Array  # (labels, labels) or (positions, labels, labels)
    starts: Labels  # (chains + 1,), from 0


@dataclass(frozen=True)
class ChainScores:
    """Scores of labels, of label pairs, and of pairs by features of the position.

    Parameters
    ----------
    unary : array of shape (positions, labels)
    pairs : array of shape (labels, labels)
    edge_features : CSR of shape (positions, columns), optional
    edge_table : array of shape (columns, labels * labels), optional
        What a column adds to the score of every pair.
    """

    unary: Array
    pairs: Array
    edge_features: Any = None
    edge_table: Array | None = None

    def parts(self, starts: Labels) -> Iterator[ScoredChains]:
        """All chains at once, or as many as memory for their tables allows.

        Examples
        --------
        >>> scores = ChainScores(np.zeros((3, 2)), np.eye(2))
        >>> [part.starts.tolist() for part in scores.parts(np.array([0, 1, 3]))]
        [[0, 1, 3]]
        """
        if self.edge_features is None:
            yield ScoredChains(
                slice(0, len(self.unary)), self.unary, self.pairs, starts
            )
            return
        most = max(1, TABLE_BYTES // (8 * self.pairs.size))
        first = 0
        while first < len(starts) - 1:
            fit = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
            last = max(fit, first + 1)
            rows = slice(int(starts[first]), int(starts[last]))
            own = starts[first : last + 1] - starts[first]
            yield ScoredChains(rows, self.unary[rows], self._tables(rows), own)
            first = last

    def _tables(self, rows: slice) -> Array:
        extra = np.asarray(self.edge_features[rows] @ self.edge_table)
        return self.pairs + extra.reshape(-1, *self.pairs.shape)


class LabeledSequence(NamedTuple):
    """Labels of a whole sequence, their score, and how probable all of them are."""

    labels: np.ndarray
    score: float
    probability: float | None


def best_sequences(
    part: ScoredChains, k: int, classes: np.ndarray, probabilities: bool
) -> list[list[LabeledSequence]]:
    """The k best label sequences of every chain, best first."""
    _, unary, transitions, starts = part
    totals: Any = [None] * (len(starts) - 1)
    if probabilities:
        totals = log_partition(unary, transitions, starts)
    found = k_best(unary, transitions, k, starts)
    return [
        [
            LabeledSequence(
                classes[path],
                float(score),
                None if total is None else float(np.exp(score - total)),
            )
            for path, score in zip(labels, scores, strict=True)
        ]
        for (labels, scores), total in zip(found, totals, strict=True)
    ]
