"""Newton's method on the kernel weights, for one problem or many at a time.

J(d), the optimum under frozen weights d, is convex with gradient -1/2 ||theta_f||^2. A
step minimizes its quadratic model on ||d||_r <= 1 by a logarithmic barrier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array, Index
from manykernels.device import HOST, Device, DeviceArray
from manykernels.norms.group import LpGroupNorm, p_norms
from manykernels.solvers.loop import Resumable

WEIGHT_ARMIJO_SHARE = 0.05  # of the promised decrease, that a step must keep
MIN_STEP_LENGTH = 1e-4  # of Newton's step; then rounding hides the decrease
LAST_BARRIER = 1e-12  # relative to the model's slope
CENTERING_TOL = 1e-2  # Newton decrement, in units of the barrier, that ends a round
POWELL_SHARE = 0.2  # of the expected change along a step, that a new one must have


class WeightSteps(Resumable):
    """Weights whose value J(d) is known, and the steps from there that are tried.

    A step whose value does not fall enough is halved.

    Parameters
    ----------
    norm : LpGroupNorm
    weights : array of shape (problems, blocks)
        Where to start, ||d||_r = 1.
    device : Device, optional
        Where to compute steps, if there are many problems.
    """

    remembered = ("trial", "known", "value", "step", "length", "promise")

    def __init__(
        self, norm: LpGroupNorm, weights: Array, device: Device = HOST
    ) -> None:
        self.norm = norm
        self.device = device
        self.trial = weights.copy()  # whose value is wanted next
        self.known = weights.copy()
        self.value = np.full(len(weights), np.inf)
        self.step = np.zeros_like(weights)
        self.length = np.zeros(len(weights))
        self.promise = np.zeros(len(weights))  # slope of J along the step

    def accept(self, which: Index, lower: Array, upper: Array) -> NDArray[np.bool_]:
        """Whether the values of some trials fell enough; half a step for the others.

        Parameters
        ----------
        which : array of int
            Positions of the problems.
        lower, upper : array of shape (len(which),)
            Bounds on J at the trial.
        """
        enough = self.value + WEIGHT_ARMIJO_SHARE * self.length * self.promise
        fell = (lower <= enough[which]) | (self.length[which] < MIN_STEP_LENGTH)
        self.length[which[~fell]] *= 0.5
        self.known[which[fell]] = self.trial[which[fell]]
        self.value[which[fell]] = upper[fell]
        self._move(which[~fell])
        return np.asarray(fell)

    def aim(self, which: Index, target: Array, squares: Array) -> None:
        """From the accepted trials of some problems, try the way to `target` next.

        `squares`, ||theta_f||^2 at the trials, have shape (len(which), blocks).
        """
        step = target - self.known[which]
        self.step[which], self.length[which] = step, 1.0
        self.promise[which] = -0.5 * np.einsum("tf,tf->t", squares, step)
        self._move(which)

    def advance(
        self, which: Index, lower: Array, upper: Array, squares: Array, curvature: Array
    ) -> None:
        """Next trials of some problems: Newton's step, or half of the last one.

        `curvature`, (len(which), blocks, blocks), has the second derivatives of J.
        """
        fell = self.accept(which, lower, upper)
        if fell.any():
            moving, squares = which[fell], squares[fell]
            target = newton_weights(
                self.norm, self.known[moving], squares, curvature[fell], self.device
            )
            self.aim(moving, target, squares)

    def _move(self, which: Index) -> None:
        towards = self.known[which] + self.length[which, None] * self.step[which]
        lengths = p_norms(towards, self.norm.weight_exponent)
        self.trial[which] = towards / lengths[:, None]


def newton_weights(
    norm: LpGroupNorm,
    weights: Array,
    squares: Array,
    curvature: Array,
    device: Device = HOST,
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
    device : Device, optional
        Where to compute.

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
            device,
            norm.weight_exponent,
            weights[usable],
            0.5 * squares[usable] / scale,
            curvature[usable] / scale[:, :, None],
        )
        out[usable] = _tight(norm, device.get(model.minimum()))
    return out


def _tight(norm: LpGroupNorm, found: Array) -> Array:
    if norm.p == 1.0:
        largest = found.max(axis=1, keepdims=True)
        vanished = 10.0 * np.sqrt(LAST_BARRIER)
        found = np.where(found < vanished * largest, 0.0, found)
    return found / p_norms(found, norm.weight_exponent)[:, None]


def with_secant(curvature: Array, step: Array, change: Array) -> Array:
    """Second derivatives that agree with the last change of the gradient (BFGS).

    Positive semi-definite ones stay so: a change with too little curvature is mixed
    with the one that was expected (Powell). What is no number changes nothing.

    Parameters
    ----------
    curvature : array of shape (problems, blocks, blocks)
        As known so far.
    step, change : array of shape (problems, blocks)
        Of the weights, and of the gradient.

    Examples
    --------
    >>> known, step = np.eye(2)[None], np.array([[1.0, 0.0]])
    >>> with_secant(known, step, np.array([[3.0, 1.0]])).round(6).tolist()
    [[[3.0, 1.0], [1.0, 1.333333]]]
    """
    expected = np.einsum("tfg,tg->tf", curvature, step)
    size = np.einsum("tf,tf->t", step, expected)
    product = np.einsum("tf,tf->t", step, change)
    usable = np.isfinite(product) & (size > 0.0)
    size, product = np.where(usable, size, 1.0), np.where(usable, product, 1.0)
    share = np.ones_like(size)
    weak = product < POWELL_SHARE * size
    share[weak] = (1.0 - POWELL_SHARE) * size[weak] / (size - product)[weak]
    mixed = share[:, None] * change + (1.0 - share)[:, None] * expected
    product = share * product + (1.0 - share) * size
    gained = mixed[:, :, None] * mixed[:, None, :] / product[:, None, None]
    lost = expected[:, :, None] * expected[:, None, :] / size[:, None, None]
    return np.where(usable[:, None, None], curvature + gained - lost, curvature)


class _Barrier:
    """-c.x + 1/2 |x|_H^2 - mu (sum_f log d_f + log(1 - ||d||_r)) with x = d - d_0."""

    def __init__(
        self, device: Device, r: float, start: Array, slope: Array, curvature: Array
    ) -> None:
        self.xp = device.xp
        self.r = r
        self.start, self.slope, self.curvature, self.unit = (
            device.precisely(device.put(values))
            for values in (start, slope, curvature, np.eye(start.shape[1])[None])
        )

    def minimum(self) -> DeviceArray:
        """Follow the minimum as the barrier vanishes."""
        even = self.xp.ones_like(self.start)
        even = even / self._lengths(even)[:, None]
        weights = 0.9 * self.start + 0.05 * even  # inside the bound
        barrier = 0.1
        while barrier >= LAST_BARRIER:
            weights = self._center(weights, barrier)
            barrier *= 0.1
        return weights

    def _center(self, weights: DeviceArray, barrier: float) -> DeviceArray:
        xp = self.xp
        for _ in range(40):
            gradient, step = self._newton(weights, barrier)
            decrement = -self._dots(gradient, step)
            moving = decrement > CENTERING_TOL * barrier
            if not bool(xp.any(moving)):
                break
            # Those that stay must not keep the others' search for a length going.
            decrement = xp.where(moving, decrement, xp.zeros_like(decrement))
            step = xp.where(moving[:, None], step, xp.zeros_like(step))
            weights = self._shortened(weights, step, decrement, barrier)
        return weights

    def _newton(
        self, weights: DeviceArray, barrier: float
    ) -> tuple[DeviceArray, DeviceArray]:
        """Gradient and Newton's step.

        Close to ||d||_r = 1 the curvature of that bound is so large, in one direction,
        that it would drown all else in rounding; it is solved for apart (Sherman,
        Morrison).
        """
        xp = self.xp
        length = self._lengths(weights)[:, None]
        room = 1.0 - length
        ratio = weights / length
        normal = ratio ** (self.r - 1.0)  # gradient of the r-norm
        curved = barrier / room * (self.r - 1.0) / length
        gradient = self._pull(weights) - barrier / weights + barrier / room * normal
        # In units of the weights, which differ by many orders of magnitude.
        scaled = self.curvature * weights[:, :, None] * weights[:, None, :]
        diagonal = barrier + curved * ratio ** (self.r - 2.0) * weights**2
        sides = xp.stack([weights * gradient, weights * normal], axis=2)
        found = self._solve(scaled + self.unit * diagonal[:, None, :], sides)
        along, across = found[:, :, 0], found[:, :, 1]
        stiff = barrier / room**2 - curved
        push = stiff * self._dots(sides[:, :, 1], along)[:, None]
        push = push / (1.0 + stiff * self._dots(sides[:, :, 1], across)[:, None])
        return gradient, -weights * (along - push * across)

    def _solve(self, matrices: DeviceArray, sides: DeviceArray) -> DeviceArray:
        """As linalg.solve; matrices that are singular up to rounding will do."""
        trace = self.xp.sum(matrices * self.unit, axis=(1, 2))[:, None, None]
        regular = matrices + 1e-14 * trace * self.unit
        return self.xp.linalg.solve(regular, sides)

    def _pull(self, weights: DeviceArray) -> DeviceArray:
        """Gradient of the quadratic model."""
        moved = weights - self.start
        return self.xp.matmul(self.curvature, moved[:, :, None])[:, :, 0] - self.slope

    def _value(self, weights: DeviceArray, barrier: float) -> DeviceArray:
        xp = self.xp
        room = 1.0 - self._lengths(weights)
        moved = weights - self.start
        model = 0.5 * self._dots(self._pull(weights) - self.slope, moved)
        inside = (room > 0.0) & xp.all(weights > 0.0, axis=1)
        safe = xp.where(inside[:, None], weights, xp.ones_like(weights))
        left = xp.where(inside, room, xp.ones_like(room))
        logs = xp.sum(xp.log(safe), axis=1) + xp.log(left)
        values = model - barrier * logs
        return xp.where(inside, values, xp.full_like(values, float("inf")))

    def _shortened(
        self,
        weights: DeviceArray,
        step: DeviceArray,
        decrement: DeviceArray,
        barrier: float,
    ) -> DeviceArray:
        """Halve the steps of the problems whose value does not fall enough."""
        xp = self.xp
        # The share of the way to the nearest zero is largest where it comes first.
        share = xp.max(-step / weights, axis=1) / 0.95
        length = 1.0 / xp.maximum(share, xp.ones_like(share))
        before = self._value(weights, barrier)
        slack = 1e-14 * xp.abs(before)
        for _ in range(60):
            after = self._value(weights + length[:, None] * step, barrier)
            enough = before - WEIGHT_ARMIJO_SHARE * length * decrement + slack
            good = after <= enough
            if bool(xp.all(good)):
                break
            length = xp.where(good, length, 0.5 * length)
        else:
            length = xp.where(good, length, 0.0 * length)  # rounding: nothing to gain
        return weights + length[:, None] * step

    def _lengths(self, weights: DeviceArray) -> DeviceArray:
        """||d||_r of every problem; d is positive."""
        xp = self.xp
        largest = xp.max(weights, axis=1)
        ratios = xp.abs(weights) / largest[:, None]
        return largest * xp.sum(ratios**self.r, axis=1) ** (1.0 / self.r)

    def _dots(self, a: DeviceArray, b: DeviceArray) -> DeviceArray:
        return self.xp.sum(a * b, axis=1)
