"""Newton's method on the kernel weights, for one problem or many at a time."""

from __future__ import annotations

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.norms.group import LpGroupNorm, p_norms
from manykernels.solvers.regression.ridge_weights import newton_weights
from manykernels.solvers.state import Remembers

ARMIJO = 0.05  # share of the promised decrease that a step must keep
SHORTEST = 1e-4  # of a step; then rounding hides the decrease


class WeightSteps(Remembers):
    """Weights whose value J(d) is known, and the steps from there that are tried.

    A step whose value does not fall enough is halved.

    Parameters
    ----------
    norm : LpGroupNorm
    weights : array of shape (problems, blocks)
        Where to start, ||d||_r = 1.
    """

    remembered = ("trial", "known", "value", "step", "length", "promise")

    def __init__(self, norm: LpGroupNorm, weights: Array) -> None:
        self.norm = norm
        self.trial = weights.copy()  # whose value is wanted next
        self.known = weights.copy()
        self.value = np.full(len(weights), np.inf)
        self.step = np.zeros_like(weights)
        self.length = np.zeros(len(weights))
        self.promise = np.zeros(len(weights))  # slope of J along the step

    def advance(
        self, which: Index, lower: Array, upper: Array, squares: Array, curvature: Array
    ) -> None:
        """Next trials of some problems, from what is known about the last ones.

        Parameters
        ----------
        which : array of int
            Positions of the problems.
        lower, upper : array of shape (len(which),)
            Bounds on J at the trial.
        squares, curvature : array of shape (len(which), blocks[, blocks])
            ||theta_f||^2, and the second derivatives of J.
        """
        enough = self.value + ARMIJO * self.length * self.promise
        fell = (lower <= enough[which]) | (self.length[which] < SHORTEST)
        self.length[which[~fell]] *= 0.5
        if fell.any():
            self._restart(which[fell], upper[fell], squares[fell], curvature[fell])
        towards = self.known[which] + self.length[which, None] * self.step[which]
        lengths = p_norms(towards, self.norm.weight_exponent)
        self.trial[which] = towards / lengths[:, None]

    def _restart(
        self, which: Index, value: Array, squares: Array, curvature: Array
    ) -> None:
        """Newton's step from the trial."""
        here = self.trial[which]
        step = newton_weights(self.norm, here, squares, curvature) - here
        self.known[which], self.value[which] = here, value
        self.step[which], self.length[which] = step, 1.0
        self.promise[which] = -0.5 * np.einsum("tf,tf->t", squares, step)
