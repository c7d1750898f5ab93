"""The squared hinge loss, every class against the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array

Target = NDArray[np.int64]

SLACK = 1e-9


@dataclass(frozen=True)
class SquaredHinge:
    r""":math:`\tfrac12 \sum_k [1 - z_k s_k]_+^2`, z = 1 at the true output, else -1.

    Every class against the rest: the square of a maximum over classes would have
    kinks. The conjugate is finite on :math:`z_k u_k \ge 0`, where it equals
    :math:`\sum_k \tfrac12 u_k^2 - z_k u_k`.

    Examples
    --------
    >>> SquaredHinge().value(np.array([[1.0, 0.0]]), np.array([0])).tolist()
    [0.5]
    """

    name: str = "squared_hinge"
    smoothness: float = 1.0
    linear_dual: bool = False

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        gradient = self.gradient(scores, target)
        return np.asarray(0.5 * np.einsum("ik,ik->i", gradient, gradient))

    def gradient(self, scores: Array, target: Target) -> Array:
        """-z_k [1 - z_k s_k]_+."""
        signs = _signs(scores.shape, target)
        return np.asarray(-signs * np.maximum(1.0 - signs * scores, 0.0))

    def conjugate(self, dual: Array, target: Target) -> Array:
        """Half the square minus the sum of z_k u_k."""
        signed = _signs(dual.shape, target) * dual
        inside = np.all(signed >= -SLACK, axis=1)
        return np.where(inside, np.sum(0.5 * signed**2 - signed, axis=1), np.inf)

    def make_feasible(self, dual: Array, target: Target) -> Array:
        """Wrong signs set to zero."""
        signs = _signs(dual.shape, target)
        return np.asarray(signs * np.maximum(signs * dual, 0.0))

    def feasible_scale(self, dual: Array, target: Target) -> float:
        """Any scale, if the signs are right."""
        right = np.all(_signs(dual.shape, target) * dual >= -SLACK)
        return np.inf if right else 0.0

    def predict(self, scores: Array) -> Target:
        """The output of the highest score."""
        return np.asarray(np.argmax(scores, axis=1))


def _signs(shape: tuple[int, ...], target: Target) -> Array:
    signs = np.full(shape, -1.0)
    signs[np.arange(len(target)), target] = 1.0
    return signs
