"""Ridge problems of several targets on the same kernels, each with its own weights."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.solvers.loop import Best, Callback, Iterate, SolveResult
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ridge import Ridge, certified_iterate
from manykernels.solvers.regression.ridge_system import (
    WORK_BYTES,
    RidgeSolution,
    RidgeSystem,
)
from manykernels.solvers.weight_newton import WeightSteps


class TargetsInStep(ABC):
    """All targets in step: a sweep solves each that is not yet certified.

    Parameters
    ----------
    problem : Problem
        With the squared loss and a target of shape (rows, outputs).
    weights : array of shape (targets, blocks)
        To start from.
    curvature : array of shape (targets, blocks, blocks) or None
        Second derivatives near these weights, where they are known.
    ridge : Ridge
        Tolerance and limit.
    callback : callable or None
        Called with each line of every target's history; True stops them all.
    """

    def __init__(
        self,
        problem: Problem,
        weights: Array,
        curvature: Array | None,
        ridge: Ridge,
        callback: Callback | None,
    ) -> None:
        self.ridge = ridge
        self.problem = problem
        self.curvature = curvature
        self.newton = WeightSteps(problem.norm, weights)
        zero = one_target(problem, 0).zero()
        self.best = [Best(zero) for _ in range(problem.n_outputs)]
        self.callback = callback
        self.stopped = False
        self.began = time.perf_counter()

    def run(self) -> None:
        """Sweep over the targets whose gap is too wide."""
        for _ in range(self.ridge.max_iter):
            done = [best.done(self.ridge.tol) for best in self.best]
            if all(done) or self.stopped:
                break
            self._sweep(np.flatnonzero(np.logical_not(done)))

    @abstractmethod
    def _sweep(self, which: Index) -> None:
        """Solve and certify some targets, and move their weights."""

    def _record(self, k: int, iterate: Iterate) -> None:
        line = self.best[k].add(iterate, time.perf_counter() - self.began)
        if self.callback is not None and self.callback(line):
            self.stopped = True

    def results(self) -> list[SolveResult]:
        """The best solution of each target."""
        tol, stopped = self.ridge.tol, self.stopped
        return [best.result(tol, stopped and not best.done(tol)) for best in self.best]


class FactoredTargets(TargetsInStep):
    """A Cholesky factor for every target, in the processor's memory."""

    def _sweep(self, which: Index) -> None:
        size = max(1, WORK_BYTES // (8 * self.problem.n_rows**2))
        solutions: list[RidgeSolution] = []
        for start in range(0, len(which), size):
            chunk = which[start : start + size]
            for k, solution in zip(chunk, self._solve(chunk), strict=True):
                target = one_target(self.problem, k)
                self._record(k, certified_iterate(target, solution))
                solutions.append(solution)
            if self.stopped:
                return
        values = np.array([solution.value for solution in solutions])
        squares = np.stack([solution.squares for solution in solutions])
        curvature = np.stack([solution.curvature for solution in solutions])
        self.newton.advance(which, values, values, squares, curvature)

    def _solve(self, which: Index) -> Iterator[RidgeSolution]:
        """Solutions of some targets; one pass over the kernels serves all of them."""
        systems = [
            RidgeSystem(one_target(self.problem, k), self.newton.trial[k])
            for k in which
        ]
        coefs = [system.solve(system.problem.target) for system in systems]
        bank = self.problem.bank
        products = np.asarray(bank.block_scores(np.hstack(coefs)), dtype=np.float64)
        for system, coef, product in zip(systems, coefs, products, strict=True):
            squares = product @ coef[:, 0]
            if bank.dtype != np.float64:
                squares = system.problem.theta_norms(coef) ** 2
            value = 0.5 * float(np.sum(coef * system.problem.target))
            curvature = system.curvature(product[None])
            weights = system.weights.copy()
            yield RidgeSolution(weights, coef, value, squares, curvature)


def one_target(problem: Problem, output: int) -> Problem:
    """The problem of one column of the target."""
    return replace(problem, target=problem.target[:, [output]], n_outputs=1)
