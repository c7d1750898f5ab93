"""A fit over products as terms with coefficients, and its scores on other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.products.base import RankOneKernels, inverse_sizes
from manykernels.products.indices import Product
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.refit import Terms
from manykernels.solvers.loop import SolveResult


@dataclass(frozen=True)
class FittedProducts:
    """The solution at one C, and its terms where kernels have rank one.

    Examples
    --------
    >>> from manykernels.products.product_fit import ProductFit
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> y = 3.0 * X[:, 0] * X[:, 3]
    >>> problem = ProductProblem(RankOneKernels(X), y, np.ones(3), p=1)
    >>> fitted = ProductFit().solve(problem)
    >>> fitted.products, fitted.coefs.round(2).tolist()
    (((0, 3),), [3.0])
    """

    C: float
    result: SolveResult
    solver: Any  # of the result
    products: tuple[Product, ...]
    weights: np.ndarray  # kernel weights, which sum to one
    coefs: np.ndarray | None  # one per product where kernels have rank one
    intercept: float
    factors: np.ndarray  # theta_i / rho_i^2 of the expansion's own products
    criterion: float = 0.0  # less is better, where models are compared at all

    def beats(self, other: FittedProducts) -> bool:
        """Whether this fit is preferred to an earlier one on the same rows."""
        return self.criterion < other.criterion

    @property
    def expansion(self) -> ProductExpansion:
        """The solution in terms of training rows."""
        assert isinstance(self.result.model, ProductExpansion)
        return self.result.model


def scores_of(
    problem: ProductProblem, model: ProductExpansion, rows: Index, known: Index
) -> Array:
    """Scores of some rows from a model on the rows `known`."""
    rho = np.array([problem.rho[len(product)] for product in model.products])
    scales = model.weights / np.square(rho)
    coef = model.coef[:, 0]
    scores = problem.base.scores(model.products, scales, coef, rows, known)
    return np.asarray(scores + model.intercept)


def from_terms(
    problem: ProductProblem, result: SolveResult, terms: Terms, solver: Any
) -> FittedProducts:
    """Terms with weights in proportion to rho_i |w_i|, strongest first."""
    rho = np.array([problem.rho[len(product)] for product in terms.products])
    sizes = rho * np.abs(terms.w)
    order = np.argsort(-sizes, kind="stable")
    products = tuple(terms.products[i] for i in order)
    weights = sizes[order] / max(float(sizes.sum()), 1e-300)
    return FittedProducts(
        problem.C,
        result,
        solver,
        products,
        weights,
        coefs_of(problem, terms)[order],
        terms.intercept,
        _factors(problem, result),
        terms.criterion,
    )


def coefs_of(problem: ProductProblem, terms: Terms) -> Array:
    """Coefficients of products as they are, where the problem may scale them."""
    assert isinstance(problem.base, RankOneKernels)
    sizes = problem.base.sizes(terms.products)
    return np.asarray(terms.w * inverse_sizes(np.square(sizes)))


def from_expansion(
    problem: ProductProblem, result: SolveResult, solver: Any
) -> FittedProducts:
    """The products of a solution, strongest first."""
    model = result.model
    if not isinstance(model, ProductExpansion):
        raise ValueError(
            "solver must find weights of products, got a "
            f"{type(model).__name__} from {type(solver).__name__}; choose for instance "
            "ColumnGeneration()."
        )
    used = [i for i in np.argsort(-model.weights, kind="stable") if model.weights[i]]
    products = tuple(model.products[i] for i in used)
    weights = model.weights[used]
    coefs = None
    if isinstance(problem.base, RankOneKernels):
        rho = np.array([problem.rho[len(product)] for product in products])
        pulls = model.coef[:, 0] @ problem.base.features(products)
        scales = inverse_sizes(np.square(problem.base.sizes(products)))
        coefs = weights / np.square(rho) * pulls * scales
    total = max(float(weights.sum()), 1e-300)
    factors = _factors(problem, result)
    return FittedProducts(
        problem.C,
        result,
        solver,
        products,
        weights / total,
        coefs,
        model.intercept,
        factors,
    )


def _factors(problem: ProductProblem, result: SolveResult) -> np.ndarray:
    model = result.model
    assert isinstance(model, ProductExpansion)
    rho = np.array([problem.rho[len(product)] for product in model.products])
    return np.asarray(model.weights / np.square(rho))
