"""p = 1 on a few products: all their weights re-optimized together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import Product
from manykernels.products.inner_problem import InnerSolver, combined
from manykernels.products.product_problem import ProductProblem
from manykernels.products.sparse.quadratic_programs import (
    MAX_QUADRATIC_STEPS,
    newton_descent,
    simplex_quadratic,
    squared_l1,
)

# Share of the largest curvature that stands for zero: a loss that is flat at some rows
# has no curvature there, and its quadratic model would have no minimum.
MIN_CURVATURE_SHARE = 1e-3
# 1 - |correlation| below which two features count as one.
DUPLICATE_FEATURE_TOL = 1e-10


@dataclass(frozen=True)
class Restricted:
    """The optimum over the products of a working set."""

    coef: Array  # dual coefficients, shape (rows,)
    theta: Array  # weights of the working set, which sum to one
    norm: float  # sum_i rho_i ||w_i||
    scores: Array  # with the intercept
    intercept: float


def distinct_features(gram: Array, known: int) -> Index:
    """Positions of features that equal no earlier one up to sign, from inner products.

    The first `known` are kept in any case; features of zeros are not.

    Examples
    --------
    >>> Z = np.array([[1.0, -1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    >>> distinct_features(Z.T @ Z, 1)
    array([0, 3])
    """
    squares = np.diag(gram)
    kept = list(range(known))
    for j in range(known, len(gram)):
        larger = np.maximum(squares[kept], squares[j])
        alike = np.abs(gram[kept, j]) >= (1.0 - DUPLICATE_FEATURE_TOL) * larger
        if squares[j] > 0.0 and not np.any(alike):
            kept.append(j)
    return np.array(kept, dtype=np.intp)


def working_set(problem: ProductProblem) -> ProductWorkingSet:
    """Return an empty working set that fits the kind of the base kernels."""
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
        # Centered where there is an intercept.
        self.features: Array = np.zeros((problem.n_rows, 0))
        self.means: Array = np.zeros(0)
        self.w: Array = np.zeros(0)
        self._gram: Array = np.zeros((0, 0))

    def add(self, products: Sequence[Product]) -> int:
        """Add products with their features, and return how many of them were new.

        Of several products with the same feature only that of least degree is added.
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
        kept = distinct_features(gram, m)
        fresh = kept[m:] - m
        self.features, self._gram = features[:, kept], gram[np.ix_(kept, kept)]
        self.products += [products[i] for i in fresh]
        rho = [self.problem.rho[len(products[i])] for i in fresh]
        self.means = np.append(self.means, means[fresh])
        self.rho = np.append(self.rho, rho)
        self.w = np.append(self.w, np.zeros(len(fresh)))
        return len(fresh)

    def solve(self, C: float) -> Restricted:
        """Return the optimum over the products for this C, from the last one."""
        if self.problem.loss.is_squared:
            pull = self.features.T @ self.problem.loss.weigh(self._centered())
            self.w = squared_l1(self._gram, pull, self.rho, C, self.w)
        else:
            value_of, aim_of = partial(self._value, C), partial(self._model_minimum, C)
            self.w = newton_descent(value_of, aim_of, self.w)
        return self._result(C)

    def _centered(self) -> Array:
        return self.problem.target - self._shift()

    def _shift(self) -> float:
        problem = self.problem
        return float(problem.loss.mean(problem.target)) if problem.intercept else 0.0

    def _model_minimum(self, C: float, w: Array) -> Array:
        """Minimize the penalty and a quadratic model of the losses at w."""
        loss, target = self.problem.loss, self.problem.target
        scores = self.features @ w
        curvature = loss.curvature(scores, target)
        least = MIN_CURVATURE_SHARE * max(float(curvature.max()), 1e-3)
        curvature = np.maximum(curvature, least)
        pull = curvature * scores - loss.gradient(scores, target)
        G = self.features.T @ (self.features * curvature[:, None])
        return squared_l1(G, self.features.T @ pull, self.rho, C, w)

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
        # The first products start with equal weights, later ones with none.
        first = not self.products
        self.products += products
        weight = 1.0 / len(products) if first and products else 0.0
        self.theta = np.append(self.theta, np.full(len(products), weight))
        return len(products)

    def solve(self, C: float) -> Restricted:
        # min over the simplex of J(theta): quadratic models with a line search.
        problem = self.problem
        inner = InnerSolver.of(replace(problem, C=C))
        if not self.products:
            zero = inner.solve(np.zeros((problem.n_rows, problem.n_rows)))
            return Restricted(zero.coef, self.theta, 0.0, zero.scores, zero.intercept)
        here = inner.solve(self._matrix(self.theta))
        for _ in range(MAX_QUADRATIC_STEPS):
            gradient, hessian = self._derivatives(C, here.coef, here.scores)
            linear = gradient - hessian @ self.theta
            aim = simplex_quadratic(hessian, linear, self.theta)
            slope = float(gradient @ (aim - self.theta))
            if slope >= -1e-13 * abs(here.value):
                break
            step = 1.0
            while step > 1e-4:
                theta = self.theta + step * (aim - self.theta)
                moved = inner.solve(self._matrix(theta))
                if moved.value <= here.value + 0.1 * step * slope:
                    break
                step *= 0.5
            else:
                break
            self.theta, here = theta, moved
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


ProductWorkingSet = FeatureWorkingSet | MatrixWorkingSet
