"""Kernel weights that minimize a quadratic model: Newton's step under ||d||_r <= 1."""

from __future__ import annotations

import numpy as np

from manykernels.base.arrays import Array
from manykernels.norms.group import LpGroupNorm, p_norms

FIRST_BARRIER, LAST_BARRIER = 1e-1, 1e-12  # relative to the model's slope
SHRINK = 0.1  # of the barrier between two rounds
ROUNDS = 40  # Newton steps at most for one barrier
CENTERED = 1e-2  # Newton decrement, in units of the barrier, that ends a round
TO_THE_EDGE = 0.95  # of the way to the nearest zero, at most
ARMIJO = 0.1
INSIDE = 0.9  # share of the old weights in the first point, which is inside
ROUNDING = 1e-14  # of the trace: makes a singular matrix regular
VANISHED = 10.0 * np.sqrt(LAST_BARRIER)  # at p = 1 weights below this are zero


def newton_weights(
    norm: LpGroupNorm, weights: Array, squares: Array, curvature: Array
) -> Array:
    r"""argmin over d of :math:`-\frac12 g^\top (d - d_0) + \frac12 |d - d_0|_H^2`.

    The minimum is over d >= 0 with ||d||_r <= 1, found by a logarithmic barrier; the
    result has ||d||_r = 1, and exact zeros at p = 1. All problems of a batch are
    solved together.

    Parameters
    ----------
    norm : LpGroupNorm
    weights : array of shape (problems, blocks)
        d_0, where the model was made.
    squares : array of shape (problems, blocks)
        g_f = ||theta_f||^2, of which the gradient is -1/2.
    curvature : array of shape (problems, blocks, blocks)
        H, positive semi-definite.

    Examples
    --------
    >>> start, flat = np.full((1, 2), 0.5), np.eye(2)[None]
    >>> newton_weights(LpGroupNorm(1.0), start, np.array([[4.0, 0.0]]), flat)
    array([[1., 0.]])
    """
    if norm.p == 2.0 or weights.shape[1] == 1:
        return np.ones_like(weights)
    slope = 0.5 * np.einsum("tf,tf->t", squares, weights)
    usable = slope > 0.0
    out = weights.copy()
    if usable.any():
        scale = slope[usable, None]
        model = _Barrier(
            norm.weight_exponent,
            weights[usable],
            0.5 * squares[usable] / scale,
            curvature[usable] / scale[:, :, None],
        )
        out[usable] = _tight(norm, model.minimum())
    return out


def _tight(norm: LpGroupNorm, found: Array) -> Array:
    if norm.p == 1.0:
        largest = found.max(axis=1, keepdims=True)
        found = np.where(found < VANISHED * largest, 0.0, found)
    return found / p_norms(found, norm.weight_exponent)[:, None]


def _solve(matrices: Array, sides: Array) -> Array:
    """As np.linalg.solve; matrices that are singular up to rounding will do."""
    try:
        return np.asarray(np.linalg.solve(matrices, sides))
    except np.linalg.LinAlgError:
        trace = np.einsum("tff->t", matrices)[:, None, None]
        return np.asarray(
            np.linalg.solve(
                matrices + ROUNDING * trace * np.eye(matrices.shape[1]), sides
            )
        )


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(np.einsum("tf,tf->t", a, b)[:, None])


class _Barrier:
    """-c.x + 1/2 |x|_H^2 - mu (sum_f log d_f + log(1 - ||d||_r)) with x = d - d_0."""

    def __init__(self, r: float, start: Array, slope: Array, curvature: Array) -> None:
        self.r = r
        self.start = start
        self.slope = slope
        self.curvature = curvature

    def minimum(self) -> Array:
        """Follow the minimum as the barrier vanishes."""
        even = np.ones_like(self.start)
        even /= p_norms(even, self.r)[:, None]
        weights = INSIDE * self.start + 0.5 * (1.0 - INSIDE) * even
        barrier = FIRST_BARRIER
        while barrier >= LAST_BARRIER:
            weights = self._center(weights, barrier)
            barrier *= SHRINK
        return weights

    def _center(self, weights: Array, barrier: float) -> Array:
        for _ in range(ROUNDS):
            gradient, step = self._newton(weights, barrier)
            decrement = -np.einsum("tf,tf->t", gradient, step)
            moving = decrement > CENTERED * barrier
            if not moving.any():
                break
            step[~moving] = 0.0
            weights = self._search(weights, step, decrement, barrier)
        return weights

    def _newton(self, weights: Array, barrier: float) -> tuple[Array, Array]:
        """Gradient and Newton's step.

        Close to ||d||_r = 1 that bound bends so strongly, in one direction, that it
        would drown all else in rounding; it is solved for apart (Sherman, Morrison).
        """
        length = p_norms(weights, self.r)[:, None]
        room = 1.0 - length
        ratio = weights / length
        normal = ratio ** (self.r - 1.0)  # gradient of the r-norm
        bend = barrier / room * (self.r - 1.0) / length
        gradient = self._pull(weights) - barrier / weights + barrier / room * normal
        # In units of the weights, which differ by many orders of magnitude.
        scaled = self.curvature * weights[:, :, None] * weights[:, None, :]
        index = np.arange(weights.shape[1])
        scaled[:, index, index] += barrier + bend * ratio ** (self.r - 2.0) * weights**2
        sides = np.stack([weights * gradient, weights * normal], axis=2)
        along, across = np.moveaxis(_solve(scaled, sides), 2, 0)
        stiff = barrier / room**2 - bend
        push = stiff * _dot(sides[:, :, 1], along)
        push /= 1.0 + stiff * _dot(sides[:, :, 1], across)
        return gradient, -weights * (along - push * across)

    def _pull(self, weights: Array) -> Array:
        """Gradient of the quadratic model."""
        moved = np.einsum("tfg,tg->tf", self.curvature, weights - self.start)
        return np.asarray(moved - self.slope)

    def _value(self, weights: Array, barrier: float) -> Array:
        room = 1.0 - p_norms(weights, self.r)
        moved = weights - self.start
        model = 0.5 * np.einsum("tf,tf->t", self._pull(weights) - self.slope, moved)
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.log(weights).sum(axis=1) + np.log(room)
        return np.where(room > 0.0, model - barrier * logs, np.inf)

    def _search(
        self, weights: Array, step: Array, decrement: Array, barrier: float
    ) -> Array:
        """Halve the steps of the problems whose value does not fall enough."""
        to_zero = np.where(step < 0.0, -weights / np.minimum(step, -1e-300), np.inf)
        length = np.minimum(1.0, TO_THE_EDGE * to_zero.min(axis=1))
        before = self._value(weights, barrier)
        slack = 1e-14 * np.abs(before)
        for _ in range(60):
            after = self._value(weights + length[:, None] * step, barrier)
            bad = ~(after <= before - ARMIJO * length * decrement + slack)
            if not bad.any():
                break
            length[bad] *= 0.5
        else:
            length[bad] = 0.0  # rounding: nothing to gain
        return np.asarray(weights + length[:, None] * step)
