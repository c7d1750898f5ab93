"""One call from a problem to a model: which algorithm, which C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.base.threads import one_blas_thread
from manykernels.products.base import (
    Product,
    RankOneKernels,
    inverse_sizes,
)
from manykernels.products.column_generation import ColumnGeneration
from manykernels.products.mirror_descent import RandomizedMirrorDescent
from manykernels.products.path import Refit, SparsePath, Terms
from manykernels.products.problem import ProductExpansion, ProductProblem
from manykernels.solvers.loop import Callback, SolveResult

GRID = tuple(10.0**k for k in range(-2, 5))
SHARE = 0.2
LEAST_ROWS = 10  # with fewer there is nothing to leave out


def holdout_C(
    problem: ProductProblem,
    solve: Callable[[ProductProblem], SolveResult],
    rng: np.random.Generator,
    grid: tuple[float, ...] = GRID,
) -> float:
    """The C of the grid with the least loss on a fifth of the rows.

    Parameters
    ----------
    problem : ProductProblem
    solve : function of a problem
    rng : Generator
        Chooses the rows.
    grid : tuple of float
    """
    n = problem.n_rows
    if n < LEAST_ROWS:
        return 1.0
    order = rng.permutation(n)
    left_out, kept = order[: int(SHARE * n)], order[int(SHARE * n) :]
    losses = []
    for C in grid:
        part = replace(
            problem,
            base=problem.base.take(kept),
            target=problem.target[kept],
            C=C,
        )
        result = solve(part)
        assert isinstance(result.model, ProductExpansion)
        scores = scores_of(problem, result.model, left_out, kept)
        losses.append(
            float(problem.loss.value(scores, problem.target[left_out]).mean())
        )
        if result.stopped:
            break
    return grid[int(np.argmin(losses))]


def scores_of(
    problem: ProductProblem, model: ProductExpansion, rows: Index, known: Index
) -> Array:
    """Scores of some rows from a model on the rows `known`."""
    base, scores = problem.base, np.full(len(rows), model.intercept)
    coef = model.coef[:, 0]
    for product, weight in zip(model.products, model.weights, strict=True):
        scale = weight / problem.rho[len(product)] ** 2
        scores += scale * base.images(product, coef, rows, known)
    return scores


@dataclass(frozen=True)
class FittedProducts:
    """What a fit found: the solution at C, and terms for rank-one kernels."""

    C: float
    result: SolveResult
    products: tuple[Product, ...]
    weights: np.ndarray  # kernel weights, which sum to one
    coefs: np.ndarray | None  # one per product where kernels have rank one
    intercept: float
    factors: np.ndarray  # theta_i / rho_i^2 of the expansion's own products

    @property
    def expansion(self) -> ProductExpansion:
        """The solution in terms of training rows."""
        assert isinstance(self.result.model, ProductExpansion)
        return self.result.model


@dataclass(frozen=True)
class ProductFit:
    """p = 1 by column generation, other p by randomized mirror descent.

    Parameters
    ----------
    C : float or "auto"
        "auto" takes an information criterion for p = 1 and left-out rows otherwise.
    refit : bool, optional
        Fit the chosen terms of rank one again without shrinkage; by default where C
        is chosen by the criterion.
    tol, max_iter, memory_limit, random_state
        As in the solvers; None for their own defaults.
    """

    C: float | str = "auto"
    refit: bool | None = None
    tol: float = 1e-3
    max_iter: int | None = None
    memory_limit: int | str | None = None
    random_state: Any = None

    def solve(
        self, problem: ProductProblem, callback: Callback | None = None
    ) -> FittedProducts:
        """The model for a problem, whose own C is not read."""
        with one_blas_thread():
            if problem.p == 1.0:
                return self._sparse(problem, callback)
            return self._dense(problem, callback)

    def _sparse(
        self, problem: ProductProblem, callback: Callback | None
    ) -> FittedProducts:
        solver = ColumnGeneration(
            self.tol, self.max_iter or 200, memory_limit=self.memory_limit
        )
        if self.C == "auto":
            chosen = SparsePath(solver).solve(problem, callback)
            if chosen.terms is not None and self.refit is not False:
                return _from_terms(chosen.problem, chosen.result, chosen.terms)
            return from_expansion(chosen.problem, chosen.result)
        problem = replace(problem, C=float(self.C))
        result = solver.solve(problem, None, callback)
        if self.refit is True and isinstance(problem.base, RankOneKernels):
            refit = Refit(problem, solver.pricing(problem))
            return _from_terms(problem, result, refit.strongest(result.model))
        return from_expansion(problem, result)

    def _dense(
        self, problem: ProductProblem, callback: Callback | None
    ) -> FittedProducts:
        rng = np.random.default_rng(self.random_state)
        solver = RandomizedMirrorDescent(
            self.max_iter or 500, self.tol, random_state=rng
        )
        C = self.C
        if C == "auto":
            C = holdout_C(problem, solver.solve, rng)
        problem = replace(problem, C=float(C))
        return from_expansion(problem, solver.solve(problem, None, callback))


def _from_terms(
    problem: ProductProblem, result: SolveResult, terms: Terms
) -> FittedProducts:
    """Terms with weights in proportion to rho_i |w_i|, strongest first."""
    rho = np.array([problem.rho[len(product)] for product in terms.products])
    sizes = rho * np.abs(terms.w)
    order = np.argsort(-sizes, kind="stable")
    products = tuple(terms.products[i] for i in order)
    assert isinstance(problem.base, RankOneKernels)
    weights = sizes[order] / max(float(sizes.sum()), 1e-300)
    w = terms.w[order] * inverse_sizes(np.square(problem.base.sizes(products)))
    factors = _factors(problem, result)
    return FittedProducts(
        problem.C, result, products, weights, w, terms.intercept, factors
    )


def from_expansion(problem: ProductProblem, result: SolveResult) -> FittedProducts:
    """The products of a solution, strongest first."""
    model = result.model
    assert isinstance(model, ProductExpansion)
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
        problem.C, result, products, weights / total, coefs, model.intercept, factors
    )


def _factors(problem: ProductProblem, result: SolveResult) -> np.ndarray:
    model = result.model
    assert isinstance(model, ProductExpansion)
    rho = np.array([problem.rho[len(product)] for product in model.products])
    return np.asarray(model.weights / np.square(rho))
