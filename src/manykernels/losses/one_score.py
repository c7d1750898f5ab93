"""Losses of one score per row, with their second derivatives.

With the scores (0, s) for two outputs, `Softmax` is the logistic loss of s, and
`losses.SmoothedHinge` of half the width is the one below; `Squared` of one column is
the squared error. They are written out here because Newton's method needs the
curvature, which is a number for one score and a matrix for several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from manykernels.base.arrays import Array, Index

ZERO_ERROR_SHARE = 1e-24  # of the variance: mean squares below it are rounding
INTERVAL_SLACK = 1e-12  # by which rounding may take a dual value out of [0, 1]


class ScoreLoss(Protocol):
    """A convex loss of a score s and a target y.

    value(s) + conjugate(u) >= -s u, with equality at u = -gradient(s).
    """

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def is_squared(self) -> bool:
        """Whether it is 1/2 (s - y)^2, which one linear system minimizes."""

    def value(self, scores: Array, target: Array) -> Array:
        """The loss of every row."""

    def gradient(self, scores: Array, target: Array) -> Array:
        """Its derivative in the score."""

    def curvature(self, scores: Array, target: Array) -> Array:
        """Its second derivative in the score."""

    def conjugate(self, dual: Array, target: Array) -> Array:
        """sup over s of -s u - value(s)."""

    def deviance(self, scores: Array, target: Array) -> float:
        """Minus twice the log-likelihood of all rows, up to a constant."""

    def take(self, rows: Index) -> ScoreLoss:
        """The loss of some of the rows, which may have weights."""

    def mean(self, values: Array) -> Array:
        """The mean over the rows, by their weights."""

    def weigh(self, values: Array, power: float = 1.0) -> Array:
        """Values of the rows, shape (rows, ...), times powers of their weights."""


class EqualRows:
    """All rows count alike."""

    def take(self, rows: Index) -> Self:
        """The same."""
        return self

    def mean(self, values: Array) -> Array:
        """The plain mean."""
        return np.asarray(values.mean(axis=0))

    def weigh(self, values: Array, power: float = 1.0) -> Array:
        """The values."""
        return values


@dataclass(frozen=True)
class SquaredError(EqualRows):
    """1/2 (s - y)^2.

    Examples
    --------
    >>> SquaredError().value(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name: str = "squared"
    is_squared: ClassVar[bool] = True

    def value(self, scores: Array, target: Array) -> Array:
        """1/2 (s - y)^2."""
        return 0.5 * np.square(scores - target)

    def gradient(self, scores: Array, target: Array) -> Array:
        """s - y."""
        return scores - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """One."""
        return np.ones_like(scores)

    def conjugate(self, dual: Array, target: Array) -> Array:
        """1/2 u^2 - u y."""
        return 0.5 * np.square(dual) - dual * target

    def deviance(self, scores: Array, target: Array) -> float:
        """n log(mean squared error): the noise's variance is estimated, too."""
        return normal_deviance(2.0 * float(self.value(scores, target).sum()), target)


@dataclass(frozen=True)
class Logistic(EqualRows):
    """log(1 + exp(-y s)) for y = -1 or 1.

    Examples
    --------
    >>> Logistic().value(np.array([0.0]), np.array([1.0])).round(3)
    array([0.693])
    """

    name: str = "logistic"
    is_squared: ClassVar[bool] = False
    scores_are_logits: ClassVar[bool] = True  # expit(s) is the probability of y = 1

    def value(self, scores: Array, target: Array) -> Array:
        """log(1 + exp(-y s)), without overflow."""
        return np.logaddexp(0.0, -target * scores)

    def gradient(self, scores: Array, target: Array) -> Array:
        """-y / (1 + exp(y s))."""
        return np.asarray(-target * expit(-target * scores))

    def curvature(self, scores: Array, target: Array) -> Array:
        """sigma(s) sigma(-s)."""
        return np.asarray(expit(scores) * expit(-scores))

    def conjugate(self, dual: Array, target: Array) -> Array:
        """q log q + (1 - q) log(1 - q) with q = y u in [0, 1], else infinite."""
        q, inside = _shares(dual, target)
        return np.where(inside, xlogy(q, q) + xlogy(1.0 - q, 1.0 - q), np.inf)

    def deviance(self, scores: Array, target: Array) -> float:
        """Twice the loss."""
        return 2.0 * float(self.value(scores, target).sum())


@dataclass(frozen=True)
class BinarySmoothedHinge(EqualRows):
    """The hinge [1 - y s]_+ with a parabola of width h in place of its corner.

    Examples
    --------
    >>> BinarySmoothedHinge(0.5).value(np.array([2.0, 1.0, 0.0]), np.ones(3))
    array([0.  , 0.  , 0.75])
    """

    width: float = 0.5
    name: str = "smoothed_hinge"
    is_squared: ClassVar[bool] = False
    scores_are_logits: ClassVar[bool] = False

    def value(self, scores: Array, target: Array) -> Array:
        """q (1 - y s) - h q^2 / 2 at the q of the gradient."""
        short = 1.0 - target * scores
        q = np.clip(short / self.width, 0.0, 1.0)
        return q * short - 0.5 * self.width * np.square(q)

    def gradient(self, scores: Array, target: Array) -> Array:
        """-y q with q = (1 - y s) / h, clipped to [0, 1]."""
        return -target * np.clip((1.0 - target * scores) / self.width, 0.0, 1.0)

    def curvature(self, scores: Array, target: Array) -> Array:
        """1 / h on the parabola, zero elsewhere."""
        short = 1.0 - target * scores
        return np.where((short > 0.0) & (short < self.width), 1.0 / self.width, 0.0)

    def conjugate(self, dual: Array, target: Array) -> Array:
        """h q^2 / 2 - q with q = y u in [0, 1], else infinite."""
        q, inside = _shares(dual, target)
        return np.where(inside, 0.5 * self.width * np.square(q) - q, np.inf)

    def deviance(self, scores: Array, target: Array) -> float:
        """Twice the loss."""
        return 2.0 * float(self.value(scores, target).sum())


@dataclass(frozen=True)
class Weighted:
    """The loss of every row times its weight, which is positive.

    Examples
    --------
    >>> loss = Weighted(SquaredError(), np.array([2.0, 1.0]))
    >>> loss.value(np.array([3.0, 3.0]), np.array([1.0, 1.0]))
    array([4., 2.])
    """

    loss: ScoreLoss
    weights: Array

    @property
    def name(self) -> str:
        """That of the loss."""
        return self.loss.name

    @property
    def is_squared(self) -> bool:
        """Whether it is w/2 (s - y)^2."""
        return self.loss.is_squared

    def value(self, scores: Array, target: Array) -> Array:
        """Weight times loss."""
        return self.weights * self.loss.value(scores, target)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Weight times derivative."""
        return self.weights * self.loss.gradient(scores, target)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Weight times second derivative."""
        return self.weights * self.loss.curvature(scores, target)

    def conjugate(self, dual: Array, target: Array) -> Array:
        """w conjugate(u / w)."""
        return self.weights * self.loss.conjugate(dual / self.weights, target)

    def deviance(self, scores: Array, target: Array) -> float:
        """As that of the loss, with weighted sums and means."""
        values = self.value(scores, target)
        if self.is_squared:
            return normal_deviance(2.0 * float(values.sum()), target)
        return 2.0 * float(values.sum())

    def take(self, rows: Index) -> Weighted:
        """The weights of some rows."""
        return Weighted(self.loss, self.weights[rows])

    def mean(self, values: Array) -> Array:
        """The weighted mean."""
        return np.asarray(np.average(values, axis=0, weights=self.weights))

    def weigh(self, values: Array, power: float = 1.0) -> Array:
        """Rows times powers of their weights."""
        return np.asarray((values.T * self.weights**power).T)


def normal_deviance(total: float, target: Array) -> float:
    """n log(mean square) from the sum of squares, no less than rounding has."""
    least = max(ZERO_ERROR_SHARE * float(np.var(target)), 1e-290)
    return len(target) * float(np.log(max(total / len(target), least)))


def _shares(dual: Array, target: Array) -> tuple[Array, NDArray[np.bool_]]:
    """q = y u, clipped to [0, 1], and whether it was inside."""
    q = dual * target
    clipped = np.clip(q, 0.0, 1.0)
    return clipped, np.abs(q - clipped) <= INTERVAL_SLACK
