"""One ridge problem per target on the same kernels, each with its own weights."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import cho_solve

from manykernels.base.arrays import Array, Index
from manykernels.solvers.loop import Best, Callback, Iterate, SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.ridge import (
    Ridge,
    Solved,
    announce,
    certified_iterate,
    factorize,
    few_threads,
    half_solve,
    require_direct,
    sample_of,
)
from manykernels.solvers.weight_newton import WeightSteps

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
    return _solve_targets(problem, ridge, starts, callback)


def _solve_targets(
    problem: Problem,
    ridge: Ridge,
    starts: Sequence[Expansion | None] | None,
    callback: Callback | None,
) -> list[SolveResult]:
    weights = _first_weights(problem, ridge, starts)
    targets = _Targets(problem, weights, ridge, callback)
    with few_threads(problem.n_rows):
        targets.run()
    return targets.results()


def single(problem: Problem, output: int) -> Problem:
    """The problem of one column of the target."""
    return replace(problem, target=problem.target[:, [output]], n_outputs=1)


def _first_weights(
    problem: Problem, ridge: Ridge, starts: Sequence[Expansion | None] | None
) -> Array:
    """From earlier solutions, or from a sample of the rows, or all alike."""
    norm, n_blocks = problem.norm, problem.bank.n_blocks
    if starts is not None:
        found = [None if start is None else start.weights for start in starts]
    else:
        sample = sample_of(problem, ridge)
        if sample is None:
            found = [None] * problem.n_outputs
        else:
            rough = replace(ridge, tol=max(ridge.tol, sample.tol))
            models = _solve_targets(sample.problem, rough, None, None)
            found = [result.model.weights for result in models]
    even = norm.uniform_weights(n_blocks)
    return np.stack([even if w is None else norm.normalize_weights(w) for w in found])


class _Targets:
    """All targets in step: one Cholesky factor each a sweep, until each is solved."""

    def __init__(
        self,
        problem: Problem,
        weights: Array,
        ridge: Ridge,
        callback: Callback | None,
    ) -> None:
        self.ridge = ridge
        self.problems = [single(problem, k) for k in range(problem.n_outputs)]
        self.bank = problem.bank
        self.newton = WeightSteps(problem.norm, weights)
        self.best = [Best(one.zero()) for one in self.problems]
        self.callback = callback
        self.stopped = False
        self.began = time.perf_counter()

    def run(self) -> None:
        """Sweep over the targets whose gap is too wide."""
        for _ in range(self.ridge.max_iter):
            wide = [
                k for k, best in enumerate(self.best) if not best.done(self.ridge.tol)
            ]
            if not wide or self.stopped:
                break
            self._sweep(np.array(wide))

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
            yield Solved(weights[j], own, value, squares, root @ root.T, factor)

    def _record(self, k: int, iterate: Iterate) -> None:
        line = self.best[k].add(iterate, time.perf_counter() - self.began)
        if self.callback is not None and self.callback(line):
            self.stopped = True

    def results(self) -> list[SolveResult]:
        """What was found for each target."""
        tol, stopped = self.ridge.tol, self.stopped
        return [best.result(tol, stopped and not best.done(tol)) for best in self.best]
