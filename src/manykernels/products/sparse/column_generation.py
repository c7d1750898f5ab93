"""p = 1: few products, found by pricing all of them, with a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import storable
from manykernels.inputs.parameters import SEARCH, check_parameters
from manykernels.products.base import BaseKernels, RankOneKernels
from manykernels.products.indices import Product
from manykernels.products.pricing import AFFORDABLE, Pricing
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.product_working_sets import (
    ProductWorkingSet,
    Restricted,
    working_set,
)
from manykernels.solvers.loop import Callback, Iterate, SolveResult, State, run

# Relative gap that searches in single precision can certify: their rounding adds less.
FLOAT32_SEARCH_TOL = 1e-3
# On the way to a large C, which grows by this factor, an optimum is good enough for the
# next C when no product violates its condition by more than this share.
C_GROWTH = 10.0**0.5
PATH_VIOLATION_SHARE = 0.2


@storable
@dataclass(frozen=True)
class ColumnGeneration:
    r"""Add the products that violate :math:`a^\top K_i a / \rho_i^2 \le \|w\|^2`.

    Every round re-optimizes the weights of all products found so far and then searches
    all others. From an empty list, smaller values of C come first: products enter in
    the order of their importance, so that few leave again. The largest
    a' K_i a / rho_i^2 also gives the dual value: while the search is exhaustive, the
    duality gap is that of all products, not only of those in use.

    Parameters
    ----------
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Rounds.
    top : int
        Products added in a round at most.
    affordable : float
        Multiply-adds of an exhaustive search. Where it needs more, it becomes a branch
        and bound search of that length.
    memory_limit : int or str, optional
        Bytes for blocks of products.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> from manykernels.products.product_problem import ProductProblem
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(60, 10))
    >>> y = 2 * X[:, 0] * X[:, 3] - X[:, 7]
    >>> problem = ProductProblem(RankOneKernels(X), y, np.ones(4), C=1, p=1)
    >>> result = ColumnGeneration().solve(problem)
    >>> result.converged, sorted(result.model.products)
    (True, [(0, 3), (7,)])
    """

    certified: ClassVar[bool] = True  # a gap above tol is worth a warning
    takes_weights: ClassVar[bool] = True  # of rows

    tol: float = 1e-3
    max_iter: int = 200
    top: int = 50
    affordable: float = AFFORDABLE
    memory_limit: int | str | None = None

    def __post_init__(self) -> None:
        check_parameters(self, SEARCH)

    def pricing(self, problem: ProductProblem) -> Pricing:
        """Return the pricing oracle over all products of a problem."""
        return Pricing(
            problem.base,
            np.asarray(problem.rho, dtype=float),
            problem.least_degree,
            self.affordable,
            self.memory_limit,
            single=self.tol >= FLOAT32_SEARCH_TOL,
        )

    def solve(
        self,
        problem: ProductProblem,
        start: ProductWorkingSet | None = None,
        callback: Callback | None = None,
        pricing: Pricing | None = None,
    ) -> SolveResult:
        """The optimum for p = 1; `start` and `pricing` may come from another C."""
        if problem.p != 1.0:
            raise ValueError(
                f"ColumnGeneration needs p = 1, got p = {problem.p:g}; use "
                "RandomizedMirrorDescent for other p."
            )
        if getattr(problem.base, "prior", None) is not None:
            raise ValueError(
                "ColumnGeneration needs weights by degree alone, got a prior; use "
                "RandomizedMirrorDescent or ExplicitLpNorm with p > 1."
            )
        with one_blas_thread():
            search = ColumnSearch(
                self,
                problem,
                start or working_set(problem),
                pricing or self.pricing(problem),
            )
            zero = ProductExpansion.zero(problem.n_rows)
            return run(search, zero, tol=self.tol, callback=callback)


class ColumnSearch:
    """State of a run: the working set, and a C that grows up to the problem's."""

    def __init__(
        self,
        settings: ColumnGeneration,
        problem: ProductProblem,
        known: ProductWorkingSet,
        pricing: Pricing,
    ) -> None:
        self.settings, self.problem, self.known = settings, problem, known
        self.pricing = pricing
        self.C = problem.C if known.products else self._first_C()

    def _first_C(self) -> float:
        """Return a C at which one or two terms suffice."""
        base = self.problem.base
        if not isinstance(base, RankOneKernels):
            return self.problem.C
        return min(smallest_C(base), self.problem.C)

    def iterates(self) -> Iterator[Iterate]:
        """Solve on the working set, then price all products, round after round."""
        problem = self.problem
        for _ in range(self.settings.max_iter):
            solution = self.known.solve(self.C)
            known = set(self.known.products)
            used = int(np.count_nonzero(solution.theta))
            prices = self.pricing.search(
                solution.coef, self.settings.top + used if known else self.settings.top
            )
            yield Iterate(
                objective=problem.primal_value(solution.norm, solution.scores),
                dual_bound=problem.dual_bound(
                    solution.coef, float(np.sqrt(prices.largest))
                ),
                updates=used,
                snapshot=partial(_snapshot, solution, tuple(self.known.products)),
            )
            allowed = solution.norm**2 * (1.0 + 1e-9)
            new = [
                product
                for product, energy in zip(
                    prices.products, prices.energies, strict=True
                )
                if energy > allowed and product not in known
            ]
            added = self.known.add(new[: self.settings.top])
            if not added and self.C == problem.C:
                return
            if not added or prices.largest <= (1.0 + PATH_VIOLATION_SHARE) * allowed:
                self.C = min(C_GROWTH * self.C, problem.C)

    def state(self) -> State:
        return {
            "C": self.C,
            "products": [list(product) for product in self.known.products],
        }

    def restore(self, state: State) -> None:
        self.C = state["C"]
        known = set(self.known.products)
        found = [tuple(product) for product in state["products"]]
        self.known.add([product for product in found if product not in known])


def smallest_C(base: BaseKernels) -> float:
    """A C at which one or two terms explain about a tenth of what they could."""
    return 0.1 / max(base.largest_trace(), 1e-12)


def _snapshot(solution: Restricted, products: tuple[Product, ...]) -> ProductExpansion:
    used = np.flatnonzero(solution.theta)
    return ProductExpansion(
        solution.coef[:, None],
        solution.theta[used],
        tuple(products[i] for i in used),
        solution.intercept,
    )
