"""The kernel (1 + sum_j K_j)^D: nothing is learnt about the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from manykernels.compare.products.power import PowerExpansion, weighted_sum
from manykernels.products.inner import InnerSolver
from manykernels.products.problem import ProductProblem
from manykernels.solvers.loop import Callback, Iterate, SolveResult, run
from manykernels.solvers.state import Remembers


@dataclass(frozen=True)
class UniformPower:
    """f = (1 + sum_j K_j)^D coef: every product counts as often as it can be written.

    D is the problem's degree; its rho and p are not read. With D = 1 this is the plain
    sum of the base kernels.

    Examples
    --------
    >>> from manykernels.products import RankOneKernels
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] ** 2, np.ones(3), C=100)
    >>> result = UniformPower().solve(problem)
    >>> result.converged, result.objective < 0.01
    (True, True)
    """

    def solve(
        self, problem: ProductProblem, callback: Callback | None = None
    ) -> SolveResult:
        """One kernel machine."""
        weights = np.ones(problem.base.n_base + 1)
        zero = PowerExpansion(np.zeros((problem.n_rows, 1)), weights, problem.degree)
        return run(_Once(problem, weights), zero, tol=1e-9, callback=callback)


class _Once(Remembers):
    def __init__(self, problem: ProductProblem, weights: np.ndarray) -> None:
        self.problem, self.weights = problem, weights

    def iterates(self) -> Iterator[Iterate]:
        problem = self.problem
        K = weighted_sum(problem.base, self.weights) ** problem.degree
        inner = InnerSolver(problem.target, problem.C, problem.loss, problem.intercept)
        solution = inner.solve(K)
        value = solution.value / problem.scale
        yield Iterate(
            objective=value,
            dual_bound=value,  # of a single kernel, solved exactly
            updates=1,
            snapshot=partial(
                PowerExpansion,
                solution.coef[:, None],
                self.weights,
                problem.degree,
                solution.intercept,
            ),
        )
