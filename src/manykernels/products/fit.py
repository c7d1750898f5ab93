"""One call from a problem to a model: which algorithm, which C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.base.machine import one_blas_thread
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
    solver: Any  # which found the result
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
    """A solver at a given C, or at the one that suits the data.

    Parameters
    ----------
    C : float or "auto"
        "auto" takes an information criterion for column generation, and left-out rows
        for other solvers.
    refit : bool, optional
        Fit the chosen terms of rank one again without shrinkage (column generation
        only); by default where C is chosen by the criterion.
    solver : solver, optional
        By default column generation for p = 1, randomized mirror descent for other p.
    random_state : seed or Generator
        Chooses the rows to leave out, and the draws of a solver that has no seed.

    Examples
    --------
    >>> from manykernels.products import ProductProblem, RankOneKernels
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 3], np.ones(3), p=1)
    >>> ProductFit().solve(problem).products
    ((0, 3),)
    """

    C: float | str = "auto"
    refit: bool | None = None
    solver: Any = None
    random_state: Any = None

    def solve(
        self, problem: ProductProblem, callback: Callback | None = None
    ) -> FittedProducts:
        """The model for a problem, whose own C is not read."""
        rng = np.random.default_rng(self.random_state)
        solver = self._seeded_solver(problem.p, rng)
        with one_blas_thread():
            if isinstance(solver, ColumnGeneration):
                return self._sparse(solver, problem, callback)
            C = holdout_C(problem, solver.solve, rng) if self.C == "auto" else self.C
            problem = replace(problem, C=float(C))
            result = solver.solve(problem, None, callback)
            return from_expansion(problem, result, solver)

    def _seeded_solver(self, p: float, rng: np.random.Generator) -> Any:
        if self.solver is None:
            return (
                ColumnGeneration()
                if p == 1.0
                else RandomizedMirrorDescent(random_state=rng)
            )
        if getattr(self.solver, "random_state", 0) is None:
            return replace(self.solver, random_state=rng)
        return self.solver

    def _sparse(
        self,
        solver: ColumnGeneration,
        problem: ProductProblem,
        callback: Callback | None,
    ) -> FittedProducts:
        if self.C == "auto":
            chosen = SparsePath(solver).solve(problem, callback)
            if chosen.terms is not None and self.refit is not False:
                return _from_terms(chosen.problem, chosen.result, chosen.terms, solver)
            return from_expansion(chosen.problem, chosen.result, solver)
        problem = replace(problem, C=float(self.C))
        result = solver.solve(problem, None, callback)
        if self.refit and isinstance(problem.base, RankOneKernels):
            refit = Refit(problem, solver.pricing(problem))
            terms = refit.strongest(result.model)
            return _from_terms(problem, result, terms, solver)
        return from_expansion(problem, result, solver)


def _from_terms(
    problem: ProductProblem, result: SolveResult, terms: Terms, solver: Any
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
        problem.C, result, solver, products, weights, w, terms.intercept, factors
    )


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
