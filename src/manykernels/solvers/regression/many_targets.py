"""One ridge problem per target on the same kernels, each with its own weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from manykernels.base.arrays import Array
from manykernels.solvers.loop import SAMPLE_START_TOL, Callback, SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.gradient_targets import GradientTargets
from manykernels.solvers.regression.ridge import (
    Ridge,
    few_threads,
    require_direct,
    sample_of,
)
from manykernels.solvers.regression.ridge_targets import FactoredTargets, TargetsInStep


def solve_targets(
    problem: Problem,
    ridge: Ridge,
    starts: Sequence[Expansion | None] | None = None,
    callback: Callback | None = None,
) -> list[SolveResult]:
    """Solve min over w, d of every column of the target, with weights of its own.

    The same results as ``ridge.solve`` column by column; products with the kernels
    and the search for weights are shared.

    Parameters
    ----------
    problem : Problem
        With the squared loss and a target of shape (rows, outputs).
    ridge : Ridge
        Tolerance, limit and seed.
    starts : sequence of Expansion or None, optional
        Earlier solutions, one per target.
    callback : callable, optional
        Called with each line of every target's history; True stops them all.
    """
    require_direct(problem)
    norm, even = problem.norm, problem.norm.uniform_weights(problem.bank.n_blocks)
    weights, curvature = np.tile(even, (problem.n_outputs, 1)), None
    sample = sample_of(problem, ridge) if starts is None else None
    if starts is not None:
        earlier = [even if start is None else start.weights for start in starts]
        weights = np.stack([norm.normalize_weights(d) for d in earlier])
    elif sample is not None:
        rough = replace(ridge, tol=max(ridge.tol, SAMPLE_START_TOL))
        first = _solve_from(sample, weights, None, rough, None)
        weights = np.stack(
            [norm.normalize_weights(best.model.weights) for best in first.best]
        )
        curvature = first.curvature
    return _solve_from(problem, weights, curvature, ridge, callback).results()


def _solve_from(
    problem: Problem,
    weights: Array,
    curvature: Array | None,
    ridge: Ridge,
    callback: Callback | None,
) -> TargetsInStep:
    on_device = problem.bank.on_device() is not None
    kind = GradientTargets if on_device else FactoredTargets
    targets = kind(problem, weights, curvature, ridge, callback)
    with few_threads(problem.n_rows):
        targets.run()
    return targets
