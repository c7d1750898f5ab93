"""Kernel weights between two rounds of dual ascent: a fixed point, accelerated."""

from __future__ import annotations

import numpy as np

from manykernels.base.arrays import Array
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.state import Remembers

MEMORY = 4  # rounds remembered
SMALL = 0.1  # weights below this share of the largest move on their own
LIFT = 0.02  # share of the largest weight that a new problem grants every block
RELIFT = 0.3  # factor on that share every time a block comes back
LONGEST_STEP = 3.0  # in the logarithm of a weight
FIRST_STRIDE = 0.5  # in the logarithm of a small weight
LONGER, SHORTER = 2.0, 0.35  # strides after the same, or the opposite, direction
TINY = 1e-30  # stands for zero in logarithms
VANISHED = 1e-5  # at p = 1, weights below this share of the largest are set to zero


class WeightSearch(Remembers):
    r"""Find d with :math:`d_f \propto \|w_f(d)\|^{2-p}`, the optimal kernel weights.

    The plain update contracts by up to 2 - p a round, slow for p near 1. In
    logarithms it is a smooth map, so the weights that matter take Anderson's mixing
    of the last few rounds instead of the plain step. A small weight hardly touches
    the other blocks, and for p near 1 its own equation is nearly flat: it moves in
    strides of its own, longer or shorter as its residual keeps or changes its sign.
    `value` (the optimum under frozen weights) must fall: when it has risen for
    certain, go back to the best weights and forget the past.
    """

    remembered = (
        "weights",
        "_best_value",
        "_best",
        "_strides",
        "_last_residual",
        "_lift",
        "_points",
        "_images",
    )

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
        self._strides = np.full(len(self.weights), FIRST_STRIDE)
        self._last_residual = np.zeros(len(self.weights))
        self._lift = np.full(len(self.weights), LIFT)
        self._forget()

    def _forget(self) -> None:
        self._points: list[Array] = []
        self._images: list[Array] = []

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
        if lower > self._best_value and self._best is not None:
            self._forget()
            self._strides *= SHORTER**2
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
        """Strides that grow while a residual keeps its sign and shrink when it turns.

        Never longer than if the block norm did not react at all, residual / (p - 1).
        """
        same = residual * self._last_residual
        factor = np.where(same > 0.0, LONGER, np.where(same < 0.0, SHORTER, 1.0))
        self._strides = np.minimum(self._strides * factor, LONGEST_STEP)
        self._last_residual = residual
        longest = np.abs(residual) / max(self.norm.p - 1.0, TINY)
        return np.asarray(np.sign(residual) * np.minimum(self._strides, longest))

    def _normalize(self, weights: Array) -> Array:
        if self.norm.p == 1.0:
            weights = np.where(weights < VANISHED * weights.max(), 0.0, weights)
        return self.norm.normalize_weights(weights)

    def _revive(self, weights: Array, theta_norms: Array) -> Array:
        """Give a vanished block a small weight again if the dual asks for it.

        Less every time: a weight above the wanted one raises the value, is taken
        back, and would otherwise return for ever.
        """
        missing = (weights == 0.0) & (theta_norms >= theta_norms[weights > 0.0].max())
        if not missing.any():
            return weights
        share = np.where(missing, self._lift * weights.max(), weights)
        self._lift = np.where(missing, RELIFT * self._lift, self._lift)
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
    mix = np.linalg.solve(normal + ridge * np.eye(len(normal)), steps.T @ residuals[-1])
    return np.asarray(images[-1] - np.diff(np.array(images), axis=0).T @ mix)
