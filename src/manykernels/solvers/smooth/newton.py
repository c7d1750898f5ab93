"""The problem under frozen kernel weights, by a truncated Newton method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem
from manykernels.solvers.smooth.kernel import FrozenKernel
from manykernels.solvers.weight_newton import newton_weights

LinearMap = Callable[[Array], Array]

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
    + \sum_i b_i\, loss_i(KA)`, and dual value of U.
    """

    coef: Array
    scores: Array
    dual: Array
    dual_scores: Array
    value: float
    dual_value: float

    @property
    def gap(self) -> float:
        """Relative duality gap of the frozen problem."""
        return relative_gap(self.value, self.dual_value)


class Frozen:
    """min over A of 1/2 <A, K A> + sum_i b_i loss_i(K A), for one kernel K."""

    def __init__(self, problem: Problem, kernel: FrozenKernel) -> None:
        self.problem = problem
        self.kernel = kernel
        self.bound = problem.bound[:, None]
        self.products = 0

    def times(self, coef: Array) -> Array:
        """K coef, counted."""
        self.products += 1
        return self.kernel.times(coef)

    def gradient(self, scores: Array) -> Array:
        """b loss'."""
        return self.bound * self.problem.loss.gradient(scores, self.problem.target)

    def value(self, coef: Array, scores: Array) -> float:
        """The primal value."""
        losses = self.problem.loss.value(scores, self.problem.target)
        return float(0.5 * np.vdot(coef, scores) + self.problem.bound @ losses)

    def dual_value(self, dual: Array, scores: Array) -> float:
        """The dual value of a feasible point with scores K dual."""
        gain = conjugate_gain(self.problem, dual)
        return float(gain - 0.5 * np.vdot(dual, scores))

    def point(self, coef: Array, scores: Array) -> Point:
        """Both sides of the certificate, for one product."""
        dual = -self.gradient(scores)
        dual_scores = scores + self.times(dual - coef)
        value, below = self.value(coef, scores), self.dual_value(dual, dual_scores)
        return Point(coef, scores, dual, dual_scores, value, below)

    def solve(self, coef: Array, goal: float) -> Point:
        """Newton's method from `coef` to a relative gap of `goal`."""
        point = self.point(coef, self.times(coef))
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

    def _direction(self, point: Point, residual: float) -> tuple[Array, Array]:
        """D with (I + H K) D = U - A and K D; H is the curvature of the losses.

        Conjugate gradients in the inner product <x, K y>, in which the system is
        symmetric: one product a step.
        """
        rest = point.dual - point.coef
        image = point.dual_scores - point.scores  # K rest
        move, shift = np.zeros_like(rest), np.zeros_like(rest)
        way, ahead = rest, image
        square = first = float(np.vdot(rest, image))
        enough = first * residual**2
        bend = self.curvature(point)
        for _ in range(CG_STEPS):
            bent = way + bend(ahead)
            steep = float(np.vdot(ahead, bent))
            if steep <= 0.0:
                break
            length = square / steep
            move, shift = move + length * way, shift + length * ahead
            rest = rest - length * bent
            image = self.times(rest)
            last, square = square, float(np.vdot(rest, image))
            if square <= max(enough, ROUNDING * first):
                break
            way = rest + square / last * way
            ahead = image + square / last * ahead
        return move, shift

    def curvature(self, point: Point) -> LinearMap:
        """b loss'' as a map of directions."""
        bend = self.problem.loss.curvature(point.scores, self.problem.target)
        return lambda direction: self.bound * bend(direction)

    def _length(self, point: Point, move: Array, shift: Array) -> float:
        """A length at which the value along the direction is nearly the smallest."""
        linear = float(np.vdot(move, point.scores))
        quadratic = float(np.vdot(move, shift))

        def slope(t: float) -> float:
            gradient = self.gradient(point.scores + t * shift)
            return linear + t * quadratic + float(np.vdot(gradient, shift))

        start = linear - float(np.vdot(point.dual, shift))
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
    parts = frozen.problem.bank.block_scores(point.dual)[:, blocks]
    sides = np.ascontiguousarray(parts.transpose(1, 2, 0), np.float64)  # f, i, k
    bend_losses = frozen.curvature(point)
    moves = _solve_all(frozen, bend_losses, -bend_losses(sides))
    bend = -np.einsum("fik,gik->fg", sides, moves)
    return np.asarray(0.5 * (bend + bend.T))


def _times(frozen: Frozen, moves: Array) -> Array:
    """K move for every block, in one product."""
    n_blocks, n_rows, n_outputs = moves.shape
    columns = moves.transpose(1, 0, 2).reshape(n_rows, -1)
    product = frozen.times(columns).reshape(n_rows, n_blocks, n_outputs)
    return np.asarray(product.transpose(1, 0, 2))


def _solve_all(frozen: Frozen, curvature: LinearMap, rest: Array) -> Array:
    """(I + H K) moves = rest, all systems side by side."""
    moves = np.zeros_like(rest)
    image = _times(frozen, rest)
    way, ahead = rest, image
    square = first = _dots(rest, image)
    for _ in range(HESSIAN_STEPS):
        bent = way + curvature(ahead)
        steep = _dots(ahead, bent)
        length = _ratio(square, steep)
        moves = moves + length * way
        rest = rest - length * bent
        image = _times(frozen, rest)
        last, square = square, _dots(rest, image)
        if np.all(square <= HESSIAN_RESIDUAL**2 * first):
            break
        ratio = _ratio(square, last)
        way, ahead = rest + ratio * way, image + ratio * ahead
    return moves


def _dots(a: Array, b: Array) -> Array:
    """<a_f, b_f>, to multiply blocks with."""
    return np.asarray(np.einsum("fik,fik->f", a, b)[:, None, None])


def _ratio(above: Array, below: Array) -> Array:
    """above / below, 0 where a system is already solved."""
    safe = np.where(below > 0.0, below, 1.0)
    return np.where(below > 0.0, above / safe, 0.0)
