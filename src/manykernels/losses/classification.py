"""Losses of classification: the scores of all classes against the true one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.device import DeviceArray, namespace
from manykernels.hot import svrg_epochs as hot
from manykernels.losses.base import FEASIBILITY_SLACK, LinearMap, Loss
from manykernels.norms.proximity import project_simplex, simplex_level

# Outputs this close to losing their share count as having one: at a kink of the
# gradient the larger of the two curvatures gives the safer step.
KINK_TOL = 1e-12


def margins(scores: Array, target: NDArray[np.int64]) -> Array:
    """Score of the true output minus the highest score of a wrong one, per row.

    Examples
    --------
    >>> margins(np.array([[2.0, 0.0], [0.0, 0.5]]), np.array([0, 0])).tolist()
    [2.0, -0.5]
    """
    rows = np.arange(len(target))
    wrong = np.array(scores.T, order="C")  # largest of long rows are found faster
    true_scores = wrong[target, rows]
    wrong[target, rows] = -np.inf
    return np.asarray(true_scores - wrong.max(axis=0))


def one_hot(target: DeviceArray, like: DeviceArray) -> DeviceArray:
    """Return ones at the true outputs, zeros elsewhere, in the shape of `like`."""
    xp = namespace(like)
    # Counted up from an array, so that the numbers are on the same device.
    outputs = xp.cumulative_sum(xp.ones_like(like[:1, :]), axis=1) - 1.0
    hits = outputs == xp.astype(target, like.dtype)[:, None]
    return xp.astype(hits, like.dtype)


class BalancedLoss(Loss):
    """Losses whose gradients are probabilities less the true output's indicator."""

    def make_feasible(self, dual: Array, target: NDArray[np.int64]) -> Array:
        # Wrong outputs are clipped to at most 0, rows scaled down to a total of 1.
        rows = np.arange(len(target))
        feasible = np.minimum(dual, 0.0)
        feasible[rows, target] = 0.0
        total = -feasible.sum(axis=1)
        feasible /= np.maximum(total, 1.0)[:, None]
        feasible[rows, target] = -feasible.sum(axis=1)
        return feasible

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        # 1 / (largest value at a true output), if the signs allow any scaling.
        xp, true = namespace(dual), one_hot(target, dual)
        largest = max(0.0, float(xp.max(dual * true)))
        wrong = float(xp.max(dual * (1.0 - true)))
        total = float(xp.max(xp.abs(xp.sum(dual, axis=1))))
        slack = FEASIBILITY_SLACK * max(largest, 1.0)
        return 0.0 if largest == 0.0 or max(wrong, total) > slack else 1.0 / largest

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        # Finite where u_k <= 1[k = y] and the u_k sum to zero.
        xp, true = namespace(dual), one_hot(target, dual)
        below = xp.all(dual <= true + FEASIBILITY_SLACK, axis=1)
        slack = FEASIBILITY_SLACK * dual.shape[1]
        inside = below & (xp.abs(xp.sum(dual, axis=1)) <= slack)
        values = self._conjugate_inside(dual, true)
        return xp.where(inside, values, xp.full_like(values, float("inf")))

    @abstractmethod
    def _conjugate_inside(self, dual: DeviceArray, true: DeviceArray) -> DeviceArray:
        """Return the conjugate of feasible rows."""


@dataclass(frozen=True)
class MulticlassHinge(BalancedLoss):
    r"""max over wrong k of :math:`[1 - s_y + s_k]_+`; binary problems use it as well.

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

    def value(self, scores: Array, target: NDArray[np.int64]) -> Array:
        return np.maximum(1.0 - margins(scores, target), 0.0)

    def gradient(self, scores: Array, target: NDArray[np.int64]) -> Array:
        # -1 at the true output, 1 at the strongest wrong one, where the loss is > 0.
        rows = np.arange(len(target))
        wrong = scores.copy()
        wrong[rows, target] = -np.inf
        active = (margins(scores, target) < 1.0).astype(np.float64)
        gradient = np.zeros_like(scores)
        gradient[rows, target] = -active
        gradient[rows, np.argmax(wrong, axis=1)] = active
        return gradient

    def _conjugate_inside(self, dual: DeviceArray, true: DeviceArray) -> DeviceArray:
        return -np.sum(dual * true, axis=1)


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
    takes_any_array: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.width < np.inf:
            raise ValueError(
                f"width of the smoothed hinge must be a positive number, got "
                f"{self.width!r}; choose for instance 0.5."
            )

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        return hot.SMOOTHED_HINGE, self.width

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        true = one_hot(target, scores)
        dual = true - project_simplex(self._unprojected(scores, true))
        rest = true - scores - 0.5 * self.width * dual
        return namespace(scores).sum(dual * rest, axis=1)

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        # pi - e_y with pi the point of the simplex that attains the maximum.
        true = one_hot(target, scores)
        return project_simplex(self._unprojected(scores, true)) - true

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        # (d_k - mean of d) / width over the outputs that have a share of pi.
        xp = namespace(scores)
        points = self._unprojected(scores, one_hot(target, scores))
        has_share = points - simplex_level(points) >= -KINK_TOL
        shares = xp.astype(has_share, scores.dtype)
        counts = xp.sum(shares, axis=1, keepdims=True)

        def hessian_product(direction: DeviceArray) -> DeviceArray:
            inside = shares * direction
            means = xp.sum(inside, axis=-1, keepdims=True) / counts
            return (inside - shares * means) / self.width

        return hessian_product

    def _unprojected(self, scores: DeviceArray, true: DeviceArray) -> DeviceArray:
        """The point whose projection on the simplex is pi."""
        return (scores + 1.0 - true) / self.width + true

    def _conjugate_inside(self, dual: DeviceArray, true: DeviceArray) -> DeviceArray:
        rest = 0.5 * self.width * dual - true
        return namespace(dual).sum(dual * rest, axis=1)


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
    takes_any_array: ClassVar[bool] = True

    @property
    def smoothness(self) -> float:
        return 0.5  # the largest eigenvalue of diag(pi) - pi pi'

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        return hot.LOG, 0.0

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        xp = namespace(scores)
        largest = xp.max(scores, axis=1, keepdims=True)
        total = xp.log(xp.sum(xp.exp(scores - largest), axis=1)) + largest[:, 0]
        return total - xp.sum(scores * one_hot(target, scores), axis=1)

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        return probabilities(scores) - one_hot(target, scores)

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        # pi_k (d_k - <pi, d>)
        xp, shares = namespace(scores), probabilities(scores)

        def hessian_product(direction: DeviceArray) -> DeviceArray:
            means = xp.sum(shares * direction, axis=-1, keepdims=True)
            return shares * (direction - means)

        return hessian_product

    def _conjugate_inside(self, dual: DeviceArray, true: DeviceArray) -> DeviceArray:
        # Rounding may leave a tiny negative probability, and 0 log 0 is 0.
        xp, shares = namespace(dual), true - dual
        safe = xp.where(shares > 0.0, shares, xp.ones_like(shares))
        return xp.sum(safe * xp.log(safe), axis=1)


def probabilities(scores: DeviceArray) -> DeviceArray:
    """Return the softmax of every row."""
    xp = namespace(scores)
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


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
    takes_any_array: ClassVar[bool] = True

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        return hot.SQUARED_HINGE, 0.0

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        gradient = self.gradient(scores, target)
        return 0.5 * namespace(scores).sum(gradient * gradient, axis=1)

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        # -z_k [1 - z_k s_k]_+
        signs, xp = _signs(target, scores), namespace(scores)
        return -signs * xp.clip(1.0 - signs * scores, 0.0, None)

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        # d_k where z_k s_k <= 1, else 0.
        inside = _signs(target, scores) * scores <= 1.0
        active = namespace(scores).astype(inside, scores.dtype)
        return lambda direction: active * direction

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        xp, signed = namespace(dual), _signs(target, dual) * dual
        inside = xp.all(signed >= -FEASIBILITY_SLACK, axis=1)
        values = xp.sum(0.5 * signed**2 - signed, axis=1)
        return xp.where(inside, values, xp.full_like(values, float("inf")))

    def make_feasible(self, dual: Array, target: NDArray[np.int64]) -> Array:
        signs = _signs(target, dual)
        return np.asarray(signs * np.maximum(signs * dual, 0.0))

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        # Any scale, if the signs are right.
        lowest = float(namespace(dual).min(_signs(target, dual) * dual))
        return np.inf if lowest >= -FEASIBILITY_SLACK else 0.0


def _signs(target: DeviceArray, like: DeviceArray) -> DeviceArray:
    return 2.0 * one_hot(target, like) - 1.0
