"""The loss of times of events, some of which are censored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.losses.base import (
    FEASIBILITY_SLACK,
    Loss,
    ResidualDual,
    ResidualRows,
)
from manykernels.losses.regression import EpsilonInsensitive, scale_to_limit


@dataclass(frozen=True)
class CensoredEpsilonInsensitive(Loss):
    r""":math:`[t - s - \epsilon]_+`, plus :math:`[s - t - \epsilon]_+` after an event.

    A target has two columns, the time t (or its logarithm) and whether the event came
    then (1), or the row was only watched until then (0): a censored row does not
    penalize a score that is too high. The conjugate is :math:`\epsilon |u| - u t` where
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
        EpsilonInsensitive(self.epsilon)  # which checks epsilon

    @property
    def residual_dual(self) -> ResidualDual:
        return ResidualDual(self.epsilon, 0.0, 1.0)

    def residual_rows(self, target: Array) -> ResidualRows:
        return ResidualRows(target[:, :1], censored(target))

    def value(self, scores: Array, target: Array) -> Array:
        residual = scores[:, 0] - target[:, 0]
        size = np.where(censored(target), -residual, np.abs(residual))
        return np.asarray(np.maximum(size - self.epsilon, 0.0))

    def gradient(self, scores: Array, target: Array) -> Array:
        # The sign of the residual outside the tube; 0 for a high censored score.
        residual = scores - target[:, :1]
        slope = np.sign(residual) * (np.abs(residual) > self.epsilon)
        return -self.make_feasible(-slope, target)

    def conjugate(self, dual: Array, target: Array) -> Array:
        u = dual[:, 0]
        slack = FEASIBILITY_SLACK
        inside = (u >= _lowest(target) - slack) & (u <= 1.0 + slack)
        return np.where(inside, self.epsilon * np.abs(u) - u * target[:, 0], np.inf)

    def make_feasible(self, dual: Array, target: Array) -> Array:
        return np.clip(dual, _lowest(target)[:, None], 1.0)

    def feasible_scale(self, dual: Array, target: Array) -> float:
        # No multiple of a negative value is feasible in a censored row.
        if np.any(dual[censored(target)] < 0.0):
            return 0.0
        return scale_to_limit(dual, 1.0)

    def best_constant(self, target: Array, weight: Array) -> float:
        """Return the one score for all rows that costs least; the middle of several.

        Of the times after events it is a median, which censored rows move up.

        Examples
        --------
        >>> loss, ones = CensoredEpsilonInsensitive(), np.ones(3)
        >>> loss.best_constant(np.array([[1.0, 1], [2.0, 1], [9.0, 1]]), ones)
        2.0
        >>> loss.best_constant(np.array([[1.0, 0], [2.0, 1], [9.0, 1]]), ones)
        5.5
        """
        has_event = ~censored(target)
        # The slope is minus the total weight at first, and grows at every kink.
        kinks = np.concatenate(
            [target[:, 0] - self.epsilon, target[has_event, 0] + self.epsilon]
        )
        order = np.argsort(kinks, kind="stable")
        weights = np.concatenate([weight, weight[has_event]])
        slope = np.cumsum(weights[order]) - weight.sum()
        flat = FEASIBILITY_SLACK * float(weight.sum())
        low, high = np.searchsorted(slope, [-flat, flat])
        kinks = kinks[order]
        return float(0.5 * (kinks[low] + kinks[min(high, len(kinks) - 1)]))


def censored(target: Array) -> NDArray[np.bool_]:
    """Rows without an event."""
    return np.asarray(target[:, 1] <= 0.0)


def _lowest(target: Array) -> Array:
    """The smallest dual value of every row."""
    return np.where(censored(target), 0.0, -1.0)
