"""Between two rounds under frozen weights: the next weights, and the best dual point.

`WeightSearch` follows the fixed point of the weights, accelerated; `DualMixture` makes
the most of the dual points of all rounds.
"""

from __future__ import annotations

import numpy as np

from manykernels.base.arrays import Array
from manykernels.norms.group import LpGroupNorm, p_norms
from manykernels.solvers.levels import nearest_point
from manykernels.solvers.loop import Resumable

ANDERSON_ROUNDS = 4  # remembered by Anderson's mixing
SMALL_WEIGHT = 0.1  # weights below this share of the largest move on their own
REVIVED_WEIGHT = 0.02  # share of the largest weight that a vanished block gets back
LEAST_POSITIVE = 1e-30  # stands for zero in logarithms

MIXED_POINTS = 12  # dual points that are kept for mixtures
STEEP_EXPONENT = 30.0  # dual exponents above this are handled as a maximum
PROXIMAL_WEIGHT = 1e-5  # of ||m - last||^2 in a step, for block norms up to one


class WeightSearch(Resumable):
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
        *("weights", "_best_value", "_best", "_strides", "_last_residual"),
        *("_revived", "_points", "_images"),
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
        floor = REVIVED_WEIGHT * self.weights.max()
        self.weights = self.norm.normalize_weights(np.maximum(self.weights, floor))
        self._best_value = np.inf
        self._best: tuple[Array, Array] | None = None
        self._strides = np.full(len(self.weights), 0.5)
        self._last_residual = np.zeros(len(self.weights))
        self._revived = np.full(len(self.weights), REVIVED_WEIGHT)
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
        point = np.log(np.maximum(self.weights, LEAST_POSITIVE))
        wanted = self.norm.weights(self.weights * theta_norms)
        image = np.log(np.maximum(wanted, LEAST_POSITIVE))
        if lower > self._best_value and self._best is not None:
            self._points, self._images = [], []
            self._strides = 0.25 * self._strides
            point, image = self._best
            move = image - point
        else:
            if upper < self._best_value:
                self._best_value, self._best = upper, (point, image)
            move = self._accelerated(point, image)
        logs = point + move
        weights = np.exp(logs - logs.max())
        if self.norm.p == 1.0:
            weights = self._with_exact_zeros(weights, theta_norms)
        self.weights = self.norm.normalize_weights(weights)
        return self.weights

    def _accelerated(self, point: Array, image: Array) -> Array:
        """Anderson's mixing for large weights, strides of their own for small ones.

        Strides grow while a residual keeps its sign and shrink when it turns, never
        longer than if the block norm did not react at all, residual / (p - 1).
        """
        residual = image - point
        turns = np.sign(residual * self._last_residual)
        self._strides = self._strides * 2.0**turns
        self._last_residual = residual
        longest = np.abs(residual) / max(self.norm.p - 1.0, LEAST_POSITIVE)
        move = np.sign(residual) * np.minimum(self._strides, longest)
        self._points = [*self._points, point][-ANDERSON_ROUNDS:]
        self._images = [*self._images, image][-ANDERSON_ROUNDS:]
        points, images = np.array(self._points), np.array(self._images)
        large = point > point.max() + np.log(SMALL_WEIGHT)
        move[large] = anderson(points[:, large], images[:, large]) - point[large]
        return np.asarray(move)

    def _with_exact_zeros(self, weights: Array, theta_norms: Array) -> Array:
        """Drop vanishing blocks; give one back a small weight if the dual asks for it.

        Less every time: a weight above the wanted one raises the value, is taken
        back, and would otherwise return for ever.
        """
        weights = np.where(weights < 1e-5 * weights.max(), 0.0, weights)
        missing = (weights == 0.0) & (theta_norms >= theta_norms[weights > 0.0].max())
        shares = np.where(missing, self._revived * weights.max(), weights)
        self._revived = np.where(missing, 0.5 * self._revived, self._revived)
        return shares


def anderson(points: Array, images: Array) -> Array:
    """Anderson's mixing: the combination of images with the smallest residual.

    Both have shape (rounds, numbers).

    Examples
    --------
    >>> points = np.array([[1.0], [0.5]])
    >>> anderson(points, 0.5 * points).round(6).tolist()
    [0.0]
    """
    if len(images) == 1:
        return np.asarray(images[-1])
    residuals = images - points
    steps = np.diff(residuals, axis=0).T
    normal = steps.T @ steps
    ridge = 1e-8 * np.trace(normal) + 1e-300  # residuals may be alike, or all zero
    mix = np.linalg.solve(normal + ridge * np.eye(len(normal)), steps.T @ residuals[-1])
    return np.asarray(images[-1] - np.diff(images, axis=0).T @ mix)


class DualMixture(Resumable):
    r"""The best dual value among the mixtures of the last few dual points.

    The dual value is :math:`\ell(A) - \tfrac12 \|\theta(A)\|_{2,q}^2` with linear
    :math:`\ell`. Each round's point serves the weights frozen in that round, and for
    p near 1 its largest block norm alone spoils the bound; the next round spoils
    another block. By the triangle inequality the block norms of a mixture are at
    most the mixture of the block norms, so a good mixture is found and certified
    from F numbers a round, without a kernel value.
    """

    remembered = ("value", "coef", "_points")

    def __init__(self, norm: LpGroupNorm) -> None:
        self.norm = norm
        self.value = -np.inf
        self._coef: Array = np.zeros((0, 0))
        self._best: tuple[Array, tuple[Array, ...]] | None = None  # shares, points
        self._points: list[tuple[Array, float, Array]] = []

    @property
    def coef(self) -> Array:
        """The best point, mixed when it is asked for: few rounds end a search."""
        if self._best is not None:
            shares, coefs = self._best
            used = np.flatnonzero(shares)
            points = [coefs[k] for k in used]
            self._coef, self._best = np.tensordot(shares[used], points, axes=1), None
        return self._coef

    @coef.setter
    def coef(self, coef: Array) -> None:
        self._coef, self._best = coef, None

    def add(self, coef: Array, linear: float, theta_norms: Array) -> float:
        """Take in a feasible point; returns the best value so far."""
        self._points.append((coef.copy(), linear, theta_norms))
        coefs, linears, norms = zip(*self._points, strict=True)
        if len(set(map(np.shape, coefs))) > 1:
            raise ValueError("dual points must have the same shape")
        values, rows = np.array(linears), np.array(norms)
        singles = np.eye(len(values))
        best = int(np.argmax(values - 0.5 * p_norms(rows, self.norm.q) ** 2))
        mixed = alone = singles[best]
        if len(values) > 1 and self.norm.q >= STEEP_EXPONENT:
            mixed = _steepest_mixture(values, rows, alone)
        # The mixture is the best for q = inf; for finite q one point may be better.
        for shares in (alone, mixed):
            value = float(shares @ values - self.norm.dual_value(shares @ rows))
            if value > self.value:
                self.value, self._best = value, (shares, coefs)
        if len(values) > MIXED_POINTS:  # the mixture needs this one least
            del self._points[int(np.argmin(mixed[:-1]))]
        return self.value


def _steepest_mixture(linears: Array, norms: Array, start: Array) -> Array:
    """Shares m that maximize linears . m - s^2 / 2 with s >= every entry of norms' m.

    By proximal steps: where a little of ||m - last||^2 is taken off, the best (m, s) is
    the nearest feasible point to one far away.
    """
    scale = float(np.max(norms))
    if scale == 0.0:
        return start
    linears, norms = linears / scale**2, norms / scale
    root = np.sqrt(PROXIMAL_WEIGHT)  # the nearest (root m, s)
    steepest = np.hstack([norms.T / root, -np.ones((norms.shape[1], 1))])
    total = np.append(np.full(len(start), 1.0 / root), 0.0)
    matrix = np.vstack([steepest, total, -total])
    offsets = np.append(np.zeros(len(steepest)), [-1.0, 1.0])
    best, value = start, _steepest_value(start, linears, norms)
    for _ in range(10):
        pulls = linears - linears @ best  # a constant changes nothing, and is shorter
        far = np.append(root * best + pulls / root, 0.0)
        found = nearest_point(far, matrix, offsets)
        if found is None or not found[:-1].any():
            break
        shares = found[:-1] / found[:-1].sum()
        higher = _steepest_value(shares, linears, norms)
        if higher <= value:  # rounding
            break
        best, value = shares, higher
    return best


def _steepest_value(shares: Array, linears: Array, norms: Array) -> float:
    return float(shares @ linears - 0.5 * np.max(shares @ norms) ** 2)
