"""Losses of regression: functions of the residual s - y, summed over the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.base.arrays import Array
from manykernels.device import Device
from manykernels.hot import svrg as hot
from manykernels.losses.base import Loss, ResidualDual
from manykernels.losses.device import HuberThere, LossThere, SquaredThere

SLACK = 1e-9


@dataclass(frozen=True)
class Squared(Loss):
    r"""Half the squared residual, :math:`\tfrac12 \|s - y\|^2`.

    The conjugate at -u is :math:`\tfrac12 \|u\|^2 - \langle u, y \rangle`.

    Examples
    --------
    >>> Squared().value(np.array([[3.0]]), np.array([[1.0]])).tolist()
    [2.0]
    """

    name: ClassVar[str] = "squared"
    is_squared: ClassVar[bool] = True

    @property
    def smoothness(self) -> float:
        """Of half a square."""
        return 1.0

    @property
    def residual_dual(self) -> ResidualDual:
        """Half a square without bounds."""
        return ResidualDual(0.0, 1.0, np.inf)

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        """Without a parameter."""
        return hot.SQUARED, 0.0

    def on_device(self, device: Device) -> LossThere:
        """The same loss for arrays of a device."""
        return SquaredThere(device)

    def value(self, scores: Array, target: Array) -> Array:
        """Loss of every row."""
        residual = scores - target
        return np.asarray(0.5 * np.einsum("ik,ik->i", residual, residual))

    def gradient(self, scores: Array, target: Array) -> Array:
        """The residual."""
        return scores - target

    def curvature(self, scores: Array, target: Array) -> Callable[[Array], Array]:
        """The direction itself."""
        return np.copy

    def conjugate(self, dual: Array, target: Array) -> Array:
        """Finite everywhere."""
        return np.asarray(np.sum(0.5 * dual**2 - dual * target, axis=1))

    def make_feasible(self, dual: Array, target: Array) -> Array:
        """Every point is."""
        return dual

    def feasible_scale(self, dual: Array, target: Array) -> float:
        """Any scale."""
        return np.inf


@dataclass(frozen=True)
class Huber(Loss):
    r"""Half the square up to `threshold`, a line beyond it: outliers pull less.

    The conjugate is that of the squared loss where :math:`|u_k| \le` threshold.

    Parameters
    ----------
    threshold : float
        Residual, in units of y, from which on the loss grows linearly.

    Examples
    --------
    >>> Huber(1.0).value(np.array([[0.5], [3.0]]), np.zeros((2, 1))).tolist()
    [0.125, 2.5]
    """

    threshold: float = 1.0
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold < np.inf:
            raise ValueError(
                f"threshold of the Huber loss must be a positive number, got "
                f"{self.threshold!r}; choose for instance 1.0."
            )

    @property
    def smoothness(self) -> float:
        """Of half a square."""
        return 1.0

    @property
    def residual_dual(self) -> ResidualDual:
        """Half a square up to the threshold."""
        return ResidualDual(0.0, 1.0, self.threshold)

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        """By its threshold."""
        return hot.HUBER, self.threshold

    def on_device(self, device: Device) -> LossThere:
        """The same loss for arrays of a device."""
        return HuberThere(device, self.threshold)

    def value(self, scores: Array, target: Array) -> Array:
        """Loss of every row."""
        size = np.abs(scores - target)
        inner = np.minimum(size, self.threshold)
        return np.asarray(np.sum(inner * (size - 0.5 * inner), axis=1))

    def gradient(self, scores: Array, target: Array) -> Array:
        """The residual, clipped to the threshold."""
        return np.clip(scores - target, -self.threshold, self.threshold)

    def curvature(self, scores: Array, target: Array) -> Callable[[Array], Array]:
        """d_k where the residual is within the threshold, else 0."""
        inside = np.abs(scores - target) <= self.threshold
        return lambda direction: np.asarray(inside * direction)

    def conjugate(self, dual: Array, target: Array) -> Array:
        """That of the squared loss, inside the threshold."""
        inside = np.all(np.abs(dual) <= self.threshold * (1.0 + SLACK), axis=1)
        values = np.sum(0.5 * dual**2 - dual * target, axis=1)
        return np.where(inside, values, np.inf)

    def make_feasible(self, dual: Array, target: Array) -> Array:
        """Clipped to the threshold."""
        return np.clip(dual, -self.threshold, self.threshold)

    def feasible_scale(self, dual: Array, target: Array) -> float:
        """Threshold / largest value."""
        return _scale_into(dual, self.threshold)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    r"""What residuals exceed `epsilon` by, :math:`\sum_k [|s_k - y_k| - \epsilon]_+`.

    The conjugate is :math:`\epsilon \|u\|_1 - \langle u, y \rangle` where
    :math:`|u_k| \le 1`.

    Parameters
    ----------
    epsilon : float
        Residuals up to this size, in units of y, cost nothing.

    Examples
    --------
    >>> loss = EpsilonInsensitive(0.5)
    >>> loss.value(np.array([[0.4], [2.0]]), np.zeros((2, 1))).tolist()
    [0.0, 1.5]
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "epsilon_insensitive"
    linear_dual: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon < np.inf:
            raise ValueError(
                f"epsilon must be a number >= 0, got {self.epsilon!r}; choose for "
                "instance 0.1."
            )

    @property
    def residual_dual(self) -> ResidualDual:
        """A tube and a box."""
        return ResidualDual(self.epsilon, 0.0, 1.0)

    def value(self, scores: Array, target: Array) -> Array:
        """Loss of every row."""
        beyond = np.abs(scores - target) - self.epsilon
        return np.asarray(np.sum(np.maximum(beyond, 0.0), axis=1))

    def gradient(self, scores: Array, target: Array) -> Array:
        """The residual's sign, outside the tube."""
        residual = scores - target
        return np.asarray(np.sign(residual) * (np.abs(residual) > self.epsilon))

    def conjugate(self, dual: Array, target: Array) -> Array:
        """Finite in the unit box."""
        inside = np.all(np.abs(dual) <= 1.0 + SLACK, axis=1)
        values = np.sum(self.epsilon * np.abs(dual) - dual * target, axis=1)
        return np.where(inside, values, np.inf)

    def make_feasible(self, dual: Array, target: Array) -> Array:
        """Clipped to the box."""
        return np.clip(dual, -1.0, 1.0)

    def feasible_scale(self, dual: Array, target: Array) -> float:
        """1 / largest value."""
        return _scale_into(dual, 1.0)


def _scale_into(dual: Array, limit: float) -> float:
    largest = float(np.max(np.abs(dual), initial=0.0))
    return limit / largest if largest > 0.0 else np.inf
