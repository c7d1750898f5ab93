"""The problem under frozen kernel weights, by a truncated Newton method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray, namespace
from manykernels.losses.base import LinearMap
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.conjugate_gradients import (
    MAX_PRODUCTS,
    Pair,
    conjugate_gradients,
)
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem
from manykernels.solvers.weight_newton import newton_weights

MAX_FROZEN_STEPS = 50
# Relative residuals that end conjugate gradients, far from the solution and near it.
LOOSE_RESIDUAL, TIGHT_RESIDUAL = 0.1, 1e-3
LOST_GAIN_SHARE = 0.3  # of what a step has to gain, that a loose residual may lose
MAX_LENGTHS = 12  # trial lengths of a step
FLAT_SLOPE = 0.1  # relative to that at the start, at which a length is good enough
ROUNDING_GAP = 1e-11  # gaps that rounding can make grow again
ACTIVE_SHARE = 1e-3  # of the largest weight, above which a block is in the model
RETURNING_SHARE = 0.98  # of the largest ||theta_f||, above which a block may return


@dataclass(frozen=True)
class FrozenPoint:
    r"""Coefficients A, scores K A, and the dual point U = -b loss'(K A) with K U.

    In units of the objective over lambda: value :math:`\tfrac12 \langle A, KA \rangle
    + \sum_i b_i\, loss_i(KA)`, and dual value of U. Arrays are those of the kernel.
    """

    coef: Any
    scores: Any
    dual: Any
    dual_scores: Any
    value: float
    dual_value: float

    @property
    def gap(self) -> float:
        """Relative duality gap of the frozen problem."""
        return relative_gap(self.value, self.dual_value)


class RowLosses:
    """sum_i b_i loss_i as a function of the scores: the objective over lambda."""

    def __init__(self, problem: Problem, device: Device) -> None:
        self.loss = problem.loss
        self.target = device.put(problem.target)
        self.bound = device.precisely(device.put(problem.bound))

    def total(self, scores: DeviceArray) -> float:
        """sum_i b_i loss_i(s)."""
        return dot(self.bound, self.loss.value(scores, self.target))

    def gradient(self, scores: DeviceArray) -> DeviceArray:
        """b loss'."""
        return self.bound[:, None] * self.loss.gradient(scores, self.target)

    def curvature(self, scores: DeviceArray) -> LinearMap:
        """b loss'' as a map of directions."""
        hessian_product = self.loss.curvature(scores, self.target)
        return lambda direction: self.bound[:, None] * hessian_product(direction)

    def gain(self, dual: DeviceArray, scale: float = 1.0) -> float:
        """-sum_i b_i loss*(-u_i): the part of the dual value that knows the labels."""
        unit = float(scale) * dual / self.bound[:, None]
        return -dot(self.bound, self.loss.conjugate(unit, self.target))

    def feasible_scale(self, dual: DeviceArray) -> float:
        """The largest t with t * dual feasible; 0 if there is none."""
        return self.loss.feasible_scale(dual / self.bound[:, None], self.target)


class FrozenProblem:
    """min over A of 1/2 <A, K A> + sum_i b_i loss_i(K A), for one kernel K."""

    def __init__(self, problem: Any, kernel: Any, losses: Any = None) -> None:
        self.problem = problem
        self.kernel = kernel
        self.losses: Any = losses or RowLosses(problem, kernel.device)
        self.products = 0

    @cached_property
    def _signs(self) -> DeviceArray:
        """Random signs z: <z, H z> is the sum of the curvatures, in the mean."""
        shape = (self.problem.n_rows, self.problem.n_outputs)
        drawn = np.random.default_rng(0).integers(2, size=shape, dtype=np.int8)
        return self.kernel.put(2.0 * drawn.astype(np.float64) - 1.0)

    def times(self, coef: DeviceArray) -> DeviceArray:
        """K coef, counted."""
        self.products += 1
        return self.kernel.times(coef)

    def value(self, coef: DeviceArray, scores: DeviceArray) -> float:
        """The primal value."""
        return 0.5 * dot(coef, scores) + float(self.losses.total(scores))

    def dual_value(self, dual: DeviceArray, scores: DeviceArray) -> float:
        """The dual value of a feasible point with scores K dual."""
        return float(self.losses.gain(dual)) - 0.5 * dot(dual, scores)

    def point(self, coef: DeviceArray, scores: DeviceArray) -> FrozenPoint:
        """Both sides of the certificate, for one product."""
        dual = -self.losses.gradient(scores)
        dual_scores = scores + self.times(dual - coef)
        value, below = self.value(coef, scores), self.dual_value(dual, dual_scores)
        return FrozenPoint(coef, scores, dual, dual_scores, value, below)

    def solve(self, coef: Array, goal: float) -> FrozenPoint:
        """Newton's method from `coef` to a relative gap of `goal`."""
        start = self.kernel.put(coef)
        point = self.point(start, self.times(start))
        for _ in range(MAX_FROZEN_STEPS):
            if self.is_solved(point, goal):
                break
            last, point = point, self._step(point, _forcing(point.gap, goal))
            if last.gap <= min(ROUNDING_GAP, point.gap):
                point = last
                break
        # Gaps near rounding do not show what another step still gains.
        return point if goal > ROUNDING_GAP else self._step(point, TIGHT_RESIDUAL)

    def is_solved(self, point: FrozenPoint, goal: float) -> bool:
        """Whether Newton's method ends at this point."""
        return point.gap <= goal

    def _step(self, point: FrozenPoint, residual: float) -> FrozenPoint:
        """The next point, or the same where no step goes down."""
        move, shift = self._direction(point, residual)
        length = self._length(point, move, shift)
        if length == 0.0:
            # Rounding may spoil conjugate gradients; the gradient itself goes down.
            move, shift = point.dual - point.coef, point.dual_scores - point.scores
            length = self._length(point, move, shift)
        if length == 0.0:
            return point
        coef = point.coef + length * move
        return self.point(coef, self.times(coef))

    def _direction(self, point: FrozenPoint, residual: float) -> Pair:
        """D with (I + H K) D = U - A and K D; H is the curvature of the losses.

        The system is symmetric in the inner product <x, K y>.
        """
        hessian_product = self.losses.curvature(point.scores)
        rest = point.dual - point.coef
        precondition = self._preconditioner(point, hessian_product)
        if precondition is None:
            first = rest, point.dual_scores - point.scores
        else:
            first = precondition(rest)
        enough = dot(rest, first[1]) * residual**2
        return conjugate_gradients(
            lambda way, image: way + hessian_product(image),
            precondition or (lambda rest: (rest, self.times(rest))),
            rest,
            _product,
            lambda _solution, _rest, square: square <= enough,
            MAX_PRODUCTS,
            first,
        )

    def _preconditioner(
        self, point: FrozenPoint, hessian_product: LinearMap
    ) -> Callable[[DeviceArray], Pair] | None:
        """From r to z = (I + h K)^-1 r and K z, where that costs one product.

        h is the mean curvature: conjugate gradients then see its deviations only.
        """
        damped_at = self.kernel.damped()
        if damped_at is None:
            return None
        n_scores = self.problem.n_rows * self.problem.n_outputs
        level = dot(self._signs, hessian_product(self._signs)) / n_scores
        damped = damped_at(level)

        def precondition(rest: DeviceArray) -> Pair:
            self.products += 1
            image = damped(rest)
            return rest - level * image, image

        return precondition

    def _length(
        self, point: FrozenPoint, move: DeviceArray, shift: DeviceArray
    ) -> float:
        """A length at which the value along the direction is nearly the smallest."""
        linear, quadratic = dot(move, point.scores), dot(move, shift)

        def slope(t: float) -> float:
            gradient = self.losses.gradient(point.scores + t * shift)
            return linear + t * quadratic + dot(gradient, shift)

        start = linear - dot(point.dual, shift)
        return _root(slope, start) if start < 0.0 else 0.0


def dot(a: DeviceArray, b: DeviceArray) -> float:
    """The sum of the products of two arrays."""
    return float(_product(a, b))


def _product(a: DeviceArray, b: DeviceArray) -> DeviceArray:
    xp = namespace(a)
    return xp.reshape(a, (-1,)) @ xp.reshape(b, (-1,))


def _forcing(gap: float, goal: float) -> float:
    """How well to solve for a step: the gap falls with the square of the residual."""
    wanted = LOST_GAIN_SHARE * np.sqrt(goal / gap)
    return float(np.clip(wanted, TIGHT_RESIDUAL, LOOSE_RESIDUAL))


def _root(slope: Callable[[float], float], start: float) -> float:
    """t > 0 where the increasing function `slope`, negative at 0, is nearly zero."""
    low, high = 0.0, np.inf
    at_low, at_high = start, np.inf
    t = 1.0
    for _ in range(MAX_LENGTHS):
        value = slope(t)
        if abs(value) <= FLAT_SLOPE * abs(start):
            return t
        if value < 0.0:
            low, at_low = t, value
        else:
            high, at_high = t, value
        if np.isinf(high):
            t *= 2.0
            continue
        # The secant, but never so close to an end that the interval hardly shrinks.
        secant = low - at_low * (high - low) / (at_high - at_low)
        margin = 0.1 * (high - low)
        t = float(np.clip(secant, low + margin, high - margin))
    return low if low > 0.0 else t


def second_order_weights(
    frozen: FrozenProblem,
    point: FrozenPoint,
    norm: LpGroupNorm,
    theta_norms: Array,
) -> Array:
    """Newton's weights of the blocks in the model; the others follow their own norms.

    Blocks with hardly any weight hardly change the others, and would cost a linear
    system each.
    """
    weights = frozen.kernel.weights
    in_model = weights > ACTIVE_SHARE * weights.max()
    returning = theta_norms >= RETURNING_SHARE * theta_norms.max()
    active = np.flatnonzero(in_model | returning)
    squares, curvature = theta_norms[active] ** 2, hessian(frozen, point, active)
    aim = newton_weights(norm, weights[active][None], squares[None], curvature[None])[0]
    target = np.zeros_like(weights)
    if norm.p > 1.0:
        top = active[int(np.argmax(aim))]
        ratios = np.minimum(theta_norms / theta_norms[top], 1.0)
        target = aim.max() * ratios ** (norm.q - 2.0)
    target[active] = aim
    return norm.normalize_weights(target)


def hessian(frozen: FrozenProblem, point: FrozenPoint, blocks: Index) -> Array:
    r"""Second derivatives of J, :math:`-\langle K_f A, dA / dd_g \rangle`.

    The solution A moves by :math:`(I + H K)\, dA_g = -H K_g A`, solved for all blocks
    at once by conjugate gradients in the inner product of K.
    """
    kernel, n_blocks = frozen.kernel, len(blocks)
    xp = kernel.device.xp
    sides = kernel.block_products(point.dual, blocks)  # (blocks, rows, outputs)
    hessian_product = frozen.losses.curvature(point.scores)

    def dots(a: DeviceArray, b: DeviceArray) -> DeviceArray:
        rows = xp.reshape(a, (n_blocks, 1, -1))
        return xp.matmul(rows, xp.reshape(b, (n_blocks, -1, 1)))

    rest = -hessian_product(sides)
    image = kernel.times_each(rest)
    enough = TIGHT_RESIDUAL**2 * dots(rest, image)
    moves, _ = conjugate_gradients(
        lambda way, image: way + hessian_product(image),
        lambda rest: (rest, kernel.times_each(rest)),
        rest,
        dots,
        lambda _solution, _rest, square: square <= enough,
        MAX_PRODUCTS,
        (rest, image),
    )
    shape = (n_blocks, -1)
    product = xp.reshape(sides, shape) @ xp.reshape(moves, shape).T
    found = -kernel.get(product)
    return np.asarray(0.5 * (found + found.T))
