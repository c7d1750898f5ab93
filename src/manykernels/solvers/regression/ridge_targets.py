"""One ridge problem per target on the same kernels, each with its own weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve

from manykernels.base.arrays import Array, Index
from manykernels.solvers.loop import Callback, SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.device_ridge import Solved
from manykernels.solvers.regression.device_targets import DeviceTargets
from manykernels.solvers.regression.ridge import (
    Ridge,
    announce,
    certified_iterate,
    factorize,
    few_threads,
    half_solve,
    require_direct,
    sample_of,
)
from manykernels.solvers.regression.targets import Start, TargetsInStep, single

CHUNK_BYTES = 2**27  # of Cholesky factors held at a time


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
    announce(problem)
    return _solved(problem, ridge, starts, callback).results()


def _solved(
    problem: Problem,
    ridge: Ridge,
    starts: Sequence[Expansion | None] | None,
    callback: Callback | None,
    borrows: bool = True,
) -> TargetsInStep:
    """Second derivatives of a sample serve all the rows, not another sample."""
    start = _first_weights(problem, ridge, starts)
    if not borrows:
        start = start._replace(curvature=None)
    there = problem.bank.on_device()
    targets: TargetsInStep
    if there is None:
        targets = HostTargets(problem, start, ridge, callback)
    else:
        targets = DeviceTargets(problem, start, ridge, callback, there)
    with few_threads(problem.n_rows):
        targets.run()
    return targets


def _first_weights(
    problem: Problem, ridge: Ridge, starts: Sequence[Expansion | None] | None
) -> Start:
    """From earlier solutions, or from a sample of the rows, or all alike."""
    norm, even = problem.norm, problem.norm.uniform_weights(problem.bank.n_blocks)
    if starts is not None:
        found = [even if one is None else one.weights for one in starts]
        return Start(np.stack([norm.normalize_weights(d) for d in found]), None)
    sample = sample_of(problem, ridge)
    if sample is None:
        return Start(np.tile(even, (problem.n_outputs, 1)), None)
    rough = replace(ridge, tol=max(ridge.tol, sample.tol))
    known = _solved(sample.problem, rough, None, None, borrows=False)
    return Start(
        np.stack([norm.normalize_weights(best.model.weights) for best in known.best]),
        known.curvature,
    )


class HostTargets(TargetsInStep):
    """A Cholesky factor for every target, in the processor's memory."""

    @cached_property
    def problems(self) -> list[Problem]:
        """One per target."""
        return [single(self.problem, k) for k in range(self.problem.n_outputs)]

    def _sweep(self, which: Index) -> None:
        """Factor, solve and certify some targets, and move their weights."""
        size = max(1, CHUNK_BYTES // (8 * self.bank.n_rows**2))
        found: list[tuple[float, Array, Array]] = []
        for start in range(0, len(which), size):
            chunk = which[start : start + size]
            for k, one in zip(chunk, self._solve(chunk), strict=True):
                self._record(k, certified_iterate(self.problems[k], one))
                found.append((one.value, one.squares, one.curvature))
            if self.stopped:
                return
        values, squares, curvature = (
            np.stack(part) for part in zip(*found, strict=True)
        )
        self.newton.advance(which, values, values, squares, curvature)

    def _solve(self, which: Index) -> Iterator[Solved]:
        problems = [self.problems[k] for k in which]
        weights = self.newton.trial[which]
        factors = [factorize(*pair) for pair in zip(problems, weights, strict=True)]
        coef = np.concatenate(
            [
                cho_solve((factor, True), one.target)
                for factor, one in zip(factors, problems, strict=True)
            ],
            axis=1,
        )
        products = np.asarray(self.bank.block_scores(coef), dtype=np.float64)
        for j, (one, factor) in enumerate(zip(problems, factors, strict=True)):
            own = coef[:, [j]]
            root = half_solve(factor, products[j])
            squares = products[j] @ coef[:, j]
            if self.bank.dtype != np.float64:
                squares = one.theta_norms(own) ** 2
            value = 0.5 * float(np.sum(own * one.target))
            yield Solved(weights[j], own, value, squares, root @ root.T)
