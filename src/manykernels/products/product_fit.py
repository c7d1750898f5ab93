"""Fit a model over products: choose the algorithm and C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.base.machine import one_blas_thread
from manykernels.inputs.parameters import seeded
from manykernels.products.base import RankOneKernels
from manykernels.products.fitted_products import (
    FittedProducts,
    from_expansion,
    from_terms,
    scores_of,
)
from manykernels.products.mirror_descent import RandomizedMirrorDescent
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.choice import Choice
from manykernels.products.sparse.column_generation import ColumnGeneration
from manykernels.products.sparse.refit import Refit
from manykernels.products.sparse.sparse_path import SparsePath
from manykernels.solvers.loop import Callback, SolveResult

HOLDOUT_C_GRID = tuple(10.0**k for k in range(-2, 5))


def holdout_C(
    problem: ProductProblem,
    solve: Callable[[ProductProblem], SolveResult],
    rng: np.random.Generator,
    grid: tuple[float, ...] = HOLDOUT_C_GRID,
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
    if n < 10:  # too few to hold any out
        return 1.0
    order, n_held = rng.permutation(n), n // 5
    held_out, kept = order[:n_held], order[n_held:]
    losses = []
    for C in grid:
        result = solve(replace(problem.take(kept), C=C))
        assert isinstance(result.model, ProductExpansion)
        scores = scores_of(problem, result.model, held_out, kept)
        loss = problem.loss.take(held_out)
        losses.append(float(loss.value(scores, problem.target[held_out]).mean()))
        if result.stopped:
            break
    return grid[int(np.argmin(losses))]


@dataclass(frozen=True)
class ProductFit:
    """A solver at a given C, or at the one that suits the data.

    Parameters
    ----------
    C : float, "auto" or "bic"
        "bic" takes an information criterion, for column generation. So does "auto",
        but for squared errors it takes a shrunken model, or none, where that predicts
        left-out rows better; for other solvers left-out rows choose C.
    refit : bool, optional
        Fit the chosen terms of rank one again without shrinkage (column generation
        only); by default where C is chosen by the criterion.
    solver : solver, optional
        By default column generation for p = 1, randomized mirror descent for other p.
    random_state : seed or Generator
        Chooses the rows to leave out, and the draws of a solver that has no seed.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> from manykernels.products.product_problem import ProductProblem
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
                return self._by_column_generation(solver, problem, callback, rng)
            if self.C == "bic":
                raise ValueError(
                    "C='bic' is a criterion for the lists of ColumnGeneration (p = 1), "
                    f"got {type(solver).__name__}; choose C='auto' or a number."
                )
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
        return seeded(self.solver, rng)

    def _by_column_generation(
        self,
        solver: ColumnGeneration,
        problem: ProductProblem,
        callback: Callback | None,
        rng: np.random.Generator,
    ) -> FittedProducts:
        if isinstance(self.C, str):
            return self._from_criterion(solver, problem, callback, rng)
        problem = replace(problem, C=float(self.C))
        result = solver.solve(problem, None, callback)
        if self.refit and isinstance(problem.base, RankOneKernels):
            refit = Refit(problem, solver.pricing(problem))
            terms = refit.fit(refit.strongest(result.model))
            return from_terms(problem, result, terms, solver)
        return from_expansion(problem, result, solver)

    def _from_criterion(
        self,
        solver: ColumnGeneration,
        problem: ProductProblem,
        callback: Callback | None,
        rng: np.random.Generator,
    ) -> FittedProducts:
        chosen = SparsePath(solver).solve(problem, callback)
        if chosen.terms is None or self.refit is False:
            return from_expansion(chosen.problem, chosen.result, solver)
        listed = from_terms(chosen.problem, chosen.result, chosen.terms, solver)
        if self.C == "bic" or not problem.loss.is_squared or chosen.result.stopped:
            return listed
        if self.random_state is None:
            rng = np.random.default_rng(0)  # the same data give the same model
        return Choice(solver, problem, callback, rng).between(listed)
