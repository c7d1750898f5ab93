"""The multiclass hinge loss without its kinks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.losses.hinge import balanced_scale, feasible_balanced, is_balanced

Target = NDArray[np.int64]


@dataclass(frozen=True)
class SmoothedHinge:
    r"""The multiclass hinge, smoothed over a margin of width `width` (gamma).

    .. math::
        \max_{\pi \in \Delta} \langle \pi, s + 1 - e_y \rangle - s_y
        - \tfrac\gamma2 \|\pi - e_y\|^2

    Zero where every margin is at least 1, at most gamma below the hinge elsewhere.
    The conjugate is the hinge's plus :math:`\tfrac\gamma2 \|u\|^2`.

    Parameters
    ----------
    width : float
        Larger is smoother; 0 would be the hinge itself.

    Examples
    --------
    >>> loss = SmoothedHinge(width=0.5)
    >>> loss.value(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 0])).tolist()
    [0.0, 1.5]
    """

    width: float = 0.5
    name: str = "smoothed_hinge"
    linear_dual: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.width < np.inf:
            raise ValueError(
                f"width of the smoothed hinge must be a positive number, got "
                f"{self.width!r}; choose for instance 0.5."
            )

    @property
    def smoothness(self) -> float:
        """1 / width."""
        return 1.0 / self.width

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        dual = -self.gradient(scores, target)
        rows = np.arange(len(target))
        linear = dual[rows, target] - np.einsum("ik,ik->i", dual, scores)
        smooth = 0.5 * self.width * np.einsum("ik,ik->i", dual, dual)
        return np.asarray(linear - smooth)

    def gradient(self, scores: Array, target: Target) -> Array:
        """pi - e_y with pi the point of the simplex that attains the maximum."""
        rows = np.arange(len(target))
        points = (scores + 1.0) / self.width
        points[rows, target] += 1.0 - 1.0 / self.width
        gradient = project_simplex(points)
        gradient[rows, target] -= 1.0
        return gradient

    def conjugate(self, dual: Array, target: Target) -> Array:
        """Minus the dual value of the true output, plus the smoothing."""
        own = dual[np.arange(len(target)), target]
        smooth = 0.5 * self.width * np.einsum("ik,ik->i", dual, dual)
        return np.where(is_balanced(dual, target), smooth - own, np.inf)

    def make_feasible(self, dual: Array, target: Target) -> Array:
        """Clip wrong outputs to at most 0, scale rows down to a total of 1."""
        return feasible_balanced(dual, target)

    def feasible_scale(self, dual: Array, target: Target) -> float:
        """1 / (largest value at a true output), if the signs allow any scaling."""
        return balanced_scale(dual, target)

    def predict(self, scores: Array) -> Target:
        """The output of the highest score."""
        return np.asarray(np.argmax(scores, axis=1))


def project_simplex(points: Array) -> Array:
    """The nearest probabilities to every row.

    Examples
    --------
    >>> project_simplex(np.array([[0.5, 0.0], [3.0, 0.0]])).tolist()
    [[0.75, 0.25], [1.0, 0.0]]
    """
    ordered = -np.sort(-points, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1.0
    counts = np.arange(1, points.shape[1] + 1)
    kept = np.sum(ordered * counts > excess, axis=1)
    level = excess[np.arange(len(points)), kept - 1] / kept
    return np.asarray(np.maximum(points - level[:, None], 0.0))
