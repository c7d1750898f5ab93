"""p = 1 for all C, and the list of terms that an information criterion prefers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from manykernels.products.base import RankOneKernels
from manykernels.products.inner_problem import combined
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.column_generation import ColumnGeneration, smallest_C
from manykernels.products.sparse.product_working_sets import working_set
from manykernels.products.sparse.refit import Refit, Terms, extended_bic
from manykernels.solvers.loop import (
    Callback,
    InterruptedFitWarning,
    SolveResult,
)

# Relative gap at which the active terms of a path no longer change: fits that are only
# compared stop there.
PATH_TOL = 1e-2
# The path ends after so many values of C with more terms and no better criterion, or
# more where terms are not refitted, because shrinkage hides what they explain.
PATH_PATIENCE = 2
SHRUNKEN_PATH_PATIENCE = 8


class SparsePathPoint(NamedTuple):
    """One C of the path."""

    C: float
    n_terms: int
    criterion: float


@dataclass(frozen=True)
class ChosenPoint:
    """The solution at the chosen C, and its terms fitted again without shrinkage."""

    problem: ProductProblem
    result: SolveResult
    terms: Terms | None  # None where kernels are not of rank one
    path: list[SparsePathPoint]


@dataclass(frozen=True)
class SparsePath:
    """p = 1 at C, 2 C, 4 C, ..., each from the last, until the criterion gets worse.

    For rank-one kernels the criterion is that of the terms themselves, fitted again
    and pruned, so that shrinkage does not count against a short list; the winner may
    still gain terms by forward steps. No list exceeds a quarter of the rows, and the
    empty one takes part.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> from manykernels.products.product_problem import ProductProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 10))
    >>> y = 2 * X[:, 0] * X[:, 3] - X[:, 7] + 0.1 * rng.normal(size=80)
    >>> chosen = SparsePath(ColumnGeneration()).solve(
    ...     ProductProblem(RankOneKernels(X), y, np.ones(4), p=1))
    >>> sorted(chosen.terms.products)
    [(0, 3), (7,)]
    """

    solver: ColumnGeneration

    def solve(
        self, problem: ProductProblem, callback: Callback | None = None
    ) -> ChosenPoint:
        """The best point of the path; Ctrl-C and the callback end it early."""
        walk = PathWalk(self.solver, problem, callback)
        try:
            walk.run()
        except KeyboardInterrupt:
            if walk.best is None:
                raise
            warnings.warn(
                f"The fit was interrupted after {len(walk.points)} values of C; the "
                "best of them was kept.",
                InterruptedFitWarning,
                stacklevel=2,
            )
        return walk.chosen()


class PathWalk:
    """The best point so far of a walk along C, and when to end it."""

    def __init__(
        self,
        solver: ColumnGeneration,
        problem: ProductProblem,
        callback: Callback | None,
    ) -> None:
        self.solver, self.problem, self.callback = solver, problem, callback
        self.known = working_set(problem)
        self.pricing = solver.pricing(problem)
        self.points: list[SparsePathPoint] = []
        self.best: tuple[float, ProductProblem, SolveResult, Terms | None] | None = None
        self.refit: Refit | None = None
        self.since = 0
        if isinstance(problem.base, RankOneKernels):
            self.refit = Refit(problem, self.pricing)

    def run(self) -> None:
        C = smallest_C(self.problem.base)
        for _ in range(45):  # ends far beyond any C that rounding allows
            problem = replace(self.problem, C=C)
            result = self._solve(problem, max(self.solver.tol, PATH_TOL))
            model = result.model
            assert isinstance(model, ProductExpansion)
            self._consider(problem, result, model)
            terms = len(model.products)
            if result.stopped or self._worsens() or self._full(terms):
                break
            if self._exact():
                break
            C *= 2.0
        self._finish()

    def _solve(self, problem: ProductProblem, tol: float) -> SolveResult:
        solver = replace(self.solver, tol=tol)
        return solver.solve(problem, self.known, self.callback, self.pricing)

    def _finish(self) -> None:
        """Forward steps from the best list, and its C solved to the tolerance."""
        assert self.best is not None
        criterion, problem, result, found = self.best
        if found is not None and self.refit is not None:
            found = self.refit.extended(found)
            criterion = found.criterion
        self.best = (criterion, problem, result, found)
        if not result.stopped and result.relative_gap > self.solver.tol:
            result = self._solve(problem, self.solver.tol)
            self.best = (criterion, problem, result, found)

    def _n_best(self) -> int:
        terms = None if self.best is None else self.best[3]
        return 0 if terms is None else len(terms.products)

    def _worsens(self) -> bool:
        """Whether terms were found, and more of them do not pay."""
        if self.refit is None:
            return self.since >= SHRUNKEN_PATH_PATIENCE
        return self.since >= PATH_PATIENCE and self._n_best() > 0

    def _full(self, n_terms: int) -> bool:
        return n_terms > max(1, self.problem.n_rows // 4)

    def _exact(self) -> bool:
        """Whether nothing is left to explain."""
        terms = None if self.best is None else self.best[3]
        if terms is None:
            return False
        left = float(self.problem.loss.value(terms.scores, self.problem.target).sum())
        null = float(
            self.problem.loss.value(0.0 * terms.scores, self.problem.target).sum()
        )
        return left <= 1e-18 * null

    def _consider(
        self, problem: ProductProblem, result: SolveResult, model: ProductExpansion
    ) -> None:
        """Keep this point if its criterion is the best so far."""
        found = None
        if self.refit is None:
            criterion = self._dense_criterion(problem, model)
        else:
            if self.best is None:
                self._null(problem, result)
            found = self.refit.pruned(self.refit.strongest(model))
            criterion = found.criterion
        self.points.append(SparsePathPoint(problem.C, len(model.products), criterion))
        if self.best is None or criterion < self.best[0]:
            self.best = (criterion, problem, result, found)
            self.since = 0
        elif found is None or len(model.products) > self._n_best():
            self.since += 1

    def _null(self, problem: ProductProblem, result: SolveResult) -> None:
        """No term at all, at the smallest C."""
        assert self.refit is not None
        terms = self.refit.fit([])
        self.best = (terms.criterion, problem, result, terms)

    def _dense_criterion(
        self, problem: ProductProblem, model: ProductExpansion
    ) -> float:
        """With the trace of the smoother as the number of parameters."""
        products = list(model.products)
        K = combined(problem.base, problem.rho, products, model.weights)
        scores = K @ model.coef[:, 0] + model.intercept
        curvature = problem.C * problem.loss.curvature(scores, problem.target)
        root = np.sqrt(curvature)
        B = root[:, None] * K * root
        values = np.maximum(np.linalg.eigvalsh(B), 0.0)
        freedom = float((values / (1.0 + values)).sum()) + int(problem.intercept)
        return extended_bic(
            problem.loss,
            scores,
            problem.target,
            freedom,
            len(products),
            problem.n_products,
        )

    def chosen(self) -> ChosenPoint:
        assert self.best is not None
        _, problem, result, terms = self.best
        return ChosenPoint(problem, result, terms, self.points)
