"""Weights at p = 1, where they have no fixed point: planes below J, and its curvature.

J(d), the optimum under frozen weights d, is convex on the simplex. Every round gives
its value and its slopes -1/2 ||theta_f||^2 at one point.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import nnls

from manykernels.base.arrays import Array
from manykernels.solvers.loop import Resumable
from manykernels.solvers.nearest import MANY_BLOCKS, ROUNDING, project_on_level
from manykernels.solvers.weight_newton import with_secant
from manykernels.solvers.weights import DualMixture

PRUNED = (1e-3, 1e-2)  # shares of the largest weight, below which models do without

CLOSED = 0.9  # of the last gap: one below it is progress
PATIENCE = 2  # rounds without progress until another sort of step is taken
# The first guess at the curvature is a multiple of -slopes / weights, with which
# weights would move as to their fixed point if it were 2; it is too large at zero.
GUESS = 0.6
LEAST_WEIGHT = 0.01  # more than the weights
LEAST_BEND = 1e-3  # of the guess
STIFF = 1e3  # how strongly weights are held to a sum of one, before they are divided
REGULAR = 1e-9  # of the mean curvature: makes it regular

# How far from the lower bound to the best value the next weights aim; near 1, steps
# are short. The first is the most ambitious that works well; where planes whose dual
# points are forgotten rule it out, the next is tried.
LEVELS = (0.4, 0.7, 0.9)


class LevelSearch(Resumable):
    r"""Minimize J(d), the optimum under frozen weights d, over the simplex.

    Slopes of J at the points seen so far give secants of its curvature (BFGS), and the
    next weights minimize that quadratic model. It outlasts a change of the rows,
    which changes the curvature by little more than a factor.

    Where the gap stays as it is, planes help: every round gives one below J,
    :math:`\ell - \frac12 \sum_f d_f \|\theta_f\|^2`. The next weights are then the
    nearest to the best ones so far at which no plane forbids a value between the lower
    bound and the best value. Planes of a working set stay valid for all the rows, whose
    J is larger.

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
        "weights",
        "_best",
        "_best_value",
        "_best_slopes",
        "_slopes",
        "_heights",
        "_last",
        "_curvature",
        "_old_value",
        "_gap",
        "_patience",
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
        self._patience = PATIENCE
        self._last: Array = np.empty(0)  # the weights before these

    def step(self, theta_norms: Array, lower: float, upper: float) -> Array:
        """Next weights, from ||theta_f|| and bounds on the value at the current ones.

        Parameters
        ----------
        theta_norms : array of shape (blocks,)
        lower, upper : float
            Dual and primal value of the problem with the current weights frozen.
        """
        slopes = -0.5 * theta_norms**2
        if len(slopes) <= MANY_BLOCKS:
            self._bend(slopes, upper)
        self._slopes = [*self._slopes, slopes]
        self._heights = [*self._heights, lower - float(slopes @ self.weights)]
        if upper < self._best_value:
            self._best_value, self._best = upper, self.weights
            self._best_slopes = slopes
        self._last = self.weights
        found = self._lowest() if self._closing() else None
        if found is None or np.allclose(found, self.weights):
            found = self._nearest()
        self.weights = self.weights if found is None else found
        return self.weights

    def _bend(self, slopes: Array, upper: float) -> None:
        """Curvature that agrees with the last change of the slopes."""
        if not len(self._curvature):
            self._curvature = np.diag(-GUESS * slopes / (self.weights + LEAST_WEIGHT))
        elif not len(self._last):
            if 0.0 < self._old_value < np.inf:
                self._curvature = self._curvature * (upper / self._old_value)
        else:
            step, change = self.weights - self._last, slopes - self._slopes[-1]
            known = self._curvature
            if len(self._slopes) == 1:  # a guess so far, and rather too large
                known = known * _as_bent(known, step, change)
            self._curvature = with_secant(known[None], step[None], change[None])[0]

    def _closing(self) -> bool:
        """Whether the gap has fallen in the last few rounds."""
        gap = self._best_value - self.mixture.value
        progress = gap < CLOSED * self._gap
        self._gap = min(gap, self._gap)
        # Another sort of step starts anew.
        waited = progress or self._patience == 0
        self._patience = PATIENCE if waited else self._patience - 1
        return self._patience > 0

    def _lowest(self) -> Array | None:
        """Weights that minimize the quadratic model around the best ones."""
        if not len(self._curvature):
            return None
        return lowest_on_simplex(self._best, self._best_slopes, self._curvature)

    def _nearest(self) -> Array | None:
        """Weights at which no plane forbids an ambitious value."""
        slopes, heights = np.array(self._slopes), np.array(self._heights)
        for share in LEVELS:
            level = (1.0 - share) * self.mixture.value + share * self._best_value
            nearest = project_on_level(self._best, slopes, heights - level)
            if nearest is not None:
                return nearest
        return None


def _as_bent(curvature: Array, step: Array, change: Array) -> float:
    """The factor, at most one, with which the curvature explains a change of slopes."""
    expected = float(step @ curvature @ step)
    if expected <= 0.0:
        return 1.0
    return float(np.clip(step @ change / expected, LEAST_BEND, 1.0))


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
    bend = curvature / mean + REGULAR * np.eye(n)
    try:
        root = np.linalg.cholesky(bend)
        wanted = np.linalg.solve(root, bend @ point - slopes / mean)
        # Lawson and Hanson: |root' d - wanted|^2, and the sum as one more row.
        system = np.vstack([root.T, np.full((1, n), STIFF)])
        lowest, _ = nnls(system, np.append(wanted, STIFF))
    except (RuntimeError, LinAlgError):  # too many steps, or no root
        return None
    lowest = np.where(lowest < ROUNDING, 0.0, lowest)
    total = float(lowest.sum())
    return lowest / total if total > 0.0 else None


def without_smallest(weights: Array) -> list[Array]:
    """Weights with more and more zeros in place of the smallest ones.

    Examples
    --------
    >>> without_smallest(np.array([0.9, 0.1, 0.004, 0.0]))
    [array([0.9, 0.1, 0. , 0. ])]
    """
    found = [weights]
    for share in PRUNED:
        fewer = np.where(weights < share * weights.max(), 0.0, weights)
        if np.count_nonzero(fewer) < np.count_nonzero(found[-1]):
            found.append(fewer)
    return found[1:]
