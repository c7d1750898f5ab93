"""Losses of regression: functions of the residual s - y, summed over the targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.base.arrays import Array
from manykernels.device import DeviceArray, namespace
from manykernels.hot import svrg_epochs as hot
from manykernels.losses.base import FEASIBILITY_SLACK, LinearMap, Loss, ResidualDual


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
    takes_any_array: ClassVar[bool] = True

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def residual_dual(self) -> ResidualDual:
        return ResidualDual(0.0, 1.0, np.inf)

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        return hot.SQUARED, 0.0

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        return 0.5 * namespace(scores).sum((scores - target) ** 2, axis=1)

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        return scores - target

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        return lambda direction: direction

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        return namespace(dual).sum(0.5 * dual**2 - dual * target, axis=1)

    def make_feasible(self, dual: Array, target: Array) -> Array:
        return dual

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
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
    takes_any_array: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold < np.inf:
            raise ValueError(
                f"threshold of the Huber loss must be a positive number, got "
                f"{self.threshold!r}; choose for instance 1.0."
            )

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def residual_dual(self) -> ResidualDual:
        return ResidualDual(0.0, 1.0, self.threshold)

    @property
    def compiled_gradient(self) -> tuple[int, float]:
        return hot.HUBER, self.threshold

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        xp = namespace(scores)
        size = xp.abs(scores - target)
        inner = xp.clip(size, None, self.threshold)
        return xp.sum(inner * (size - 0.5 * inner), axis=1)

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        return self._clip(scores - target)

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        # d_k where the residual is within the threshold, else 0.
        xp = namespace(scores)
        inside = xp.astype(xp.abs(scores - target) <= self.threshold, scores.dtype)
        return lambda direction: inside * direction

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        xp, limit = namespace(dual), self.threshold * (1.0 + FEASIBILITY_SLACK)
        values = xp.sum(0.5 * dual**2 - dual * target, axis=1)
        inside = xp.all(xp.abs(dual) <= limit, axis=1)
        return xp.where(inside, values, xp.full_like(values, float("inf")))

    def make_feasible(self, dual: Array, target: Array) -> Array:
        return np.asarray(self._clip(dual))

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        return scale_to_limit(dual, self.threshold)

    def _clip(self, values: DeviceArray) -> DeviceArray:
        return namespace(values).clip(values, -self.threshold, self.threshold)


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
        return ResidualDual(self.epsilon, 0.0, 1.0)

    def value(self, scores: Array, target: Array) -> Array:
        beyond = np.abs(scores - target) - self.epsilon
        return np.asarray(np.sum(np.maximum(beyond, 0.0), axis=1))

    def gradient(self, scores: Array, target: Array) -> Array:
        residual = scores - target
        return np.asarray(np.sign(residual) * (np.abs(residual) > self.epsilon))

    def conjugate(self, dual: Array, target: Array) -> Array:
        inside = np.all(np.abs(dual) <= 1.0 + FEASIBILITY_SLACK, axis=1)
        values = np.sum(self.epsilon * np.abs(dual) - dual * target, axis=1)
        return np.where(inside, values, np.inf)

    def make_feasible(self, dual: Array, target: Array) -> Array:
        return np.clip(dual, -1.0, 1.0)

    def feasible_scale(self, dual: Array, target: Array) -> float:
        return scale_to_limit(dual, 1.0)


def scale_to_limit(dual: DeviceArray, limit: float) -> float:
    """Return the factor that brings the largest value to the limit."""
    xp = namespace(dual)
    largest = float(xp.max(xp.abs(dual)))
    return limit / largest if largest > 0.0 else np.inf
