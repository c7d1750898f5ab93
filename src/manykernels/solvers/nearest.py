"""The nearest point of a polyhedron, as kernel weights and mixtures ask for it."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize, nnls

from manykernels.base.arrays import Array

ROUNDING = 1e-12  # an entry below this has vanished
MANY_BLOCKS = 100  # the exact projection takes cubic time
FEASIBLE = 1e-6  # excess over a constraint of unit length that counts as rounding


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
    find = _exactly if len(point) <= MANY_BLOCKS else _by_dual
    return find(point, matrix / lengths[:, None], offsets / lengths)


def _exactly(point: Array, matrix: Array, offsets: Array) -> Array | None:
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
        return _by_dual(point, matrix, offsets)
    if distance <= ROUNDING:
        return None
    rest = system @ multipliers - wanted
    moved = point - rest[:-1] / rest[-1]
    return np.where(moved < ROUNDING, 0.0, moved)


def _by_dual(point: Array, matrix: Array, offsets: Array) -> Array | None:
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
