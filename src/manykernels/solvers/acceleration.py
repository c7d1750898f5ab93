"""Kernel weights between two rounds of dual ascent: a fixed point, accelerated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.norms.group import LpGroupNorm

Array = NDArray[np.float64]

MEMORY = 4  # rounds remembered
SMALL = 0.1  # weights below this share of the largest move on their own
LIFT = 0.02  # share of the largest weight that a new problem grants every block
LONGEST_STEP = 3.0  # in the logarithm of a weight
TINY = 1e-30  # stands for zero in logarithms
VANISHED = 1e-5  # at p = 1, weights below this share of the largest are set to zero


class WeightSearch:
    r"""Find d with :math:`d_f \propto \|w_f(d)\|^{2-p}`, the optimal kernel weights.

    The plain update contracts by up to 2 - p a round, slow for p near 1. In
    logarithms it is a smooth map, so the weights that matter take Anderson's mixing
    of the last few rounds instead of the plain step. A small weight hardly touches
    the other blocks: it takes a Newton step for its own equation, with the reaction
    of its block norm estimated from the last two rounds. `value` (the optimum under
    frozen weights) must fall: when it has risen for certain, go back to the best
    weights and forget the past.
    """

    def __init__(self, norm: LpGroupNorm, weights: Array) -> None:
        self.norm = norm
        self.weights = weights
        self.restart()

    def restart(self) -> None:
        """Forget all values: the problem has changed, the weights are a good start.

        Small weights are lifted, because a block that has nearly vanished takes many
        rounds to come back if the new problem wants it.
        """
        floor = LIFT * self.weights.max()
        self.weights = self.norm.normalize_weights(np.maximum(self.weights, floor))
        self._best_value = np.inf
        self._best: tuple[Array, Array] | None = None
        self._reaction = np.full(len(self.weights), -1.0 / self.weights.max())
        self._forget()

    def _forget(self) -> None:
        self._points: list[Array] = []
        self._images: list[Array] = []
        self._last: tuple[Array, Array] | None = None

    def step(self, theta_norms: Array, lower: float, upper: float) -> Array:
        """Next weights, from ||theta_f|| and bounds on the value at the current ones.

        Parameters
        ----------
        theta_norms : array of shape (blocks,)
        lower, upper : float
            Dual and primal value of the problem with the current weights frozen.
        """
        point = np.log(np.maximum(self.weights, TINY))
        wanted = self.norm.weights(self.weights * theta_norms)
        image = np.log(np.maximum(wanted, TINY))
        self._observe(theta_norms)
        if lower > self._best_value and self._best is not None:
            self._forget()
            point, image = self._best
            move = image - point
        else:
            if upper < self._best_value:
                self._best_value, self._best = upper, (point, image)
            move = self._accelerated(point, image)
        logs = point + np.clip(move, -LONGEST_STEP, LONGEST_STEP)
        weights = self._normalize(np.exp(logs - logs.max()))
        self.weights = self._revive(weights, theta_norms)
        return self.weights

    def _observe(self, theta_norms: Array) -> None:
        """Secant estimate of d log ||theta_f|| / d weight_f, where it makes sense."""
        logs = np.log(np.maximum(theta_norms, TINY))
        logs = logs - logs.max()
        if self._last is not None:
            change = self.weights - self._last[0]
            moved = np.abs(change) > 0.1 * np.maximum(self._last[0], TINY)
            slope = (logs - self._last[1]) / np.where(moved, change, 1.0)
            useful = moved & (slope < 0.0)
            self._reaction = np.where(useful, slope, self._reaction)
        self._last = (self.weights, logs)

    def _accelerated(self, point: Array, image: Array) -> Array:
        self._points = [*self._points, point][-MEMORY:]
        self._images = [*self._images, image][-MEMORY:]
        large = point > point.max() + np.log(SMALL)
        move = self._own_move(image - point)
        points = [past[large] for past in self._points]
        images = [past[large] for past in self._images]
        move[large] = anderson(points, images) - point[large]
        return move

    def _own_move(self, residual: Array) -> Array:
        """Newton step on the logarithm of each weight for its own equation.

        residual(x) has the slope -(p - 1) + (2 - p) * reaction * weight.
        """
        p = self.norm.p
        slope = -(p - 1.0) + (2.0 - p) * self._reaction * self.weights
        return np.asarray(-residual / np.minimum(slope, -1e-3))

    def _normalize(self, weights: Array) -> Array:
        if self.norm.p == 1.0:
            weights = np.where(weights < VANISHED * weights.max(), 0.0, weights)
        return self.norm.normalize_weights(weights)

    def _revive(self, weights: Array, theta_norms: Array) -> Array:
        """Give a vanished block a small weight again if the dual asks for it."""
        missing = (weights == 0.0) & (theta_norms >= theta_norms[weights > 0.0].max())
        if not missing.any():
            return weights
        share = np.where(missing, LIFT * weights.max(), weights)
        return self.norm.normalize_weights(share)


def anderson(points: list[Array], images: list[Array]) -> Array:
    """Anderson's mixing: the combination of images with the smallest residual.

    Examples
    --------
    >>> halve = lambda x: 0.5 * x
    >>> points = [np.array([1.0]), np.array([0.5])]
    >>> anderson(points, [halve(x) for x in points]).round(6).tolist()
    [0.0]
    """
    if len(points) == 1:
        return images[-1]
    residuals = np.array(images) - np.array(points)
    steps = np.diff(residuals, axis=0).T
    normal = steps.T @ steps
    ridge = 1e-8 * np.trace(normal) + 1e-300
    mix = np.linalg.solve(
        normal + ridge * np.eye(len(normal)), steps.T @ residuals[-1]
    )
    return np.asarray(images[-1] - np.diff(np.array(images), axis=0).T @ mix)
