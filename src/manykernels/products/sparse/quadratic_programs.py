"""Small convex programs that products need: Newton steps, a penalty, a simplex."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.linalg.lapack import dposv

from manykernels.base.arrays import Array

# A violation of an optimality condition below this share of its scale is rounding.
OPTIMALITY_RTOL = 1e-10
# Terms that may enter together. More of them leave again later than the fewer linear
# systems are worth.
MAX_ENTERING_TERMS = 10
# Newton steps converge quadratically: the limit only ends a run that rounding keeps
# from meeting its tolerance.
MAX_QUADRATIC_STEPS = 60


def backtrack(
    value_of: Callable[[Array], float],
    here: Array,
    aim: Array,
    value: float,
    least: float = 1e-6,
) -> tuple[Array, float]:
    """The first point not worse than `value` among here + (aim - here) / 2^k.

    Returns it with its value, which is above `value` where no step longer than `least`
    would do.

    Examples
    --------
    >>> backtrack(lambda x: float(x @ x), np.array([1.0]), np.array([-2.0]), 1.0)
    (array([-0.5]), 0.25)
    """
    point, found, step = aim, value_of(aim), 1.0
    while found > value and step > 2.0 * least:
        step *= 0.5
        point = here + step * (aim - here)
        found = value_of(point)
    return point, found


def newton_descent(
    value_of: Callable[[Array], float],
    model_minimum: Callable[[Array], Array],
    start: Array,
) -> Array:
    """Minimize a function by the minima of its quadratic models, with a line search.

    Examples
    --------
    >>> def newton_point(x):
    ...     return x - (np.exp(x) - 2.0) / np.exp(x)
    >>> newton_descent(lambda x: np.exp(x[0]) - 2.0 * x[0], newton_point, np.zeros(1))
    array([0.693147...])
    """
    point, value = start, value_of(start)
    for _ in range(MAX_QUADRATIC_STEPS):
        moved, lower = backtrack(value_of, point, model_minimum(point), value)
        if not lower < value:
            break
        point = moved
        if value - lower <= 1e-11 * abs(value):  # rounding of the value
            break
        value = lower
    return point


def squared_l1(
    G: Array, h: Array, rho: Array, C: float, start: Array, max_terms: int | None = None
) -> Array:
    """argmin over w of 1/2 (sum_i rho_i |w_i|)^2 + C (1/2 w' G w - h' w).

    The most violated terms enter; with the signs fixed the rest is a linear system, and
    a term that would change its sign on the way leaves. A crowd that changes nothing
    is followed by the most violated term alone, which does.

    Parameters
    ----------
    G, h : arrays of shape (m, m) and (m,)
        Positive semi-definite matrix and linear part.
    rho : array of shape (m,)
    C : float
    start : array of shape (m,)
        For instance the solution for another C.
    max_terms : int, optional
        Stop when that many terms are in.

    Examples
    --------
    >>> squared_l1(np.eye(2), np.array([2.0, 1.0]), np.ones(2), 1.0, np.zeros(2))
    array([1., 0.])
    """
    w = start.copy()
    limit = len(w) if max_terms is None else max_terms
    w = _relax(G, h, rho, C, w, np.sign(w))
    crowd = 1 if max_terms is not None else MAX_ENTERING_TERMS
    for _ in range(20 * len(w) + 20):
        used = np.flatnonzero(w)
        gradient = C * (G[:, used] @ w[used] - h)
        norm = float(rho @ np.abs(w))
        excess = np.abs(gradient) / rho - norm
        excess[used] = -np.inf
        most = float(excess.max(initial=-np.inf))
        scale = norm + C * float(np.abs(h / rho).max(initial=0.0))
        if len(used) >= limit or not len(w) or most <= OPTIMALITY_RTOL * scale:
            break
        entering = np.argsort(-excess, kind="stable")[:crowd]
        entering = entering[excess[entering] >= 0.5 * most]
        signs = np.sign(w)
        signs[entering] = -np.sign(gradient[entering])
        relaxed = _relax(G, h, rho, C, w, signs)
        if np.array_equal(relaxed, w):
            if crowd == 1:
                break
            crowd = 1
        w = relaxed
    return w


def _relax(G: Array, h: Array, rho: Array, C: float, w: Array, signs: Array) -> Array:
    """The minimum with these signs, less those terms that meet zero on the way."""
    while True:
        used = np.flatnonzero(signs)
        if not len(used):
            return np.zeros_like(w)
        sigma = rho[used] * signs[used]
        matrix = C * G[np.ix_(used, used)]
        matrix += sigma[:, None] * sigma
        aim = _solve(matrix, C * h[used])
        here = w[used]
        crossing = aim * signs[used] <= 0.0
        if not np.any(crossing):
            w = np.zeros_like(w)
            w[used] = aim
            return w
        steps = np.full(len(used), np.inf)
        change = here - aim
        moving = crossing & (change != 0.0)
        steps[moving] = here[moving] / change[moving]
        steps[crossing & ~moving] = 0.0
        length = float(min(steps.min(), 1.0))
        moved = here + length * (aim - here)
        leaving = crossing & (steps <= length * (1.0 + 1e-12))
        moved[leaving] = 0.0
        w = np.zeros_like(w)
        w[used] = moved
        signs = signs.copy()
        signs[used[leaving]] = 0.0


def simplex_quadratic(H: Array, c: Array, start: Array) -> Array:
    """argmin over x >= 0, sum x = 1 of 1/2 x' H x + c' x.

    Examples
    --------
    >>> simplex_quadratic(np.eye(3), np.array([0.0, 0.5, 2.0]), np.ones(3) / 3)
    array([0.75, 0.25, 0.  ])
    """
    x = start.copy()
    free = x > 0.0
    for _ in range(20 * len(x) + 20):
        aim, level = _on_face(H, c, free)
        if np.all(aim[free] >= 0.0):
            x = aim
            reduced = H @ x + c + level
            reduced[free] = 0.0
            j = int(np.argmin(reduced))
            if reduced[j] >= -OPTIMALITY_RTOL * (1.0 + abs(level)):
                break
            free = free.copy()
            free[j] = True
            continue
        falling = free & (aim < 0.0)
        steps = np.full(len(x), np.inf)
        steps[falling] = x[falling] / np.maximum(x[falling] - aim[falling], 1e-300)
        length = float(steps.min())
        x = np.where(free, x + length * (aim - x), 0.0)
        free = free & ~(falling & (steps <= length * (1.0 + 1e-12)))
        x = np.where(free, np.maximum(x, 0.0), 0.0)
    x = np.maximum(x, 0.0)
    return np.asarray(x / x.sum())


def _on_face(H: Array, c: Array, free: NDArray[np.bool_]) -> tuple[Array, float]:
    """The minimum with sum one where only `free` entries may differ from zero."""
    used = np.flatnonzero(free)
    k = len(used)
    bordered = np.ones((k + 1, k + 1))
    bordered[:k, :k] = H[np.ix_(used, used)]
    bordered.flat[: k * (k + 1) : k + 2] += 1e-13 * (1.0 + float(np.trace(H)))
    bordered[k, k] = 0.0
    solved = _solve(bordered, np.append(-c[used], 1.0), positive=False)
    x = np.zeros(len(free))
    x[used] = solved[:k]
    return x, float(solved[k])


def _solve(matrix: Array, side: Array, positive: bool = True) -> Array:
    """matrix^-1 side; the least norm where it has no inverse."""
    try:
        if positive:
            matrix.flat[:: len(matrix) + 1] *= 1.0 + 1e-14
            _, solution, failed = dposv(matrix, side, lower=True)
            return np.asarray(lstsq(matrix, side)[0] if failed else solution)
        return np.asarray(np.linalg.solve(matrix, side))
    except np.linalg.LinAlgError:
        return np.asarray(lstsq(matrix, side)[0])
