"""Terms refitted without a penalty, and backward elimination by a criterion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.linalg import lstsq, qr_delete
from scipy.linalg.lapack import dtrtri
from scipy.special import gammaln

from manykernels.base.arrays import Array, Index
from manykernels.losses.one_score import ScoreLoss, normal_deviance
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import Product, allows
from manykernels.products.pricing import Pricing
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.quadratic_programs import newton_descent
from manykernels.solvers.problem import Expansion


def log_choices(n_products: int, n_terms: int) -> float:
    """log of the number of ways to choose the terms.

    Examples
    --------
    >>> round(log_choices(176_851, 10))
    106
    """
    k = min(n_terms, n_products)
    return float(
        gammaln(n_products + 1.0) - gammaln(k + 1.0) - gammaln(n_products - k + 1.0)
    )


def extended_bic(
    loss: ScoreLoss,
    scores: Array,
    target: Array,
    freedom: float,
    n_terms: int,
    n_products: int,
) -> float:
    """deviance + freedom log n + 2 log(choices of n_terms among n_products).

    The last part is the price of the search: the best of 100,000 columns of noise
    explains some variance by chance (Chen and Chen, 2008).
    """
    price = _price(len(target), freedom, n_terms, n_products)
    return loss.deviance(scores, target) + price


def _price(n_rows: int, freedom: float, n_terms: int, n_products: int) -> float:
    """Return the penalty of the extended BIC for a number of terms."""
    return freedom * float(np.log(n_rows)) + 2.0 * log_choices(n_products, n_terms)


def relatives(products: Sequence[Product]) -> list[Product]:
    """Products of some factors of one product, then of all factors of two.

    Examples
    --------
    >>> relatives([(0, 2), (1,)])
    [(0,), (2,), (0, 1, 2)]
    """
    parts = [
        part
        for product in products
        for size in range(1, len(product))
        for part in combinations(product, size)
    ]
    unions = [tuple(sorted({*a, *b})) for a, b in combinations(products, 2)]
    return list(dict.fromkeys([*parts, *unions]))


REFIT_RIDGE = 1e-2  # keeps coefficients finite where classes can be separated
# A forward step takes the best of so many products, by their exact correlation; more
# never changed which one that was.
N_FORWARD_CANDIDATES = 20
# Share of its length that a feature must add to those before it to be independent.
INDEPENDENT_RTOL = 1e-10


@dataclass(frozen=True)
class Terms:
    """f(x) = intercept + sum_i w_i z_i(x) over a few products of rank one."""

    products: tuple[Product, ...]
    w: Array
    intercept: float
    criterion: float
    scores: Array  # of the training rows


class Refit:
    """Fits terms of rank one without a penalty, and chooses among them.

    Squared errors: least squares with an intercept where the problem has one. Other
    losses: Newton's method with a slight ridge.
    """

    def __init__(self, problem: ProductProblem, pricing: Pricing) -> None:
        assert isinstance(problem.base, RankOneKernels)
        self.problem, self.base, self.pricing = problem, problem.base, pricing

    @property
    def max_terms(self) -> int:
        """A quarter of the rows: beyond it anything fits."""
        return max(1, self.problem.n_rows // 4)

    def fit(self, products: Sequence[Product]) -> Terms:
        """The terms of these products with their criterion."""
        problem = self.problem
        Z = self.base.features(products)
        if problem.intercept:
            Z = np.column_stack([Z, np.ones(len(Z))])
        squared = problem.loss.is_squared
        w = self._least_squares(Z) if squared else self._newton(Z)
        scores = Z @ w
        intercept = float(w[-1]) if problem.intercept else 0.0
        criterion = extended_bic(
            problem.loss,
            scores,
            problem.target,
            len(products) + int(problem.intercept),
            len(products),
            problem.n_products,
        )
        kept = w[: len(products)]
        return Terms(tuple(products), kept, intercept, criterion, scores)

    def _least_squares(self, Z: Array) -> Array:
        if not Z.size:
            return np.zeros(0)
        weigh = self.problem.loss.weigh
        return np.asarray(lstsq(weigh(Z, 0.5), weigh(self.problem.target, 0.5))[0])

    def _newton(self, Z: Array) -> Array:
        """min over w of sum loss(Z w) + REFIT_RIDGE / 2 ||w||^2."""
        loss, target = self.problem.loss, self.problem.target

        def total(w: Array) -> float:
            ridge = 0.5 * REFIT_RIDGE * float(w @ w)
            return float(loss.value(Z @ w, target).sum()) + ridge

        def newton_point(w: Array) -> Array:
            scores = Z @ w
            curvature = np.maximum(loss.curvature(scores, target), 1e-6)
            H = Z.T @ (Z * curvature[:, None]) + REFIT_RIDGE * np.eye(Z.shape[1])
            g = Z.T @ loss.gradient(scores, target) + REFIT_RIDGE * w
            return np.asarray(w - np.linalg.solve(H, g))

        start = np.zeros(Z.shape[1])
        return newton_descent(total, newton_point, start) if len(start) else start

    def strongest(self, model: Expansion) -> list[Product]:
        """The products of a solution, at most a quarter as many as there are rows."""
        assert isinstance(model, ProductExpansion)
        order = np.argsort(-model.weights, kind="stable")[: self.max_terms]
        return [model.products[i] for i in order]

    def pruned(self, products: Sequence[Product]) -> Terms:
        """Backward elimination: leave out the weakest term while this helps."""
        squared = self.problem.loss.is_squared
        shorter = self._least_squares_lists if squared else self._newton_lists
        best, least = list(products), np.inf
        for kept, criterion in shorter(products):
            if criterion <= least:
                best, least = kept, criterion
            elif criterion > least + 2.0 * self._entry_price():
                break
        return self.fit(best)

    def _least_squares_lists(
        self, products: Sequence[Product]
    ) -> Iterator[tuple[list[Product], float]]:
        """Shorter and shorter lists with their criterion, from one factorization."""
        problem, weigh = self.problem, self.problem.loss.weigh
        target, intercept = problem.target, int(problem.intercept)
        if intercept:
            target = target - problem.loss.mean(target)
        Z = weigh(self._centered(products), 0.5)
        for kept, squares in backward_elimination(Z, weigh(target, 0.5)):
            k = len(kept)
            price = _price(problem.n_rows, k + intercept, k, problem.n_products)
            deviance = normal_deviance(squares, problem.target)
            yield [products[i] for i in kept], deviance + price

    def _newton_lists(
        self, products: Sequence[Product]
    ) -> Iterator[tuple[list[Product], float]]:
        """The same for other losses, each list fitted anew."""
        terms = self.fit(products)
        yield list(terms.products), terms.criterion
        while terms.products:
            weakest = int(np.argmin(self._losses_without(terms)))
            terms = self.fit([p for i, p in enumerate(terms.products) if i != weakest])
            yield list(terms.products), terms.criterion

    def extended(self, terms: Terms) -> Terms:
        """Forward steps, and relatives in place of products, while this helps."""
        for _ in range(self.max_terms):
            better = self._one_more(terms) or self._with_relatives(terms)
            if better is None:
                break
            terms = better
        return terms

    def _with_relatives(self, terms: Terms) -> Terms | None:
        """Add parts and unions of the products, if the criterion prefers the result.

        A product of 0/1 columns is correlated with its factors. Where it was chosen
        in place of both, neither is found by a forward step.
        """
        known, n_free = set(terms.products), self.max_terms - len(terms.products)
        kin = [p for p in relatives(terms.products) if self._may_have(p)]
        kin = [p for p in kin if p not in known][: max(0, n_free)]
        if not kin:
            return None
        better = self.pruned([*terms.products, *kin])
        return better if better.criterion < terms.criterion else None

    def _may_have(self, product: Product) -> bool:
        """Whether a model may have this product."""
        rho = self.problem.rho
        if len(product) >= len(rho) or not np.isfinite(rho[len(product)]):
            return False
        return allows(self.base.limits, product)

    def _one_more(self, terms: Terms) -> Terms | None:
        """Add the best of all products, then eliminate terms that became redundant."""
        if len(terms.products) >= self.max_terms:
            return None
        coef = -self.problem.loss.gradient(terms.scores, self.problem.target)
        if float(coef @ coef) <= 1e-20 * float(
            self.problem.target @ self.problem.target
        ):
            return None
        prices = self.pricing.search(coef, N_FORWARD_CANDIDATES)
        tried = [p for p in prices.products if p not in terms.products]
        if not tried:
            return None
        values = np.abs(coef @ self.base.features(tried)) / self._spread(tried)
        best = self.fit([*terms.products, tried[int(np.argmax(values))]])
        return self.pruned(best.products) if best.criterion < terms.criterion else None

    def _losses_without(self, terms: Terms) -> Array:
        """Return the loss of leaving out each term, to second order.

        w_i^2 / (H^-1)_ii with H the Hessian in w: the other terms are refitted.
        """
        Z = self._centered(terms.products)
        curvature = self.problem.loss.curvature(terms.scores, self.problem.target)
        H = Z.T @ (Z * curvature[:, None])
        variances = np.diag(np.linalg.pinv(H, hermitian=True))
        return np.asarray(np.square(terms.w) / np.maximum(variances, 1e-300))

    def _centered(self, products: Sequence[Product]) -> Array:
        """Features, around their means where there is an intercept."""
        Z = self.base.features(products)
        return Z - self.problem.loss.mean(Z) if self.problem.intercept else Z

    def _spread(self, products: Sequence[Product]) -> Array:
        """Length of every feature, around its mean where there is an intercept."""
        Z = self.problem.loss.weigh(self._centered(products), 0.5)
        return np.asarray(np.maximum(np.linalg.norm(Z, axis=0), 1e-300))

    def _entry_price(self) -> float:
        """Return the decrease of the deviance that one more term needs."""
        n, total = self.problem.n_rows, self.problem.n_products
        return float(np.log(n) + 2.0 * np.log(max(total, 2)))


def backward_elimination(Z: Array, y: Array) -> Iterator[tuple[Index, float]]:
    """Yield columns of Z, the least useful left out one by one, and sums of squares.

    Columns that depend on earlier ones are left out first. Then column i costs
    w_i^2 / (Z' Z)^-1_ii, and Z = Q R is updated without it.

    Parameters
    ----------
    Z : array of shape (n, m), m < n
    y : array of shape (n,)

    Examples
    --------
    >>> Z = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0, 0, 0], [0, 0, 0]])
    >>> for kept, squares in backward_elimination(Z, np.array([3.0, 1.0, 0.0, 1.0])):
    ...     print(kept, round(squares, 6))
    [0 1] 1.0
    [0] 2.0
    [] 11.0
    """
    kept = _independent(Z)
    # The columns and y in a basis of their own: as many rows as columns.
    small = _triangle(np.column_stack([Z[:, kept], y]))
    aim, rows = small[:, -1], len(small)
    Q, R = np.eye(rows, len(kept)), small[: len(kept), :-1]
    squares = float(np.square(aim[len(kept) :]).sum())
    yield kept, squares
    while len(kept):
        inverse = dtrtri(R)[0]
        losses = np.square(inverse @ (aim @ Q)) / np.square(inverse).sum(axis=1)
        weakest = int(np.argmin(losses))
        squares += float(losses[weakest])
        kept = np.delete(kept, weakest)
        Q, R = qr_delete(Q, R, weakest, which="col", check_finite=False)
        yield kept, squares


def _independent(Z: Array) -> Index:
    """Columns that are no sum of multiples of those before them."""
    kept = np.arange(Z.shape[1])
    while True:
        left = np.abs(np.diag(_triangle(Z[:, kept])))
        adds = left > INDEPENDENT_RTOL * np.linalg.norm(Z[:, kept], axis=0)
        if adds.all():
            return kept
        kept = kept[adds]


def _triangle(Z: Array) -> Array:
    """R of Z = Q R."""
    return np.asarray(np.linalg.qr(Z, mode="r"))
