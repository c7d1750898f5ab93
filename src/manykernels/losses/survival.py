"""The loss of times that are known, or known to be longer than some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.losses.base import Loss, ResidualDual, ResidualRows
from manykernels.losses.regression import SLACK, EpsilonInsensitive


@dataclass(frozen=True)
class CensoredEpsilonInsensitive(Loss):
    r""":math:`[t - s - \epsilon]_+`, plus :math:`[s - t - \epsilon]_+` after an event.

    A target has two columns, the time t (or its logarithm) and whether the event came
    then (1), or the row was only watched until then (0): a censored row does not object
    to a score that is too high. The conjugate is :math:`\epsilon |u| - u t` where
    :math:`-1 \le u \le 1` after an event, and where :math:`0 \le u \le 1` otherwise.
    With events only it is the epsilon-insensitive loss.

    Parameters
    ----------
    epsilon : float
        Residuals up to this size, in units of t, cost nothing.

    Examples
    --------
    >>> target = np.array([[2.0, 1.0], [2.0, 0.0]])  # an event, a censored row
    >>> loss = CensoredEpsilonInsensitive(0.5)
    >>> loss.value(np.array([[3.0], [3.0]]), target).tolist()
    [0.5, 0.0]
    >>> loss.value(np.array([[1.0], [1.0]]), target).tolist()
    [0.5, 0.5]
    """

    epsilon: float = 0.0
    name: ClassVar[str] = "censored"
    linear_dual: ClassVar[bool] = True

    def __post_init__(self) -> None:
        EpsilonInsensitive(self.epsilon)  # with the same demands

    @property
    def residual_dual(self) -> ResidualDual:
        """A tube and a box; :meth:`residual_rows` says where it is half a box."""
        return ResidualDual(self.epsilon, 0.0, 1.0)

    def residual_rows(self, target: Array) -> ResidualRows:
        """Times, and the rows that are censored."""
        return ResidualRows(target[:, :1], censored(target))

    def value(self, scores: Array, target: Array) -> Array:
        """Loss of every row."""
        residual = scores[:, 0] - target[:, 0]
        size = np.where(censored(target), -residual, np.abs(residual))
        return np.asarray(np.maximum(size - self.epsilon, 0.0))

    def gradient(self, scores: Array, target: Array) -> Array:
        """The residual's sign, outside the tube; 0 for a high score of a censored."""
        residual = scores - target[:, :1]
        slope = np.sign(residual) * (np.abs(residual) > self.epsilon)
        return -self.make_feasible(-slope, target)

    def conjugate(self, dual: Array, target: Array) -> Array:
        """Finite between the lowest and 1."""
        u = dual[:, 0]
        inside = (u >= _lowest(target) - SLACK) & (u <= 1.0 + SLACK)
        return np.where(inside, self.epsilon * np.abs(u) - u * target[:, 0], np.inf)

    def make_feasible(self, dual: Array, target: Array) -> Array:
        """Clipped to the box, or its upper half."""
        return np.clip(dual, _lowest(target)[:, None], 1.0)

    def feasible_scale(self, dual: Array, target: Array) -> float:
        """1 / largest value; 0 where a censored row has a negative one."""
        if np.any(dual[censored(target)] < 0.0):
            return 0.0
        largest = float(np.max(np.abs(dual), initial=0.0))
        return 1.0 / largest if largest > 0.0 else np.inf

    def best_constant(self, target: Array, weight: Array) -> float:
        """The score for all rows alike that costs least; the middle of several.

        Of the times after events it is a median, which censored rows move up.

        Examples
        --------
        >>> loss, ones = CensoredEpsilonInsensitive(), np.ones(3)
        >>> loss.best_constant(np.array([[1.0, 1], [2.0, 1], [9.0, 1]]), ones)
        2.0
        >>> loss.best_constant(np.array([[1.0, 0], [2.0, 1], [9.0, 1]]), ones)
        5.5
        """
        seen = ~censored(target)
        # The slope is minus the total weight at first, and grows at every kink.
        kinks = np.concatenate(
            [target[:, 0] - self.epsilon, target[seen, 0] + self.epsilon]
        )
        order = np.argsort(kinks, kind="stable")
        slope = np.cumsum(np.concatenate([weight, weight[seen]])[order]) - weight.sum()
        flat = SLACK * float(weight.sum())
        low, high = np.searchsorted(slope, [-flat, flat])
        kinks = kinks[order]
        return float(0.5 * (kinks[low] + kinks[min(high, len(kinks) - 1)]))


def censored(target: Array) -> NDArray[np.bool_]:
    """Rows without an event."""
    return np.asarray(target[:, 1] <= 0.0)


def _lowest(target: Array) -> Array:
    """The smallest dual value of every row."""
    return np.where(censored(target), 0.0, -1.0)
