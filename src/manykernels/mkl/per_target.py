"""One solution per target, each with kernel weights of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from manykernels.solvers import Auto
from manykernels.solvers.loop import SolveResult, require_whole
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.many_targets import solve_targets
from manykernels.solvers.regression.ridge import Ridge
from manykernels.solvers.regression.ridge_targets import one_target


def solve_each(
    solver: Any,
    problem: Problem,
    start: Expansion | None,
    callback: Callable[[Any], object] | None,
) -> list[SolveResult]:
    """One result per target; exact solves share their work between the targets."""
    starts = _models_of_targets(start, problem.n_outputs)
    if isinstance(solver, Auto):
        rng = np.random.default_rng(solver.random_state)
        solver = solver.choose(problem, rng)
    if isinstance(solver, Ridge):
        return solve_targets(problem, solver, starts, callback)
    return [
        require_whole(solver.solve(one_target(problem, k), one, callback))
        for k, one in enumerate(starts or [None] * problem.n_outputs)
    ]


def _models_of_targets(
    model: Expansion | None, n_outputs: int
) -> list[Expansion | None] | None:
    """The model of each target; weights may be shared or a row per target."""
    if model is None:
        return None
    weights = np.broadcast_to(model.weights, (n_outputs, model.weights.shape[-1]))
    return [Expansion(model.coef[:, [k]], weights[k]) for k in range(n_outputs)]


def side_by_side(results: list[SolveResult]) -> Expansion:
    """Coefficients with a column per target, weights with a row per target."""
    coef = np.concatenate([result.model.coef for result in results], axis=1)
    return Expansion(coef, np.stack([r.model.weights for r in results]))
