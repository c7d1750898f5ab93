"""Losses of classification: the scores of all classes against the true one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax, xlogy

from manykernels.base.arrays import Array
from manykernels.device import Device
from manykernels.hot import svrg as hot
from manykernels.losses.base import Loss
from manykernels.losses.device import (
    LossThere,
    SmoothedHingeThere,
    SoftmaxThere,
    SquaredHingeThere,
)
from manykernels.norms.prox import project_simplex

Target = NDArray[np.int64]

# Rounding that a dual point may show and still count as feasible.
SLACK = 1e-9
# Outputs this close to losing their share count as having one: at a kink of the
# gradient the larger of the two curvatures gives the safer step.
AT_THE_KINK = 1e-12


def margins(scores: Array, target: Target) -> Array:
    """Score of the true output minus the highest score of a wrong one, per row.

    Examples
    --------
    >>> margins(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0])).tolist()
    [2.0, -0.5]
    """
    rows = np.arange(len(target))
    wrong = np.array(scores.T, order="C")  # largest of long rows are found faster
    own = wrong[target, rows]
    wrong[target, rows] = -np.inf
    return np.asarray(own - wrong.max(axis=0))


def is_balanced(dual: Array, target: Target) -> NDArray[np.bool_]:
    """Whether u_k <= 1[k = y] and the u_k sum to zero, per row."""
    upper = np.zeros_like(dual)
    upper[np.arange(len(target)), target] = 1.0
    inside = np.all(dual <= upper + SLACK, axis=1)
    return np.asarray(inside & (np.abs(dual.sum(axis=1)) <= SLACK * dual.shape[1]))


class BalancedLoss(Loss):
    """Losses whose gradients are probabilities less the true output's indicator."""

    def make_feasible(self, dual: Array, target: Target) -> Array:
        """Clip wrong outputs to at most 0, scale rows down to a total of 1."""
        rows = np.arange(len(target))
        feasible = np.minimum(dual, 0.0)
        feasible[rows, target] = 0.0
        total = -feasible.sum(axis=1)
        feasible /= np.maximum(total, 1.0)[:, None]
        feasible[rows, target] = -feasible.sum(axis=1)
        return feasible

    def feasible_scale(self, dual: Array, target: Target) -> float:
        """1 / (largest value at a true output), if the signs allow any scaling."""
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
class MulticlassHinge(BalancedLoss):
    r"""max over wrong k of :math:`[1 - s_y + s_k]_+`; two classes are no special case.

    The conjugate is finite on :math:`u_k \le 1[k = y], \sum_k u_k = 0`, where it
    equals :math:`-u_y`.

    Examples
    --------
    >>> loss = MulticlassHinge()
    >>> loss.value(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0])).tolist()
    [0.0, 1.5]
    """

    name: ClassVar[str] = "hinge"
    linear_dual: ClassVar[bool] = True
    has_hinge_dual: ClassVar[bool] = True

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        return np.maximum(1.0 - margins(scores, target), 0.0)

    def gradient(self, scores: Array, target: Target) -> Array:
        """-1 at the true output, 1 at the strongest wrong one, where loss > 0."""
        rows = np.arange(len(target))
        wrong = scores.copy()
        wrong[rows, target] = -np.inf
        active = (margins(scores, target) < 1.0).astype(np.float64)
        gradient = np.zeros_like(scores)
        gradient[rows, target] = -active
        gradient[rows, np.argmax(wrong, axis=1)] = active
        return gradient

    def conjugate(self, dual: Array, target: Target) -> Array:
        """Minus the dual value of the true output, where the point is feasible."""
        rows = np.arange(len(target))
        return np.where(is_balanced(dual, target), -dual[rows, target], np.inf)


@dataclass(frozen=True)
class SmoothedHinge(BalancedLoss):
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
    name: ClassVar[str] = "smoothed_hinge"

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

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        """By its width."""
        return hot.SMOOTHED_HINGE, self.width

    def on_device(self, device: Device) -> LossThere:
        """The same loss for arrays of a device."""
        return SmoothedHingeThere(device, self.width)

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        dual = -self.gradient(scores, target)
        rows = np.arange(len(target))
        linear = dual[rows, target] - np.einsum("ik,ik->i", dual, scores)
        smooth = 0.5 * self.width * np.einsum("ik,ik->i", dual, dual)
        return np.asarray(linear - smooth)

    def gradient(self, scores: Array, target: Target) -> Array:
        """pi - e_y with pi the point of the simplex that attains the maximum."""
        gradient = project_simplex(self._points(scores, target))
        gradient[np.arange(len(target)), target] -= 1.0
        return gradient

    def curvature(self, scores: Array, target: Target) -> Callable[[Array], Array]:
        """(d_k - mean of d) / width over the outputs that have a share of pi."""
        points = self._points(scores, target)
        level = np.max(points - project_simplex(points), axis=1, keepdims=True)
        shares = (points - level >= -AT_THE_KINK).astype(np.float64)
        counts = shares.sum(axis=1, keepdims=True)

        def bend(direction: Array) -> Array:
            inside = shares * direction
            means = inside.sum(axis=-1, keepdims=True) / counts
            return np.asarray((inside - shares * means) / self.width)

        return bend

    def _points(self, scores: Array, target: Target) -> Array:
        """What pi is the projection of."""
        points = (scores + 1.0) / self.width
        points[np.arange(len(target)), target] += 1.0 - 1.0 / self.width
        return points

    def conjugate(self, dual: Array, target: Target) -> Array:
        """Minus the dual value of the true output, plus the smoothing."""
        own = dual[np.arange(len(target)), target]
        smooth = 0.5 * self.width * np.einsum("ik,ik->i", dual, dual)
        return np.where(is_balanced(dual, target), smooth - own, np.inf)


@dataclass(frozen=True)
class Softmax(BalancedLoss):
    r"""Minus the logarithm of the true output's probability.

    :math:`\log \sum_k e^{s_k} - s_y`. The conjugate is finite where
    :math:`\pi = e_y - u` are probabilities, and is then minus their entropy.

    Examples
    --------
    >>> loss = Softmax()
    >>> loss.value(np.array([[0.0, 0.0]]), np.array([1])).round(4).tolist()
    [0.6931]
    """

    name: ClassVar[str] = "log"
    scores_are_logits: ClassVar[bool] = True

    @property
    def smoothness(self) -> float:
        """The largest eigenvalue of diag(pi) - pi pi'."""
        return 0.5

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        """Without a parameter."""
        return hot.LOG, 0.0

    def on_device(self, device: Device) -> LossThere:
        """The same loss for arrays of a device."""
        return SoftmaxThere(device)

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        own = scores[np.arange(len(target)), target]
        return np.asarray(logsumexp(scores, axis=1) - own)

    def gradient(self, scores: Array, target: Target) -> Array:
        """Probabilities, minus one at the true output."""
        gradient = softmax(scores, axis=1)
        gradient[np.arange(len(target)), target] -= 1.0
        return np.asarray(gradient)

    def curvature(self, scores: Array, target: Target) -> Callable[[Array], Array]:
        """pi_k (d_k - <pi, d>)."""
        chances = softmax(scores, axis=1)

        def bend(direction: Array) -> Array:
            means = np.sum(chances * direction, axis=-1, keepdims=True)
            return np.asarray(chances * (direction - means))

        return bend

    def conjugate(self, dual: Array, target: Target) -> Array:
        """Minus the entropy of e_y - u."""
        chances = -dual
        chances[np.arange(len(target)), target] += 1.0
        # Rounding may leave a tiny negative probability.
        chances = np.maximum(chances, 0.0)
        entropy = -xlogy(chances, chances).sum(axis=1)
        return np.where(is_balanced(dual, target), -entropy, np.inf)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    r""":math:`\tfrac12 \sum_k [1 - z_k s_k]_+^2`, z = 1 at the true output, else -1.

    Every class against the rest: the square of a maximum over classes would have
    kinks. The conjugate is finite on :math:`z_k u_k \ge 0`, where it equals
    :math:`\sum_k \tfrac12 u_k^2 - z_k u_k`.

    Examples
    --------
    >>> SquaredHinge().value(np.array([[1.0, 0.0]]), np.array([0])).tolist()
    [0.5]
    """

    name: ClassVar[str] = "squared_hinge"

    @property
    def smoothness(self) -> float:
        """Of half a square."""
        return 1.0

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        """Without a parameter."""
        return hot.SQUARED_HINGE, 0.0

    def on_device(self, device: Device) -> LossThere:
        """The same loss for arrays of a device."""
        return SquaredHingeThere(device)

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row."""
        gradient = self.gradient(scores, target)
        return np.asarray(0.5 * np.einsum("ik,ik->i", gradient, gradient))

    def gradient(self, scores: Array, target: Target) -> Array:
        """-z_k [1 - z_k s_k]_+."""
        signs = _signs(scores.shape, target)
        return np.asarray(-signs * np.maximum(1.0 - signs * scores, 0.0))

    def curvature(self, scores: Array, target: Target) -> Callable[[Array], Array]:
        """d_k where z_k s_k <= 1, else 0."""
        active = _signs(scores.shape, target) * scores <= 1.0
        return lambda direction: np.asarray(active * direction)

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


def _signs(shape: tuple[int, ...], target: Target) -> Array:
    signs = np.full(shape, -1.0)
    signs[np.arange(len(target)), target] = 1.0
    return signs
