"""Kernel weights between two rounds of dual ascent at p = 1: level sets of planes."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, nnls

from manykernels.base.arrays import Array
from manykernels.solvers.mixture import DualMixture
from manykernels.solvers.state import Remembers

# How far from the lower bound to the best value the next weights aim; near 1, steps
# are short. The first is the most ambitious that works well; where planes whose dual
# points are forgotten rule it out, the next is tried.
LEVELS = (0.4, 0.7, 0.9)
ROUNDING = 1e-12  # a weight below this has vanished
MANY_BLOCKS = 100  # the exact projection takes cubic time
FEASIBLE = 1e-6  # excess over a constraint of unit length that counts as rounding


class LevelSearch(Remembers):
    r"""Minimize J(d), the optimum under frozen weights d, over the simplex.

    Every round gives a plane below J, :math:`\ell - \frac12 \sum_f d_f
    \|\theta_f\|^2`. The next weights are the nearest to the last ones at which no
    plane forbids a value between the lower bound and the best value. Planes of a
    working set stay valid for all the rows, whose J is larger.

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

    remembered = ("weights", "_best_value", "_slopes", "_heights")

    def __init__(self, weights: Array, mixture: DualMixture) -> None:
        self.weights = weights
        self.mixture = mixture
        self._best_value = np.inf
        self._slopes: list[Array] = []
        self._heights: list[float] = []

    def restart(self) -> None:
        """The problem has more rows: forget the best value."""
        self._best_value = np.inf

    def step(self, theta_norms: Array, lower: float, upper: float) -> Array:
        """Next weights, from ||theta_f|| and bounds on the value at the current ones.

        Parameters
        ----------
        theta_norms : array of shape (blocks,)
        lower, upper : float
            Dual and primal value of the problem with the current weights frozen.
        """
        slope = -0.5 * theta_norms**2
        self._slopes = [*self._slopes, slope]
        self._heights = [*self._heights, lower - float(slope @ self.weights)]
        self._best_value = min(self._best_value, upper)
        slopes, heights = np.array(self._slopes), np.array(self._heights)
        for share in LEVELS:
            level = (1.0 - share) * self.mixture.value + share * self._best_value
            nearest = project_on_level(self.weights, slopes, heights - level)
            if nearest is not None:
                self.weights = nearest
                break
        return self.weights


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
    offsets = np.append(heights, [-1.0, 1.0])
    lengths = np.linalg.norm(matrix, axis=1)
    lengths[lengths == 0.0] = 1.0  # no kernel sees the dual point of that plane
    nearest_point = _nearest_exactly if len(point) <= MANY_BLOCKS else _nearest_by_dual
    nearest = nearest_point(point, matrix / lengths[:, None], offsets / lengths)
    return None if nearest is None else nearest / nearest.sum()


def _nearest_exactly(point: Array, matrix: Array, offsets: Array) -> Array | None:
    """argmin ||d - point||^2 with d >= 0 and matrix @ d + offsets <= 0.

    The shortest move y with G y >= h solves a non-negative least-squares problem
    (Lawson and Hanson, least distance programming).
    """
    sides = np.vstack([-matrix, np.eye(len(point))])
    bounds = np.concatenate([matrix @ point + offsets, -point])
    system = np.vstack([sides.T, bounds])
    wanted = np.append(np.zeros(len(point)), 1.0)
    try:
        multipliers, distance = nnls(system, wanted)
    except RuntimeError:
        return None
    if distance <= ROUNDING:
        return None
    rest = system @ multipliers - wanted
    moved = point - rest[:-1] / rest[-1]
    return np.where(moved < ROUNDING, 0.0, moved)


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
    return nearest if np.max(matrix @ nearest + offsets) <= FEASIBLE else None
