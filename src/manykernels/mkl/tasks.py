"""What a search over p and C asks of a classification or a regression problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks import Bank
from manykernels.losses import Loss
from manykernels.mkl.judging import (
    KnownProbabilities,
    KnownScores,
    KnownValues,
    judge,
)
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Problem


@dataclass(frozen=True)
class ClassTask:
    """Labels to predict."""

    classes: np.ndarray
    target: np.ndarray  # (rows,) positions among the classes
    weight: np.ndarray  # (rows,)
    loss: Loss
    scoring: Any
    weighted: bool  # whether scores count the weights
    per_target = False

    def problem(
        self, bank: Bank, rows: np.ndarray, norm: LpGroupNorm, C: float
    ) -> Problem:
        """The problem on some of the rows, which are those of the bank."""
        target, weight = self.target[rows], self.weight[rows]
        return Problem(bank, target, len(self.classes), self.loss, norm, C, weight)

    def judge(
        self, scores: np.ndarray, train: np.ndarray, held: np.ndarray
    ) -> np.ndarray:
        """The score of some rows, shape (1,)."""
        logits = self.loss.scores_are_logits
        kind = KnownProbabilities if logits else KnownScores
        known = kind(scores, self.classes)
        weight = self.weight[held] if self.weighted else None
        labels = self.classes[self.target[held]]
        return np.array([judge(self.scoring, known, labels, weight)])


@dataclass(frozen=True)
class ValueTask:
    """Numbers to predict."""

    values: np.ndarray  # (rows, targets), as they came
    weight: np.ndarray  # (rows,)
    loss: Loss
    scoring: Any
    weighted: bool
    center: bool
    per_target: bool

    def problem(
        self, bank: Bank, rows: np.ndarray, norm: LpGroupNorm, C: float
    ) -> Problem:
        """The problem on some of the rows, less their mean."""
        target, weight = self.values[rows] - self._mean(rows), self.weight[rows]
        return Problem(bank, target, target.shape[1], self.loss, norm, C, weight)

    def _mean(self, rows: np.ndarray) -> np.ndarray:
        if not self.center:
            return np.zeros(self.values.shape[1])
        mean = np.average(self.values[rows], axis=0, weights=self.weight[rows])
        return np.asarray(mean)

    def judge(
        self, scores: np.ndarray, train: np.ndarray, held: np.ndarray
    ) -> np.ndarray:
        """The score of some rows; one per target if these are apart, else one."""
        return self.judge_values(scores + self._mean(train), held)

    def judge_values(self, predicted: np.ndarray, held: np.ndarray) -> np.ndarray:
        """The same, for predictions that have their intercept."""
        weight = self.weight[held] if self.weighted else None
        true = self.values[held]
        if self.per_target:
            columns = [(true[:, k], predicted[:, k]) for k in range(true.shape[1])]
        elif true.shape[1] == 1:
            columns = [(true[:, 0], predicted[:, 0])]
        else:
            columns = [(true, predicted)]
        return np.array(
            [judge(self.scoring, KnownValues(p), y, weight) for y, p in columns]
        )


Task = ClassTask | ValueTask
