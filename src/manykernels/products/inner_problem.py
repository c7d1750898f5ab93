r"""J(theta) = min over w of J(w, theta): a kernel machine for given kernel weights.

With K = sum_i theta_i / rho_i^2 K_i over the products in use it is
:math:`\min_f \frac12 \|f\|^2 + C \sum_t loss(f(x_t) + b, y_t)`, and its dual
coefficients give the gradient :math:`-a^\top K_i a / (2 \rho_i^2)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.base.arrays import Array
from manykernels.losses.one_score import ScoreLoss
from manykernels.products.base import BaseKernels, RankOneKernels
from manykernels.products.indices import Product
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.quadratic_programs import newton_descent

# Conjugate gradient steps with a factor of an earlier matrix, at O(n^2) each, beyond
# which a new factorization is cheaper.
MAX_STALE_FACTOR_STEPS = 6


@dataclass(frozen=True)
class Inner:
    """The solution for one K: f = K coef + intercept."""

    coef: Array
    intercept: float
    scores: Array
    value: float  # 1/2 a' K a + C sum loss

    def expansion(
        self, theta: Array, products: tuple[Product, ...]
    ) -> ProductExpansion:
        """The same as a model of the products that K was made of."""
        coef = self.coef[:, None]
        return ProductExpansion(coef, theta, products, self.intercept)


@dataclass
class InnerSolver:
    """Solves the inner problem again and again for kernels that change little.

    Squared errors: a factor of an earlier K + I/C preconditions conjugate gradients,
    so that most solves cost O(n^2). Other losses: damped Newton steps, O(n^3) each,
    from the last solution.
    """

    target: Array
    C: float
    loss: ScoreLoss
    intercept: bool = False
    _factor: tuple[Array, bool] | None = field(default=None, repr=False)
    _last: Array | None = field(default=None, repr=False)

    @classmethod
    def of(cls, problem: ProductProblem) -> InnerSolver:
        """The inner problem of a problem over products."""
        return cls(problem.target, problem.C, problem.loss, problem.intercept)

    @property
    def shift(self) -> Array:
        """1 / (C weight) of every row: what squared errors add to the diagonal of K."""
        return self.loss.weigh(np.ones_like(self.target), -1.0) / self.C

    def solve(self, K: Array) -> Inner:
        """Coefficients, scores and value for the kernel matrix K."""
        if self.loss.is_squared:
            return self._ridge(K)
        return self._newton(K)

    def _ridge(self, K: Array) -> Inner:
        """(K + shift) a = y - b, with b such that the coefficients sum to zero."""
        sides = [self.target] + [np.ones_like(self.target)] * self.intercept
        solved = self._solve_shifted(K, np.column_stack(sides))
        coef, intercept = solved[:, 0], 0.0
        if self.intercept:
            intercept = float(coef.sum() / solved[:, 1].sum())
            coef = coef - intercept * solved[:, 1]
            coef -= coef.mean()  # rounding: the dual is finite at a sum of zero only
        return self._finish(K, coef, intercept)

    def _solve_shifted(self, K: Array, sides: Array) -> Array:
        """(K + shift)^-1 sides, from an earlier factor if a few corrections suffice."""
        if self._factor is not None and self._last is not None:
            start = self._last if self._last.shape == sides.shape else 0.0 * sides
            solved = _corrected(K, self.shift, sides, self._factor, start)
            if solved is not None:
                self._last = solved
                return solved
        shifted = K.copy()
        shifted.flat[:: len(K) + 1] += self.shift
        self._factor = cho_factor(shifted, lower=True, overwrite_a=True)
        self._last = np.asarray(cho_solve(self._factor, sides))
        return self._last

    def _newton(self, K: Array) -> Inner:
        """Newton's method on 1/2 a' K a + C sum loss(K a), safe where curvature is 0.

        With W the curvatures times C, a = b - W^1/2 B^-1 W^1/2 K b, B = I + W^1/2 K
        W^1/2 and b = W f - C loss'.
        """
        start = np.zeros_like(self.target) if self._last is None else self._last
        self._last = newton_descent(
            lambda coef: self._finish(K, coef, 0.0).value,
            lambda coef: self._newton_point(K, K @ coef),
            start,
        )
        # At the solution a = -C loss'(f), and so written it is always feasible.
        dual = -self.C * self.loss.gradient(K @ self._last, self.target)
        return self._finish(K, dual, 0.0)

    def _newton_point(self, K: Array, scores: Array) -> Array:
        root = np.sqrt(self.C * self.loss.curvature(scores, self.target))
        b = root * root * scores - self.C * self.loss.gradient(scores, self.target)
        B = root[:, None] * K * root
        B.flat[:: len(K) + 1] += 1.0
        factor = cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(b - root * cho_solve(factor, root * (K @ b)))

    def _finish(self, K: Array, coef: Array, intercept: float) -> Inner:
        smooth = K @ coef
        scores = smooth + intercept
        loss = float(self.loss.value(scores, self.target).sum())
        value = 0.5 * float(coef @ smooth) + self.C * loss
        return Inner(coef, intercept, scores, value)


def _corrected(
    K: Array, shift: Array, sides: Array, factor: tuple[Array, bool], start: Array
) -> Array | None:
    """Preconditioned conjugate gradients, all right-hand sides side by side.

    None where a few corrections do not reach a residual of 1e-10.
    """
    solved = start.copy()
    residual = sides - K @ solved - shift[:, None] * solved
    enough = 1e-10 * np.linalg.norm(sides, axis=0)
    direction = np.zeros_like(sides)
    before = np.ones(sides.shape[1])
    for step in range(MAX_STALE_FACTOR_STEPS):
        if np.all(np.linalg.norm(residual, axis=0) <= enough):
            return solved
        preconditioned = cho_solve(factor, residual, check_finite=False)
        energy = np.einsum("tk,tk->k", residual, preconditioned)
        direction = preconditioned + (energy / before) * direction * (step > 0)
        image = K @ direction + shift[:, None] * direction
        curvature = np.einsum("tk,tk->k", direction, image)
        length = np.where(
            curvature > 0.0, energy / np.where(curvature, curvature, 1), 0
        )
        solved += length * direction
        residual -= length * image
        before = np.where(energy > 0.0, energy, 1.0)
    return None


class ActiveProducts:
    """K_theta = sum_i theta_i / rho_i^2 K_i over the products drawn so far.

    A change of one weight costs O(n^2), and so does a common factor.

    Examples
    --------
    >>> active = ActiveProducts(RankOneKernels(np.eye(2)), np.ones(2))
    >>> active.set(np.array([0.5]), [(0,)])
    >>> active.matrix
    array([[0.5, 0. ],
           [0. , 0. ]])
    """

    def __init__(self, base: BaseKernels, rho: Array, with_matrix: bool = True) -> None:
        self.base, self.rho = base, rho
        self.products: list[Product] = []
        self.theta: Array = np.zeros(0)
        size = base.n_rows if with_matrix else 0
        self.matrix: Array = np.zeros((size, size))
        self._places: dict[Product, int] = {}

    def place(self, product: Product) -> int:
        """The position of a product, which is new with weight zero if unknown."""
        if product not in self._places:
            self._places[product] = len(self.products)
            self.products.append(product)
            self.theta = np.append(self.theta, 0.0)
        return self._places[product]

    def solve(self, inner: InnerSolver) -> Inner:
        """The inner problem for the current weights."""
        return inner.solve(self.matrix)

    def solve_at(self, theta: Array, inner: InnerSolver) -> Inner:
        """The inner problem for other weights of the same products."""
        return inner.solve(combined(self.base, self.rho, self.products, theta))

    def move(self, theta: Array, changed: int) -> None:
        """New weights, equal to the old ones times a factor except at `changed`."""
        others = np.delete(self.theta, changed)
        total = float(others.sum())
        factor = float(np.delete(theta, changed).sum()) / total if total > 0.0 else 1.0
        if factor != 1.0:
            self.matrix *= factor
        self._add(changed, float(theta[changed]) - factor * float(self.theta[changed]))
        self.theta = theta

    def set(self, theta: Array, products: list[Product]) -> None:
        """Any weights, from scratch."""
        self.products, self.theta = list(products), np.asarray(theta, dtype=float)
        self._places = {product: i for i, product in enumerate(products)}
        self.matrix = combined(self.base, self.rho, products, self.theta)

    def _add(self, i: int, change: float) -> None:
        if change != 0.0:
            product = self.products[i]
            scale = change / float(self.rho[len(product)]) ** 2
            self.matrix += scale * self.base.matrix(product)


class ActiveFeatures(ActiveProducts):
    """Rank-one products and squared errors: one linear system in the active terms.

    With Z the features, centered where there is an intercept, W the weights of the
    rows and d_i = theta_i / rho_i^2, (I/C + D^1/2 Z'W Z D^1/2) v = D^1/2 Z'W y gives
    the scores Z D^1/2 v in O(n m + m^3) for m active terms, without any matrix over
    the rows.
    """

    def __init__(self, base: RankOneKernels, rho: Array, inner: InnerSolver) -> None:
        super().__init__(base, rho, with_matrix=False)
        self._base, self._loss = base, inner.loss
        self._shift = float(inner.loss.mean(inner.target)) if inner.intercept else 0.0
        self._target = inner.target - self._shift
        self._center = inner.intercept
        self._features: Array = np.empty((base.n_rows, 0), order="F")
        self._gram: Array = np.empty((0, 0))
        self._means: Array = np.empty(0)

    def place(self, product: Product) -> int:
        """As above; a new product brings its feature."""
        i = super().place(product)
        if i >= self._features.shape[1]:
            self._grow()
        if i == len(self.products) - 1:
            self._fill(i)
        return i

    def _grow(self) -> None:
        """Double the room, so that growing costs nothing in the end."""
        size = max(64, 2 * self._features.shape[1])
        features = np.zeros((self.base.n_rows, size), order="F")
        gram, means = np.zeros((size, size)), np.zeros(size)
        old = self._features.shape[1]
        features[:, :old], means[:old] = self._features, self._means
        gram[:old, :old] = self._gram
        self._features, self._gram, self._means = features, gram, means

    def _fill(self, i: int) -> None:
        z = self._base.feature(self.products[i])
        self._means[i] = self._loss.mean(z) if self._center else 0.0
        z -= self._means[i]
        self._features[:, i] = z
        self._gram[i, : i + 1] = self._loss.weigh(z) @ self._features[:, : i + 1]
        self._gram[: i + 1, i] = self._gram[i, : i + 1]

    def move(self, theta: Array, changed: int) -> None:
        self.theta = theta

    def set(self, theta: Array, products: list[Product]) -> None:
        """New weights, of products that may be new as well."""
        if products is not self.products:
            for product in products:
                self.place(product)
        self.theta = np.asarray(theta, dtype=float)

    def solve(self, inner: InnerSolver) -> Inner:
        return self.solve_at(self.theta, inner)

    def solve_at(self, theta: Array, inner: InnerSolver) -> Inner:
        used = np.flatnonzero(theta)
        rho = np.array([self.rho[len(self.products[i])] for i in used])
        root = np.sqrt(theta[used]) / rho
        features = self._features[:, used] if len(used) else self._features[:, :0]
        system = root[:, None] * self._gram[np.ix_(used, used)] * root
        system.flat[:: len(used) + 1] += 1.0 / inner.C
        side = root * (features.T @ self._loss.weigh(self._target))
        v = cho_solve(cho_factor(system, lower=True), side) if len(used) else side
        left = self._target - features @ (root * v)
        intercept = self._shift - float(self._means[used] @ (root * v))
        coef = inner.C * self._loss.weigh(left)
        value = 0.5 * float(v @ v) + 0.5 * float(left @ coef)
        scores = inner.target - left
        if self._center:
            coef -= coef.mean()  # rounding: the dual is finite at a sum of zero only
        return Inner(coef, intercept, scores, value)


def combined(
    base: BaseKernels, rho: Array, products: list[Product], theta: Array
) -> Array:
    """sum_i theta_i / rho_i^2 K_i over the products with a weight."""
    scales = np.array(
        [t / rho[len(i)] ** 2 for t, i in zip(theta, products, strict=True)]
    )
    used = np.flatnonzero(scales)
    return base.combined([products[i] for i in used], scales[used])
