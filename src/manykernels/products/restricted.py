"""p = 1 on a few products: all their weights re-optimized together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.linalg.lapack import dposv

from manykernels.base.arrays import Array, Index
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import Product
from manykernels.products.machine import InnerSolver, combined
from manykernels.products.problem import ProductProblem

SLACK = 1e-10  # relative; below it a condition counts as met
CROWD = 10  # terms that may enter at once


def backtrack(
    value_of: Callable[[Array], float],
    here: Array,
    aim: Array,
    value: float,
    least: float = 1e-4,
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
    crowd = 1 if max_terms is not None else CROWD
    for _ in range(20 * len(w) + 20):
        used = np.flatnonzero(w)
        gradient = C * (G[:, used] @ w[used] - h)
        norm = float(rho @ np.abs(w))
        excess = np.abs(gradient) / rho - norm
        excess[used] = -np.inf
        most = float(excess.max(initial=-np.inf))
        scale = norm + C * float(np.abs(h / rho).max(initial=0.0))
        if len(used) >= limit or not len(w) or most <= SLACK * scale:
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
            if reduced[j] >= -SLACK * (1.0 + abs(level)):
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


NEWTON_STEPS = 60
LEAST_CURVATURE = 1e-3  # of the largest: a loss that is flat somewhere has none there


@dataclass(frozen=True)
class Restricted:
    """The optimum over the products of a working set."""

    coef: Array  # dual coefficients, shape (rows,)
    theta: Array  # weights of the working set, which sum to one
    norm: float  # sum_i rho_i ||w_i||
    scores: Array  # with the intercept
    intercept: float


SAME = 1e-10  # one less the correlation of features that are one


def first_of_their_kind(gram: Array, known: int) -> Index:
    """Positions of features that equal no earlier one up to sign, from inner products.

    The first `known` are kept in any case; features of zeros are not.

    Examples
    --------
    >>> Z = np.array([[1.0, -1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    >>> first_of_their_kind(Z.T @ Z, 1)
    array([0, 3])
    """
    squares = np.diag(gram)
    kept = list(range(known))
    for j in range(known, len(gram)):
        longer = np.maximum(squares[kept], squares[j])
        alike = np.abs(gram[kept, j]) >= (1.0 - SAME) * longer
        if squares[j] > 0.0 and not np.any(alike):
            kept.append(j)
    return np.array(kept, dtype=np.intp)


class WorkingSet(Protocol):
    """Products that may have a weight, and the optimum over them."""

    products: list[Product]

    def add(self, products: Sequence[Product]) -> int:
        """More products; how many of them were new."""

    def solve(self, C: float) -> Restricted:
        """The optimum for C, from the last one."""


def working_set(problem: ProductProblem) -> WorkingSet:
    """The working set for rank-one kernels, or for any."""
    if isinstance(problem.base, RankOneKernels):
        return FeatureWorkingSet(problem)
    return MatrixWorkingSet(problem)


class FeatureWorkingSet:
    """Rank-one products: one feature and one coefficient each."""

    def __init__(self, problem: ProductProblem) -> None:
        assert isinstance(problem.base, RankOneKernels)
        self.problem, self.base = problem, problem.base
        self.products: list[Product] = []
        self.rho: Array = np.zeros(0)
        self.features: Array = np.zeros(
            (problem.n_rows, 0)
        )  # centered with an intercept
        self.means: Array = np.zeros(0)
        self.w: Array = np.zeros(0)
        self._gram: Array = np.zeros((0, 0))

    def add(self, products: Sequence[Product]) -> int:
        """Compute their features, and the inner products with the others.

        Of several products with the same feature one is taken, that of least degree.
        """
        products = sorted(products, key=len)  # stable: the best first, by degree
        new = self.base.features(products)
        loss, means = self.problem.loss, np.zeros(new.shape[1])
        if self.problem.intercept:
            means = loss.mean(new)
        new -= means
        m = len(self.products)
        features = np.column_stack([self.features, new])
        gram = np.empty((features.shape[1], features.shape[1]))
        gram[:m, :m] = self._gram
        gram[:, m:] = features.T @ loss.weigh(new)
        gram[m:, :m] = gram[:m, m:].T
        kept = first_of_their_kind(gram, m)
        fresh = kept[m:] - m
        self.features, self._gram = features[:, kept], gram[np.ix_(kept, kept)]
        self.products += [products[i] for i in fresh]
        rho = [self.problem.rho[len(products[i])] for i in fresh]
        self.means = np.append(self.means, means[fresh])
        self.rho = np.append(self.rho, rho)
        self.w = np.append(self.w, np.zeros(len(fresh)))
        return len(fresh)

    def solve(self, C: float) -> Restricted:
        """Squared errors at once, other losses by Newton steps."""
        if self.problem.loss.is_squared:
            pull = self.features.T @ self.problem.loss.weigh(self._centered())
            self.w = squared_l1(self._gram, pull, self.rho, C, self.w)
        else:
            self._newton(C)
        return self._result(C)

    def _centered(self) -> Array:
        return self.problem.target - self._shift()

    def _shift(self) -> float:
        problem = self.problem
        return float(problem.loss.mean(problem.target)) if problem.intercept else 0.0

    def _newton(self, C: float) -> None:
        """Quadratic models of the loss, each minimized exactly, with a line search."""
        value_of = partial(self._value, C)
        value = value_of(self.w)
        for _ in range(NEWTON_STEPS):
            aim = self._model_minimum(C)
            moved, found = backtrack(value_of, self.w, aim, value, least=1e-6)
            if not found < value:
                return
            self.w = moved
            if value - found <= 1e-11 * abs(value):
                return
            value = found

    def _model_minimum(self, C: float) -> Array:
        loss, target = self.problem.loss, self.problem.target
        scores = self.features @ self.w
        curvature = loss.curvature(scores, target)
        least = LEAST_CURVATURE * max(float(curvature.max()), 1e-3)
        curvature = np.maximum(curvature, least)
        pull = curvature * scores - loss.gradient(scores, target)
        G = self.features.T @ (self.features * curvature[:, None])
        return squared_l1(G, self.features.T @ pull, self.rho, C, self.w)

    def _value(self, C: float, w: Array) -> float:
        norm = float(self.rho @ np.abs(w))
        losses = self.problem.loss.value(self.features @ w, self.problem.target)
        return 0.5 * norm * norm + C * float(losses.sum())

    def _result(self, C: float) -> Restricted:
        problem = self.problem
        used = np.flatnonzero(self.w)
        smooth = self.features[:, used] @ self.w[used]
        shift = self._shift()
        scores = smooth + shift
        coef = -C * problem.loss.gradient(scores, problem.target)
        if problem.intercept:
            coef -= coef.mean()
        sizes = self.rho * np.abs(self.w)
        norm = float(sizes.sum())
        theta = sizes / norm if norm > 0.0 else sizes
        intercept = shift - float(self.means @ self.w)
        return Restricted(coef, theta, norm, scores, intercept)


class MatrixWorkingSet:
    """Any products: Newton steps on the kernel weights, which sum to one."""

    def __init__(self, problem: ProductProblem) -> None:
        self.problem = problem
        self.products: list[Product] = []
        self.theta: Array = np.zeros(0)

    def add(self, products: Sequence[Product]) -> int:
        """Give them no weight yet, or equal ones if they are the first."""
        first = not self.products
        self.products += products
        weight = 1.0 / len(products) if first and products else 0.0
        self.theta = np.append(self.theta, np.full(len(products), weight))
        return len(products)

    def solve(self, C: float) -> Restricted:
        """min over the simplex of J(theta): quadratic models with a line search."""
        problem = self.problem
        inner = InnerSolver.of(replace(problem, C=C))
        if not self.products:
            zero = inner.solve(np.zeros((problem.n_rows, problem.n_rows)))
            return Restricted(zero.coef, self.theta, 0.0, zero.scores, zero.intercept)
        here = inner.solve(self._matrix(self.theta))
        for _ in range(NEWTON_STEPS):
            gradient, hessian = self._derivatives(C, here.coef, here.scores)
            linear = gradient - hessian @ self.theta
            aim = simplex_quadratic(hessian, linear, self.theta)
            slope = float(gradient @ (aim - self.theta))
            if slope >= -1e-13 * abs(here.value):
                break
            step = 1.0
            while step > 1e-4:
                theta = self.theta + step * (aim - self.theta)
                there = inner.solve(self._matrix(theta))
                if there.value <= here.value + 0.1 * step * slope:
                    break
                step *= 0.5
            else:
                break
            self.theta, here = theta, there
        return self._result(here.coef, here.scores, here.intercept)

    def _matrix(self, theta: Array) -> Array:
        return combined(self.problem.base, self.problem.rho, self.products, theta)

    def _images(self, coef: Array) -> Array:
        """K_i a / rho_i^2, one column per product."""
        base, rho = self.problem.base, self.problem.rho
        return np.column_stack(
            [base.matrix(i) @ coef / rho[len(i)] ** 2 for i in self.products]
        )

    def _derivatives(self, C: float, coef: Array, scores: Array) -> tuple[Array, Array]:
        """-a'K_i a / 2 and a'K_i M K_j a, M the inverse of K plus inverse curvature."""
        problem = self.problem
        images = self._images(coef)
        root = np.sqrt(C * problem.loss.curvature(scores, problem.target))
        B = root[:, None] * self._matrix(self.theta) * root
        B.flat[:: len(B) + 1] += 1.0
        sides = np.column_stack([images, np.ones(len(root))]) * root[:, None]
        solved = np.linalg.solve(B, sides) * root[:, None]
        hessian = images.T @ solved[:, :-1]
        if problem.intercept:
            ones = solved[:, -1]
            hessian -= np.outer(images.T @ ones, ones @ images) / ones.sum()
        return -0.5 * (coef @ images), 0.5 * (hessian + hessian.T)

    def _result(self, coef: Array, scores: Array, intercept: float) -> Restricted:
        """||w_i|| = theta_i sqrt(a' K_i a) / rho_i, and rho_i ||w_i|| are summed."""
        energies = np.maximum(coef @ self._images(coef), 0.0)
        norm = float(self.theta @ np.sqrt(energies))
        return Restricted(coef, self.theta.copy(), norm, scores, intercept)
