"""Targets that each learn kernel weights of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from manykernels.solvers import Auto, Epoch, Expansion, Problem, SolveResult
from manykernels.solvers.regression.ridge import Ridge
from manykernels.solvers.regression.ridge_targets import single, solve_targets


def solve_each(
    solver: Any,
    problem: Problem,
    start: Expansion | None,
    callback: Callable[[Epoch], object] | None,
) -> list[SolveResult]:
    """One result per target; exact solves share their work between the targets."""
    starts = columns_of(start, problem.n_outputs)
    if isinstance(solver, Auto):
        rng = np.random.default_rng(solver.random_state)
        solver = solver.choose(problem, rng)
    if isinstance(solver, Ridge):
        return solve_targets(problem, solver, starts, callback)
    return [
        solver.solve(single(problem, k), one, callback)
        for k, one in enumerate(starts or [None] * problem.n_outputs)
    ]


def columns_of(
    model: Expansion | None, n_outputs: int
) -> list[Expansion | None] | None:
    """The model of each target; weights may be shared or a column per target."""
    if model is None:
        return None
    weights = model.weights.reshape(len(model.weights), -1)
    return [
        Expansion(model.coef[:, [k]], weights[:, k % weights.shape[1]])
        for k in range(n_outputs)
    ]


def side_by_side(results: list[SolveResult]) -> Expansion:
    """Coefficients and weights with a column per target."""
    coef = np.concatenate([result.model.coef for result in results], axis=1)
    return Expansion(coef, np.stack([r.model.weights for r in results], axis=1))
