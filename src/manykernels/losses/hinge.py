"""The multiclass hinge loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array

Target = NDArray[np.int64]

# Rounding that a dual point may show and still count as feasible.
SLACK = 1e-9


def margins(scores: Array, target: Target) -> Array:
    """Score of the true output minus the highest score of a wrong one, per row.

    Examples
    --------
    >>> margins(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0])).tolist()
    [2.0, -0.5]
    """
    rows = np.arange(len(target))
    rivals = scores.copy()
    rivals[rows, target] = -np.inf
    return np.asarray(scores[rows, target] - rivals.max(axis=1))


def is_balanced(dual: Array, target: Target) -> NDArray[np.bool_]:
    """Whether u_k <= 1[k = y] and the u_k sum to zero, per row."""
    upper = np.zeros_like(dual)
    upper[np.arange(len(target)), target] = 1.0
    inside = np.all(dual <= upper + SLACK, axis=1)
    return np.asarray(inside & (np.abs(dual.sum(axis=1)) <= SLACK * dual.shape[1]))


def feasible_balanced(dual: Array, target: Target) -> Array:
    """Clip wrong outputs to at most 0, scale rows down to a total of 1."""
    rows = np.arange(len(target))
    feasible = np.minimum(dual, 0.0)
    feasible[rows, target] = 0.0
    total = -feasible.sum(axis=1)
    feasible /= np.maximum(total, 1.0)[:, None]
    feasible[rows, target] = -feasible.sum(axis=1)
    return feasible


def balanced_scale(dual: Array, target: Target) -> float:
    """The largest t for which all rows of t * dual are balanced; 0 if none is."""
    rows = np.arange(len(target))
    own = dual[rows, target]
    wrong = dual.copy()
    wrong[rows, target] = 0.0
    largest = float(np.max(own, initial=0.0))
    slack = SLACK * max(largest, 1.0)
    if np.any(wrong > slack) or np.any(np.abs(dual.sum(axis=1)) > slack):
        return 0.0
    return 1.0 / largest if largest > 0.0 else 0.0


@dataclass(frozen=True)
class MulticlassHinge:
    r"""max over wrong k of :math:`[1 - s_y + s_k]_+`; two classes are no special case.

    The conjugate is finite on :math:`u_k \le 1[k = y], \sum_k u_k = 0`, where it
    equals :math:`-u_y`.

    Examples
    --------
    >>> loss = MulticlassHinge()
    >>> loss.value(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0])).tolist()
    [0.0, 1.5]
    """

    name: str = "hinge"
    smoothness: None = None
    linear_dual: bool = True

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        return np.maximum(1.0 - margins(scores, target), 0.0)

    def gradient(self, scores: Array, target: Target) -> Array:
        """Minus one at the true output, one at its strongest rival, where loss > 0."""
        rows = np.arange(len(target))
        rivals = scores.copy()
        rivals[rows, target] = -np.inf
        active = (margins(scores, target) < 1.0).astype(np.float64)
        gradient = np.zeros_like(scores)
        gradient[rows, target] = -active
        gradient[rows, np.argmax(rivals, axis=1)] = active
        return gradient

    def conjugate(self, dual: Array, target: Target) -> Array:
        """Minus the dual value of the true output, where the point is feasible."""
        rows = np.arange(len(target))
        return np.where(is_balanced(dual, target), -dual[rows, target], np.inf)

    def make_feasible(self, dual: Array, target: Target) -> Array:
        """Clip wrong outputs to at most 0, scale rows down to a total of 1."""
        return feasible_balanced(dual, target)

    def feasible_scale(self, dual: Array, target: Target) -> float:
        """1 / (largest value at a true output), if the signs allow any scaling."""
        return balanced_scale(dual, target)

    def predict(self, scores: Array) -> Target:
        """The output of the highest score."""
        return np.asarray(np.argmax(scores, axis=1))
