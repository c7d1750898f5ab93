"""Choose C on rows that were left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.products.base import BaseKernels, DenseKernels, RankOneKernels
from manykernels.products.problem import ProductExpansion, ProductProblem
from manykernels.solvers.loop import SolveResult

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
            base=take_rows(problem.base, kept),
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


def take_rows(base: BaseKernels, rows: Index) -> BaseKernels:
    """The same base kernels on some of the rows."""
    if isinstance(base, RankOneKernels):
        return RankOneKernels(base.columns[rows])
    assert isinstance(base, DenseKernels)
    return DenseKernels(base.stack[:, rows][:, :, rows])


def scores_of(
    problem: ProductProblem, model: ProductExpansion, rows: Index, known: Index
) -> Array:
    """Scores of some rows from a model on the rows `known`."""
    base, scores = problem.base, np.full(len(rows), model.intercept)
    coef = model.coef[:, 0]
    for product, weight in zip(model.products, model.weights, strict=True):
        scale = weight / problem.rho[len(product)] ** 2
        if isinstance(base, RankOneKernels):
            z = base.feature(product)
            scores += scale * float(z[known] @ coef) * z[rows]
        else:
            scores += scale * (base.matrix(product)[np.ix_(rows, known)] @ coef)
    return scores
