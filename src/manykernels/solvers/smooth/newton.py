"""The problem under frozen kernel weights, by a truncated Newton method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manykernels.banks.base import Bank
from manykernels.base.arrays import Array, Index
from manykernels.device import quotient
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem
from manykernels.solvers.smooth.device_kernel import DeviceFrozenKernel
from manykernels.solvers.smooth.kernel import FrozenKernel
from manykernels.solvers.smooth.losses import LinearMap, RowLosses
from manykernels.solvers.weight_newton import newton_weights

AnyKernel = FrozenKernel | DeviceFrozenKernel

STEPS = 50  # of Newton's method at most
CG_STEPS = 250  # products for one step at most
LOOSE, TIGHT = 0.1, 1e-3  # residuals that end conjugate gradients
SHARE = 0.3  # of what a step has to gain may be lost to a loose residual
LENGTHS = 12  # trial lengths of a step
FLAT = 0.1  # slope, relative to that at the start, at which a length is fine
ROUNDING = 1e-15
NOISE = 1e-11  # gaps that rounding can make grow again
HESSIAN_STEPS = 60  # products at most for the second derivatives in the weights
HESSIAN_RESIDUAL = 1e-3  # relative, of the linear systems
ACTIVE = 1e-3  # share of the largest weight above which a block is in the model
NEAR = 0.98  # share of the largest ||theta_f|| from which on a block may come back


@dataclass(frozen=True)
class Point:
    r"""Coefficients A, scores K A, and the dual point U = -b loss'(K A) with K U.

    In units of the objective over lambda: value :math:`\tfrac12 \langle A, KA \rangle
    + \sum_i b_i\, loss_i(KA)`, and dual value of U. Arrays live where the kernel does.
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


def freeze(bank: Bank, weights: Array) -> AnyKernel:
    """The combined kernel, where the bank's values live."""
    there = bank.on_device()
    if there is None:
        return FrozenKernel(bank, weights)
    return DeviceFrozenKernel(bank, there, weights)


class Frozen:
    """min over A of 1/2 <A, K A> + sum_i b_i loss_i(K A), for one kernel K."""

    def __init__(
        self, problem: Problem, kernel: AnyKernel, losses: RowLosses | None = None
    ) -> None:
        self.problem = problem
        self.kernel: Any = kernel
        self.losses = kernel.losses(problem) if losses is None else losses
        self.dot = kernel.dot
        self.products = 0

    @cached_property
    def _signs(self) -> Any:
        """Random signs z: <z, H z> is the sum of the curvatures, in the mean."""
        shape = (self.problem.n_rows, self.problem.n_outputs)
        drawn = np.random.default_rng(0).integers(2, size=shape, dtype=np.int8)
        return self.kernel.put(2.0 * drawn - 1.0)

    def times(self, coef: Any) -> Any:
        """K coef, counted."""
        self.products += 1
        return self.kernel.times(coef)

    def value(self, coef: Any, scores: Any) -> float:
        """The primal value."""
        return 0.5 * self.dot(coef, scores) + self.losses.total(scores)

    def dual_value(self, dual: Any, scores: Any) -> float:
        """The dual value of a feasible point with scores K dual."""
        return self.losses.gain(dual) - 0.5 * self.dot(dual, scores)

    def point(self, coef: Any, scores: Any) -> Point:
        """Both sides of the certificate, for one product."""
        dual = -self.losses.gradient(scores)
        dual_scores = scores + self.times(dual - coef)
        value, below = self.value(coef, scores), self.dual_value(dual, dual_scores)
        return Point(coef, scores, dual, dual_scores, value, below)

    def solve(self, coef: Array, goal: float) -> Point:
        """Newton's method from `coef` to a relative gap of `goal`."""
        start = self.kernel.put(coef)
        point = self.point(start, self.times(start))
        for _ in range(STEPS):
            if point.gap <= goal:
                break
            last, point = point, self._step(point, _forcing(point.gap, goal))
            if last.gap <= min(NOISE, point.gap):
                point = last
                break
        # Gaps near rounding say nothing of what another step still gains.
        return point if goal > NOISE else self._step(point, TIGHT)

    def _step(self, point: Point, residual: float) -> Point:
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

    def _direction(self, point: Point, residual: float) -> tuple[Any, Any]:
        """D with (I + H K) D = U - A and K D; H is the curvature of the losses.

        Conjugate gradients in the inner product <x, K y>, in which the system is
        symmetric: one product a step.
        """
        rest = point.dual - point.coef
        move = shift = self.kernel.xp.zeros_like(rest)
        bend = self.losses.curvature(point.scores)
        improve = self._improvement(point, bend)
        way, ahead = rest, point.dual_scores - point.scores  # and K way
        if improve is not None:
            way, ahead = improve(rest)
        square = first = self.dot(rest, ahead)
        enough = first * residual**2
        for _ in range(CG_STEPS):
            bent = way + bend(ahead)
            steep = self.dot(ahead, bent)
            if steep <= 0.0:
                break
            length = square / steep
            move, shift = move + length * way, shift + length * ahead
            rest = rest - length * bent
            better, image = (
                (rest, self.times(rest)) if improve is None else improve(rest)
            )
            last, square = square, self.dot(rest, image)
            if square <= max(enough, ROUNDING * first):
                break
            way = better + square / last * way
            ahead = image + square / last * ahead
        return move, shift

    def _improvement(
        self, point: Point, bend: LinearMap
    ) -> Callable[[Any], tuple[Any, Any]] | None:
        """From r to z = (I + h K)^-1 r and K z, where that costs one product.

        h is the mean curvature: conjugate gradients then see its deviations only.
        """
        damped_at = self.kernel.damped()
        if damped_at is None:
            return None
        n_scores = self.problem.n_rows * self.problem.n_outputs
        level = self.dot(self._signs, bend(self._signs)) / n_scores
        damped = damped_at(level)

        def improve(rest: Any) -> tuple[Any, Any]:
            self.products += 1
            image = damped(rest)
            return rest - level * image, image

        return improve

    def _length(self, point: Point, move: Any, shift: Any) -> float:
        """A length at which the value along the direction is nearly the smallest."""
        linear = self.dot(move, point.scores)
        quadratic = self.dot(move, shift)

        def slope(t: float) -> float:
            gradient = self.losses.gradient(point.scores + t * shift)
            return linear + t * quadratic + self.dot(gradient, shift)

        start = linear - self.dot(point.dual, shift)
        if start >= 0.0:
            return 0.0
        return _root(slope, start)


def conjugate_gain(problem: Problem, dual: Array) -> float:
    """-sum_i b_i loss*(-u_i): the part of the dual value that knows the labels."""
    unit = dual / problem.bound[:, None]
    return -float(problem.bound @ problem.loss.conjugate(unit, problem.target))


def _forcing(gap: float, goal: float) -> float:
    """How well to solve for a step: the gap falls with the square of the residual."""
    return float(np.clip(SHARE * np.sqrt(goal / gap), TIGHT, LOOSE))


def _root(slope: Callable[[float], float], start: float) -> float:
    """t > 0 where the increasing function `slope`, negative at 0, is nearly zero."""
    low, high = 0.0, np.inf
    at_low, at_high = start, np.inf
    t = 1.0
    for _ in range(LENGTHS):
        value = slope(t)
        if abs(value) <= FLAT * abs(start):
            return t
        if value < 0.0:
            low, at_low = t, value
        else:
            high, at_high = t, value
        if np.isinf(high):
            t *= 2.0
            continue
        secant = low - at_low * (high - low) / (at_high - at_low)
        margin = 0.1 * (high - low)
        t = float(np.clip(secant, low + margin, high - margin))
    return low if low > 0.0 else t


def second_order_weights(
    frozen: Frozen, point: Point, norm: LpGroupNorm, theta_norms: Array
) -> Array:
    """Newton's weights of the blocks in the model; the others follow their own norms.

    Blocks with hardly any weight hardly change the others, and would cost a linear
    system each.
    """
    weights = frozen.kernel.weights
    large = weights > ACTIVE * weights.max()
    active = np.flatnonzero(large | (theta_norms >= NEAR * theta_norms.max()))
    squares, bend = theta_norms[active] ** 2, hessian(frozen, point, active)
    aim = newton_weights(norm, weights[active][None], squares[None], bend[None])[0]
    found = np.zeros_like(weights)
    if norm.p > 1.0:
        top = active[int(np.argmax(aim))]
        ratios = np.minimum(theta_norms / theta_norms[top], 1.0)
        found = aim.max() * ratios ** (norm.q - 2.0)
    found[active] = aim
    return norm.normalize_weights(found)


def hessian(frozen: Frozen, point: Point, blocks: Index) -> Array:
    r"""Second derivatives of J, :math:`-\langle K_f A, dA / dd_g \rangle`.

    The solution A moves by :math:`(I + H K)\, dA_g = -H K_g A`, solved for all blocks
    at once by conjugate gradients in the inner product of K.
    """
    sides = frozen.kernel.block_products(point.dual, blocks)  # f, i, k
    bend_losses = frozen.losses.curvature(point.scores)
    moves = _solve_all(frozen, bend_losses, -bend_losses(sides))
    shape = (len(blocks), -1)
    reshape = frozen.kernel.xp.reshape
    bend = -frozen.kernel.get(reshape(sides, shape) @ reshape(moves, shape).T)
    return np.asarray(0.5 * (bend + bend.T))


def _solve_all(frozen: Frozen, curvature: LinearMap, rest: Any) -> Any:
    """(I + H K) moves = rest, all systems side by side."""
    xp, times = frozen.kernel.xp, frozen.kernel.times_each
    moves = xp.zeros_like(rest)
    image = times(rest)
    way, ahead = rest, image
    square = first = _dots(xp, rest, image)
    for _ in range(HESSIAN_STEPS):
        bent = way + curvature(ahead)
        steep = _dots(xp, ahead, bent)
        length = quotient(xp, square, steep)
        moves = moves + length * way
        rest = rest - length * bent
        image = times(rest)
        last, square = square, _dots(xp, rest, image)
        if bool(xp.all(square <= HESSIAN_RESIDUAL**2 * first)):
            break
        ratio = quotient(xp, square, last)
        way, ahead = rest + ratio * way, image + ratio * ahead
    return moves


def _dots(xp: Any, a: Any, b: Any) -> Any:
    """<a_f, b_f>, to multiply blocks with."""
    n_blocks = a.shape[0]
    return xp.matmul(xp.reshape(a, (n_blocks, 1, -1)), xp.reshape(b, (n_blocks, -1, 1)))
