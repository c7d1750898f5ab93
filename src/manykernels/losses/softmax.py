"""The multinomial logistic loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax, xlogy

from manykernels.base.arrays import Array
from manykernels.losses.hinge import balanced_scale, feasible_balanced, is_balanced

Target = NDArray[np.int64]


@dataclass(frozen=True)
class Softmax:
    r"""Minus the logarithm of the true output's probability.

    :math:`\log \sum_k e^{s_k} - s_y`. The conjugate is finite where
    :math:`\pi = e_y - u` are probabilities, and is then minus their entropy.

    Examples
    --------
    >>> loss = Softmax()
    >>> loss.value(np.array([[0.0, 0.0]]), np.array([1])).round(4).tolist()
    [0.6931]
    """

    name: str = "log"
    smoothness: float = 0.5
    linear_dual: bool = False

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        own = scores[np.arange(len(target)), target]
        return np.asarray(logsumexp(scores, axis=1) - own)

    def gradient(self, scores: Array, target: Target) -> Array:
        """Probabilities, minus one at the true output."""
        gradient = softmax(scores, axis=1)
        gradient[np.arange(len(target)), target] -= 1.0
        return np.asarray(gradient)

    def conjugate(self, dual: Array, target: Target) -> Array:
        """Minus the entropy of e_y - u."""
        chances = -dual
        chances[np.arange(len(target)), target] += 1.0
        # Rounding may leave a tiny negative probability.
        chances = np.maximum(chances, 0.0)
        entropy = -xlogy(chances, chances).sum(axis=1)
        return np.where(is_balanced(dual, target), -entropy, np.inf)

    def make_feasible(self, dual: Array, target: Target) -> Array:
        """Clip wrong outputs to at most 0, scale rows down to a total of 1."""
        return feasible_balanced(dual, target)

    def feasible_scale(self, dual: Array, target: Target) -> float:
        """1 / (largest value at a true output), if the signs allow any scaling."""
        return balanced_scale(dual, target)

    def predict(self, scores: Array) -> Target:
        """The output of the highest score."""
        return np.asarray(np.argmax(scores, axis=1))
