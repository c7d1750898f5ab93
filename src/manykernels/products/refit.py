"""Terms without shrinkage: the chosen products fitted again, superfluous ones out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq

from manykernels.base.arrays import Array
from manykernels.products.base import RankOneKernels
from manykernels.products.criterion import extended_bic
from manykernels.products.index import Product
from manykernels.products.losses import SquaredError
from manykernels.products.pricing import Pricing
from manykernels.products.problem import ProductExpansion, ProductProblem
from manykernels.solvers.problem import Expansion

RIDGE = 1e-2  # keeps coefficients finite where classes can be separated
TRIED = 20  # products for which a forward step is tried


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
        w = self._least_squares(Z) if self._squared else self._newton(Z)
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

    @property
    def _squared(self) -> bool:
        return isinstance(self.problem.loss, SquaredError)

    def _least_squares(self, Z: Array) -> Array:
        return np.asarray(lstsq(Z, self.problem.target)[0]) if Z.size else np.zeros(0)

    def _newton(self, Z: Array) -> Array:
        """min over w of sum loss(Z w) + RIDGE / 2 ||w||^2."""
        loss, target = self.problem.loss, self.problem.target
        w = np.zeros(Z.shape[1])
        value = float(loss.value(Z @ w, target).sum())
        for _ in range(50 if Z.shape[1] else 0):
            scores = Z @ w
            curvature = np.maximum(loss.curvature(scores, target), 1e-6)
            H = Z.T @ (Z * curvature[:, None]) + RIDGE * np.eye(Z.shape[1])
            g = Z.T @ loss.gradient(scores, target) + RIDGE * w
            change = np.linalg.solve(H, -g)
            step, found = 1.0, np.inf
            while step > 1e-4:
                moved = w + step * change
                found = float(loss.value(Z @ moved, target).sum())
                found += 0.5 * RIDGE * float(moved @ moved)
                if found < value:
                    break
                step *= 0.5
            if value - found <= 1e-9 * abs(value):
                break
            w, value = w + step * change, found
        return w

    def strongest(self, model: Expansion) -> Terms:
        """The terms of a solution, at most a quarter of the rows."""
        assert isinstance(model, ProductExpansion)
        order = np.argsort(-model.weights, kind="stable")[: self.max_terms]
        return self.fit([model.products[i] for i in order])

    def pruned(self, terms: Terms) -> Terms:
        """Backward elimination: leave out the weakest term while this helps."""
        best = terms
        while terms.products:
            strength = np.abs(terms.w) * self._spread(terms.products)
            weakest = int(np.argmin(strength))
            terms = self.fit([p for i, p in enumerate(terms.products) if i != weakest])
            if terms.criterion <= best.criterion:
                best = terms
            elif terms.criterion > best.criterion + 2.0 * self._entry_price():
                break
        return best

    def extended(self, terms: Terms) -> Terms:
        """Forward steps: add the best of all products while this helps."""
        for _ in range(self.max_terms):
            if len(terms.products) >= self.max_terms:
                break
            better = self._one_more(terms)
            if better is None:
                break
            terms = self.pruned(better)
        return terms

    def _one_more(self, terms: Terms) -> Terms | None:
        coef = -self.problem.loss.gradient(terms.scores, self.problem.target)
        if float(coef @ coef) <= 1e-20 * float(
            self.problem.target @ self.problem.target
        ):
            return None
        prices = self.pricing.search(coef, TRIED)
        tried = [p for p in prices.products if p not in terms.products]
        if not tried:
            return None
        values = np.abs(coef @ self.base.features(tried)) / self._spread(tried)
        best = self.fit([*terms.products, tried[int(np.argmax(values))]])
        return best if best.criterion < terms.criterion else None

    def _spread(self, products: Sequence[Product]) -> Array:
        """Length of every feature, around its mean where there is an intercept."""
        Z = self.base.features(products)
        if self.problem.intercept:
            Z = Z - Z.mean(axis=0)
        return np.asarray(np.maximum(np.linalg.norm(Z, axis=0), 1e-300))

    def _entry_price(self) -> float:
        """What one more term must gain."""
        n, total = self.problem.n_rows, self.problem.n_products
        return float(np.log(n) + 2.0 * np.log(max(total, 2)))
