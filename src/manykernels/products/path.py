"""p = 1 for all C, and the list of terms that an information criterion prefers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq
from scipy.special import gammaln

from manykernels.base.arrays import Array
from manykernels.losses.one_score import ScoreLoss
from manykernels.products.base import Product, RankOneKernels
from manykernels.products.column_generation import ColumnGeneration, smallest_C
from manykernels.products.machine import combined
from manykernels.products.pricing import Pricing
from manykernels.products.problem import ProductExpansion, ProductProblem
from manykernels.products.restricted import backtrack, working_set
from manykernels.solvers.loop import (
    Callback,
    InterruptedFitWarning,
    SolveResult,
)
from manykernels.solvers.problem import Expansion


def log_choices(n_products: int, n_terms: int) -> float:
    """log of the number of ways to choose the terms.

    Examples
    --------
    >>> round(log_choices(176_851, 10))
    106
    """
    k = min(n_terms, n_products)
    return float(
        gammaln(n_products + 1.0) - gammaln(k + 1.0) - gammaln(n_products - k + 1.0)
    )


def extended_bic(
    loss: ScoreLoss,
    scores: Array,
    target: Array,
    freedom: float,
    n_terms: int,
    n_products: int,
) -> float:
    """deviance + freedom log n + 2 log(choices of n_terms among n_products).

    The last part is the price of having searched: the best of 100,000 columns of noise
    explains something, and the criterion expects just that (Chen and Chen, 2008).
    """
    price = freedom * float(np.log(len(target)))
    price += 2.0 * log_choices(n_products, n_terms)
    return loss.deviance(scores, target) + price


RIDGE = 1e-2  # keeps coefficients finite where classes can be separated
TRIED = 20  # products for which a forward step is tried


@dataclass(frozen=True)
class Terms:
    """f(x) = intercept + sum_i w_i z_i(x) over a few products of rank one."""

    products: tuple[Product, ...]
    w: Array
    intercept: float
    criterion: float
    scores: Array  # of the training rows


class Refit:
    """Fits terms of rank one without a penalty, and chooses among them.

    Squared errors: least squares with an intercept where the problem has one. Other
    losses: Newton's method with a slight ridge.
    """

    def __init__(self, problem: ProductProblem, pricing: Pricing) -> None:
        assert isinstance(problem.base, RankOneKernels)
        self.problem, self.base, self.pricing = problem, problem.base, pricing

    @property
    def max_terms(self) -> int:
        """A quarter of the rows: beyond it anything fits."""
        return max(1, self.problem.n_rows // 4)

    def fit(self, products: Sequence[Product]) -> Terms:
        """The terms of these products with their criterion."""
        problem = self.problem
        Z = self.base.features(products)
        if problem.intercept:
            Z = np.column_stack([Z, np.ones(len(Z))])
        squared = problem.loss.is_squared
        w = self._least_squares(Z) if squared else self._newton(Z)
        scores = Z @ w
        intercept = float(w[-1]) if problem.intercept else 0.0
        criterion = extended_bic(
            problem.loss,
            scores,
            problem.target,
            len(products) + int(problem.intercept),
            len(products),
            problem.n_products,
        )
        kept = w[: len(products)]
        return Terms(tuple(products), kept, intercept, criterion, scores)

    def _least_squares(self, Z: Array) -> Array:
        if not Z.size:
            return np.zeros(0)
        weigh = self.problem.loss.weigh
        return np.asarray(lstsq(weigh(Z, 0.5), weigh(self.problem.target, 0.5))[0])

    def _newton(self, Z: Array) -> Array:
        """min over w of sum loss(Z w) + RIDGE / 2 ||w||^2."""
        loss, target = self.problem.loss, self.problem.target
        w = np.zeros(Z.shape[1])

        def total(w: Array) -> float:
            ridge = 0.5 * RIDGE * float(w @ w)
            return float(loss.value(Z @ w, target).sum()) + ridge

        value = total(w)
        for _ in range(50 if Z.shape[1] else 0):
            scores = Z @ w
            curvature = np.maximum(loss.curvature(scores, target), 1e-6)
            H = Z.T @ (Z * curvature[:, None]) + RIDGE * np.eye(Z.shape[1])
            g = Z.T @ loss.gradient(scores, target) + RIDGE * w
            aim = w - np.linalg.solve(H, g)
            moved, found = backtrack(total, w, aim, value)
            if value - found <= 1e-9 * abs(value):
                break
            w, value = moved, found
        return w

    def strongest(self, model: Expansion) -> Terms:
        """The terms of a solution, at most a quarter of the rows."""
        assert isinstance(model, ProductExpansion)
        order = np.argsort(-model.weights, kind="stable")[: self.max_terms]
        return self.fit([model.products[i] for i in order])

    def pruned(self, terms: Terms) -> Terms:
        """Backward elimination: leave out the weakest term while this helps."""
        best = terms
        while terms.products:
            weakest = int(np.argmin(self._losses_without(terms)))
            terms = self.fit([p for i, p in enumerate(terms.products) if i != weakest])
            if terms.criterion <= best.criterion:
                best = terms
            elif terms.criterion > best.criterion + 2.0 * self._entry_price():
                break
        return best

    def extended(self, terms: Terms) -> Terms:
        """Forward steps: add the best of all products while this helps."""
        for _ in range(self.max_terms):
            if len(terms.products) >= self.max_terms:
                break
            better = self._one_more(terms)
            if better is None:
                break
            terms = self.pruned(better)
        return terms

    def _one_more(self, terms: Terms) -> Terms | None:
        coef = -self.problem.loss.gradient(terms.scores, self.problem.target)
        if float(coef @ coef) <= 1e-20 * float(
            self.problem.target @ self.problem.target
        ):
            return None
        prices = self.pricing.search(coef, TRIED)
        tried = [p for p in prices.products if p not in terms.products]
        if not tried:
            return None
        values = np.abs(coef @ self.base.features(tried)) / self._spread(tried)
        best = self.fit([*terms.products, tried[int(np.argmax(values))]])
        return best if best.criterion < terms.criterion else None

    def _losses_without(self, terms: Terms) -> Array:
        """How much a list loses with each of its terms, to second order.

        w_i^2 / (H^-1)_ii with H the Hessian in w: what the others can take over is no
        loss. Exact for squared errors.
        """
        Z = self._centered(terms.products)
        curvature = self.problem.loss.curvature(terms.scores, self.problem.target)
        H = Z.T @ (Z * curvature[:, None])
        variances = np.diag(np.linalg.pinv(H, hermitian=True))
        return np.asarray(np.square(terms.w) / np.maximum(variances, 1e-300))

    def _centered(self, products: Sequence[Product]) -> Array:
        """Features, around their means where there is an intercept."""
        Z = self.base.features(products)
        return Z - self.problem.loss.mean(Z) if self.problem.intercept else Z

    def _spread(self, products: Sequence[Product]) -> Array:
        """Length of every feature, around its mean where there is an intercept."""
        Z = self.problem.loss.weigh(self._centered(products), 0.5)
        return np.asarray(np.maximum(np.linalg.norm(Z, axis=0), 1e-300))

    def _entry_price(self) -> float:
        """What one more term must gain."""
        n, total = self.problem.n_rows, self.problem.n_products
        return float(np.log(n) + 2.0 * np.log(max(total, 2)))


FACTOR = 2.0  # between neighboring C
STEPS = 45
PATIENCE = 2  # steps that bring more terms and no better criterion
PATIENCE_WITH_SHRINKAGE = 8  # where lists are judged as they are, not fitted again
ROUGH = 1e-2  # relative gap that is enough to see which terms there are


class Point(NamedTuple):
    """One C of the path."""

    C: float
    n_terms: int
    criterion: float


@dataclass(frozen=True)
class Chosen:
    """The solution at the chosen C, and its terms fitted again without shrinkage."""

    problem: ProductProblem
    result: SolveResult
    terms: Terms | None  # None where kernels are not of rank one
    path: list[Point]


@dataclass(frozen=True)
class SparsePath:
    """p = 1 at C, 2 C, 4 C, ..., each from the last, until the criterion gets worse.

    For rank-one kernels the criterion is that of the terms themselves, fitted again
    and pruned, so that shrinkage does not count against a short list; the winner may
    still gain terms by forward steps. No list exceeds a quarter of the rows, and the
    empty one takes part.

    Examples
    --------
    >>> from manykernels.products import ProductProblem, RankOneKernels
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
    ) -> Chosen:
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
        self.points: list[Point] = []
        self.best: tuple[float, ProductProblem, SolveResult, Terms | None] | None = None
        self.refit: Refit | None = None
        self.since = 0
        if isinstance(problem.base, RankOneKernels):
            self.refit = Refit(problem, self.pricing)

    def run(self) -> None:
        C = smallest_C(self.problem.base)
        for _ in range(STEPS):
            problem = replace(self.problem, C=C)
            result = self._solve(problem, max(self.solver.tol, ROUGH))
            model = result.model
            assert isinstance(model, ProductExpansion)
            self._consider(problem, result, model)
            terms = len(model.products)
            if result.stopped or self._worsens() or self._full(terms):
                break
            if self._exact():
                break
            C *= FACTOR
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
            return self.since >= PATIENCE_WITH_SHRINKAGE
        return self.since >= PATIENCE and self._n_best() > 0

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
        self.points.append(Point(problem.C, len(model.products), criterion))
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

    def chosen(self) -> Chosen:
        assert self.best is not None
        _, problem, result, terms = self.best
        return Chosen(problem, result, terms, self.points)
