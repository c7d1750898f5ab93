"""Many targets on the same kernels, each with weights of its own, in step."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.solvers.loop import Best, Callback, Iterate, SolveResult
from manykernels.solvers.problem import Problem
from manykernels.solvers.weight_newton import WeightSteps


class Start(NamedTuple):
    """First weights of every target, and second derivatives where they are known."""

    weights: Array  # (targets, blocks)
    curvature: Array | None  # (targets, blocks, blocks)


class TargetsInStep(ABC):
    """All targets in step: a sweep solves each that is not yet certified.

    Parameters
    ----------
    problem : Problem
        With the squared loss and a target of shape (rows, outputs).
    start : Start
    ridge : Ridge
        Tolerance and limit.
    callback : callable or None
        Called with each line of every target's history; True stops them all.
    """

    curvature: Array | None = None  # at the last weights, where it is kept

    def __init__(
        self, problem: Problem, start: Start, ridge: Any, callback: Callback | None
    ) -> None:
        self.ridge = ridge
        self.problem = problem
        self.bank = problem.bank
        self.newton = WeightSteps(problem.norm, start.weights)
        nothing = single(problem, 0).zero()
        self.best = [Best(nothing) for _ in range(problem.n_outputs)]
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

    @abstractmethod
    def _sweep(self, which: Index) -> None:
        """Solve and certify some targets, and move their weights."""

    def _record(self, k: int, iterate: Iterate) -> None:
        line = self.best[k].add(iterate, time.perf_counter() - self.began)
        if self.callback is not None and self.callback(line):
            self.stopped = True

    def results(self) -> list[SolveResult]:
        """What was found for each target."""
        tol, stopped = self.ridge.tol, self.stopped
        return [best.result(tol, stopped and not best.done(tol)) for best in self.best]


def single(problem: Problem, output: int) -> Problem:
    """The problem of one column of the target."""
    return replace(problem, target=problem.target[:, [output]], n_outputs=1)
