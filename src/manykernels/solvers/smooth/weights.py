"""Second-order steps for the kernel weights, where first-order ones crawl."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.regression.ridge_weights import newton_weights
from manykernels.solvers.smooth.newton import Frozen, Point
from manykernels.solvers.state import Remembers

ACTIVE = 1e-3  # share of the largest weight above which a block is in the model
NEAR = 0.98  # share of the largest ||theta_f|| from which on a block may come back
CG_STEPS = 60  # products at most
RESIDUAL = 1e-3  # relative, of the linear systems


class WeightNewton(Remembers):
    r"""Minimize J(d), the optimum under frozen weights d, on :math:`\|d\|_r \le 1`.

    J is convex with gradient :math:`-\tfrac12 \|\theta_f\|^2`; its Hessian follows from
    how the solution A moves with d. A step minimizes the quadratic model on the
    feasible set. A step after which the value has risen for certain is halved.
    """

    remembered = ("weights", "_value", "_base")

    def __init__(self, norm: LpGroupNorm, weights: Array) -> None:
        self.norm = norm
        self.weights = weights
        self._value = np.inf  # smallest upper bound so far
        self._base = weights  # where it was found

    def step(self, frozen: Frozen, point: Point, theta_norms: Array) -> Array:
        """Next weights, from the solution under the current ones."""
        if point.dual_value > self._value:
            self.weights = self.norm.normalize_weights(
                0.5 * (self._base + self.weights)
            )
            return self.weights
        self._value, self._base = min(self._value, point.value), self.weights
        active = self._active(theta_norms)
        squares = theta_norms[active] ** 2
        bend = hessian(frozen, point, active)
        start = self.weights[active]
        aim = newton_weights(self.norm, start[None], squares[None], bend[None])[0]
        self.weights = self._complete(active, aim, theta_norms)
        return self.weights

    def _active(self, theta_norms: Array) -> Index:
        large = self.weights > ACTIVE * self.weights.max()
        return np.flatnonzero(large | (theta_norms >= NEAR * theta_norms.max()))

    def _complete(self, active: Index, aim: Array, theta_norms: Array) -> Array:
        """The other blocks follow their own norms, which they hardly change."""
        weights = np.zeros_like(self.weights)
        if self.norm.p > 1.0:
            top = active[int(np.argmax(aim))]
            ratios = np.minimum(theta_norms / theta_norms[top], 1.0)
            weights = aim.max() * ratios ** (self.norm.q - 2.0)
        weights[active] = aim
        return self.norm.normalize_weights(weights)


def hessian(frozen: Frozen, point: Point, blocks: Index) -> Array:
    r"""Second derivatives of J, :math:`-\langle K_f A, dA / dd_g \rangle`.

    The solution A moves by :math:`(I + H K)\, dA_g = -H K_g A`, solved for all blocks
    at once by conjugate gradients in the inner product of K.
    """
    parts = frozen.problem.bank.block_scores(point.dual)[:, blocks]
    sides = np.ascontiguousarray(parts.transpose(1, 2, 0), np.float64)  # f, i, k
    bend_losses = frozen.curvature(point)
    moves = _solve(frozen, bend_losses, -bend_losses(sides))
    bend = -np.einsum("fik,gik->fg", sides, moves)
    return np.asarray(0.5 * (bend + bend.T))


def _times(frozen: Frozen, moves: Array) -> Array:
    """K move for every block, in one product."""
    n_blocks, n_rows, n_outputs = moves.shape
    columns = moves.transpose(1, 0, 2).reshape(n_rows, -1)
    product = frozen.times(columns).reshape(n_rows, n_blocks, n_outputs)
    return np.asarray(product.transpose(1, 0, 2))


def _solve(frozen: Frozen, curvature: Callable[[Array], Array], rest: Array) -> Array:
    """(I + H K) moves = rest, all systems side by side."""
    moves = np.zeros_like(rest)
    image = _times(frozen, rest)
    way, ahead = rest, image
    square = first = _dots(rest, image)
    for _ in range(CG_STEPS):
        bent = way + curvature(ahead)
        steep = _dots(ahead, bent)
        length = _ratio(square, steep)
        moves = moves + length * way
        rest = rest - length * bent
        image = _times(frozen, rest)
        last, square = square, _dots(rest, image)
        if np.all(square <= RESIDUAL**2 * first):
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
