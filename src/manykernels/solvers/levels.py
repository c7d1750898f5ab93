"""Weights at p = 1, where they have no fixed point: planes below J, and its curvature.

J(d), the optimum under frozen weights d, is convex on the simplex. Every round gives
its value and its slopes -1/2 ||theta_f||^2 at one point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize, nnls

from manykernels.base.arrays import Array
from manykernels.solvers.loop import Resumable
from manykernels.solvers.weight_newton import with_secant

if TYPE_CHECKING:
    from manykernels.solvers.weights import DualMixture

NEGLIGIBLE_WEIGHT = 1e-2  # share of the largest, below which models try to do without
EXACT_ZERO_TOL = 1e-12  # an entry of a projection below this has vanished
MAX_EXACT_BLOCKS = 100  # exact projections and second derivatives take cubic time
GAP_SHRINKAGE = 0.7  # of the last gap: a kind of step that reaches it goes on
# The first guess at the curvature is a multiple of -slopes / weights, with which
# weights would move as to their fixed point if it were 2; it is too large at zero.
FIRST_CURVATURE = 0.6
SUM_PENALTY = 1e3  # how strongly weights are held to a sum of one, before the division

# How far from the lower bound to the best value the next weights aim; near 1, steps
# are short. The first is the most ambitious that works well; where planes whose dual
# points are forgotten rule it out, the next is tried.
LEVELS = (0.4, 0.7, 0.9)


class LevelSearch(Resumable):
    r"""Minimize J(d), the optimum under frozen weights d, over the simplex.

    Two kinds of steps take turns; one goes on as long as it shrinks the gap. Slopes of
    J at the weights so far give secants of its curvature (BFGS), and the next weights
    minimize that quadratic model. It outlasts a change of the rows, which changes the
    curvature by little more than a factor. And every round gives a plane below J,
    :math:`\ell - \frac12 \sum_f d_f \|\theta_f\|^2`: the next weights are the nearest
    to the best ones so far at which no plane forbids a value between the lower bound
    and the best value. Planes of a working set stay valid for all the rows, whose J is
    larger.

    Parameters
    ----------
    weights : array of shape (blocks,)
        Where to start.
    mixture : DualMixture
        Its value is a lower bound of the optimum, kept up to date by the caller.

    References
    ----------
    Lemarechal, Nemirovskii and Nesterov (1995); Xu et al. (2009) for MKL.
    """

    remembered = (
        *("weights", "_best", "_best_value", "_best_slopes", "_slopes", "_heights"),
        *("_last", "_curvature", "_old_value", "_gap", "_newton"),
    )

    def __init__(self, weights: Array, mixture: DualMixture) -> None:
        self.weights = weights
        self.mixture = mixture
        self._best = weights
        self._best_slopes: Array = np.zeros(len(weights))
        self._slopes: list[Array] = []
        self._heights: list[float] = []
        self._curvature: Array = np.empty((0, 0))
        self._best_value = np.inf
        self.restart()

    def restart(self) -> None:
        """The problem has more rows: forget the best value."""
        self._old_value = self._best_value  # of the problem that the curvature is of
        self._best_value = self._gap = np.inf
        self._last: Array = np.empty(0)  # the weights before these
        self._newton = len(self.weights) <= MAX_EXACT_BLOCKS  # the present kind of step

    def step(self, theta_norms: Array, lower: float, upper: float) -> Array:
        """Next weights, from ||theta_f|| and bounds on the value at the current ones.

        Parameters
        ----------
        theta_norms : array of shape (blocks,)
        lower, upper : float
            Dual and primal value of the problem with the current weights frozen.
        """
        slopes = -0.5 * theta_norms**2
        if len(slopes) <= MAX_EXACT_BLOCKS:
            self._learn_curvature(slopes, upper)
        self._slopes = [*self._slopes, slopes]
        self._heights = [*self._heights, lower - float(slopes @ self.weights)]
        if upper < self._best_value:
            self._best_value, self._best = upper, self.weights
            self._best_slopes = slopes
        self._last = self.weights
        gap = self._best_value - self.mixture.value
        if gap >= GAP_SHRINKAGE * self._gap and len(self._curvature):
            self._newton = not self._newton
        self._gap = min(gap, self._gap)
        found = None
        if self._newton:
            found = lowest_on_simplex(self._best, self._best_slopes, self._curvature)
        if found is None or np.allclose(found, self.weights):
            found = self._nearest()
        self.weights = self.weights if found is None else found
        return self.weights

    def _learn_curvature(self, slopes: Array, upper: float) -> None:
        """Curvature that agrees with the last change of the slopes."""
        if not len(self._curvature):
            self._curvature = np.diag(-FIRST_CURVATURE * slopes / (self.weights + 0.01))
        elif not len(self._last):
            if 0.0 < self._old_value < np.inf:
                self._curvature = self._curvature * (upper / self._old_value)
        else:
            step, change = self.weights - self._last, slopes - self._slopes[-1]
            self._curvature = with_secant(
                self._curvature[None], step[None], change[None]
            )[0]

    def _nearest(self) -> Array | None:
        """Weights at which no plane forbids an ambitious value."""
        slopes, heights = np.array(self._slopes), np.array(self._heights)
        for share in LEVELS:
            level = (1.0 - share) * self.mixture.value + share * self._best_value
            nearest = project_on_level(self._best, slopes, heights - level)
            if nearest is not None:
                return nearest
        return None


def lowest_on_simplex(point: Array, slopes: Array, curvature: Array) -> Array | None:
    """argmin over the simplex of slopes @ x + 1/2 x @ curvature @ x, x = d - point.

    None where rounding leaves the curvature without a root.

    Examples
    --------
    >>> even = np.array([0.5, 0.5])
    >>> lowest_on_simplex(even, np.array([-1.0, 0.0]), 4.0 * np.eye(2)).round(6)
    array([0.625, 0.375])
    """
    n = len(point)
    mean = float(np.trace(curvature)) / n
    if not 0.0 < mean < np.inf:
        return None
    matrix = curvature / mean + 1e-9 * np.eye(n)  # regular, though kernels be alike
    try:
        root = np.linalg.cholesky(matrix)
        wanted = np.linalg.solve(root, matrix @ point - slopes / mean)
        # Lawson and Hanson: |root' d - wanted|^2, and the sum as one more row.
        system = np.vstack([root.T, np.full((1, n), SUM_PENALTY)])
        lowest, _ = nnls(system, np.append(wanted, SUM_PENALTY))
    except (RuntimeError, LinAlgError):  # too many steps, or no root
        return None
    lowest = np.where(lowest < EXACT_ZERO_TOL, 0.0, lowest)
    total = float(lowest.sum())
    return lowest / total if total > 0.0 else None


def without_small_weights(weights: Array) -> Array:
    """Weights with zeros in place of the smallest ones.

    Examples
    --------
    >>> without_small_weights(np.array([0.9, 0.1, 0.004, 0.0]))
    array([0.9, 0.1, 0. , 0. ])
    """
    return np.where(weights < NEGLIGIBLE_WEIGHT * weights.max(), 0.0, weights)


def project_on_level(point: Array, slopes: Array, heights: Array) -> Array | None:
    """argmin ||d - point||^2 over the simplex with slopes @ d + heights <= 0.

    None where nothing is feasible, or rounding leaves nothing feasible.

    Examples
    --------
    >>> corner = np.array([1.0, 0.0])
    >>> project_on_level(corner, np.array([[2.0, 0.0]]), np.array([-1.0])).round(6)
    array([0.5, 0.5])
    """
    ones = np.ones((1, len(point)))
    matrix = np.vstack([slopes, ones, -ones])
    nearest = nearest_point(point, matrix, np.append(heights, [-1.0, 1.0]))
    return None if nearest is None else nearest / nearest.sum()


def nearest_point(point: Array, matrix: Array, offsets: Array) -> Array | None:
    """argmin ||d - point||^2 with d >= 0 and matrix @ d + offsets <= 0.

    None where nothing is feasible, or rounding leaves nothing feasible.

    Examples
    --------
    >>> nearest_point(np.array([2.0, -1.0]), np.array([[1.0, 1.0]]), np.array([-1.0]))
    array([1., 0.])
    """
    lengths = np.linalg.norm(matrix, axis=1)
    lengths[lengths == 0.0] = 1.0  # no kernel sees the dual point of that plane
    few = len(point) <= MAX_EXACT_BLOCKS
    find = _nearest_exactly if few else _nearest_by_dual
    return find(point, matrix / lengths[:, None], offsets / lengths)


def _nearest_exactly(point: Array, matrix: Array, offsets: Array) -> Array | None:
    """By the shortest move, for rows of unit length.

    A move y with G y >= h solves a non-negative least-squares problem
    (Lawson and Hanson, least distance programming).
    """
    sides = np.vstack([-matrix, np.eye(len(point))])
    bounds = np.concatenate([matrix @ point + offsets, -point])
    system = np.vstack([sides.T, bounds])
    wanted = np.append(np.zeros(len(point)), 1.0)
    try:
        multipliers, distance = nnls(system, wanted)
    except (RuntimeError, LinAlgError):  # too many steps, or planes that coincide
        return _nearest_by_dual(point, matrix, offsets)
    if distance <= EXACT_ZERO_TOL:
        return None
    rest = system @ multipliers - wanted
    moved = point - rest[:-1] / rest[-1]
    return np.where(moved < EXACT_ZERO_TOL, 0.0, moved)


def _nearest_by_dual(point: Array, matrix: Array, offsets: Array) -> Array | None:
    """The same to six digits, in a time that grows with the blocks only linearly.

    One multiplier a row of the matrix; given them, d is a difference cut off at zero.
    """

    def negative_dual(multipliers: Array) -> tuple[float, Array]:
        nearest = np.maximum(point - multipliers @ matrix, 0.0)
        excess = matrix @ nearest + offsets
        distance = 0.5 * float(np.sum((nearest - point) ** 2))
        return -distance - float(multipliers @ excess), -excess

    found = minimize(
        negative_dual,
        np.zeros(len(offsets)),
        jac=True,
        bounds=[(0.0, None)] * len(offsets),
        method="L-BFGS-B",
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 200},
    )
    nearest = np.maximum(point - found.x @ matrix, 0.0)
    excess = np.max(matrix @ nearest + offsets)
    return nearest if excess <= 1e-6 else None  # rows have unit length: rounding
