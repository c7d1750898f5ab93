"""lp-norm MKL on the explicit list of all products (Kloft et al., 2011)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.machine import require_memory
from manykernels.base.stored import storable
from manykernels.norms.group import LpGroupNorm, p_norm
from manykernels.products.base import BaseKernels, RankOneKernels
from manykernels.products.indices import Product, all_products
from manykernels.products.inner_problem import InnerSolver
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.solvers.loop import Callback, Iterate, Resumable, SolveResult, run


@storable
@dataclass(frozen=True)
class ExplicitLpNorm:
    r"""Alternate kernel machine and :math:`\theta_i \propto (\rho_i\|w_i\|)^{2-p}`.

    All products are listed: 8 bytes per row and product where kernels have rank one,
    per *pair* of rows otherwise, and as much work in every round. The answer is that of
    RandomizedMirrorDescent (their p = 2 is p = 4/3 here), with a certificate.

    Parameters
    ----------
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Rounds.
    memory_limit : int or str, optional
        Bytes for the list, or text such as "8GB"; a longer list is refused.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 3], np.ones(3), C=10)
    >>> result = ExplicitLpNorm().solve(problem)
    >>> result.converged, len(result.model.products)
    (True, 20)
    """

    certified: ClassVar[bool] = True  # a gap above tol is worth a warning
    takes_weights: ClassVar[bool] = True  # of rows

    tol: float = 1e-3
    max_iter: int = 200
    memory_limit: int | str | None = None

    def solve(
        self,
        problem: ProductProblem,
        start: ProductExpansion | None = None,
        callback: Callback | None = None,
    ) -> SolveResult:
        """The optimum over all products, from equal weights or those of `start`."""
        self._require_memory(problem)
        search = LpNormSearch(self, problem, start)
        zero = ProductExpansion.zero(problem.n_rows)
        return run(search, zero, tol=self.tol, callback=callback)

    def _require_memory(self, problem: ProductProblem) -> None:
        n, count = problem.n_rows, problem.n_products
        rank_one = isinstance(problem.base, RankOneKernels)
        entries = 2 * n * count if rank_one else n * n * count
        what = f"The list of {count:,} products of {problem.base.n_base} base kernels"
        require_memory(8 * entries, self.memory_limit, what)


class LpNormSearch(Resumable):
    """The weights of one run."""

    remembered = ("theta",)

    def __init__(
        self,
        settings: ExplicitLpNorm,
        problem: ProductProblem,
        start: ProductExpansion | None,
    ) -> None:
        self.settings, self.problem = settings, problem
        base = problem.base
        every = all_products(base.n_base, problem.degree, base.limits)
        self.products = tuple(i for i in every if len(i) >= problem.least_degree)
        self.rho = np.array([problem.rho[len(i)] for i in self.products], dtype=float)
        self.listed = ListedProducts(base, self.products)
        even = np.full(len(self.rho), len(self.rho) ** (-1.0 / problem.nu))
        self.theta = even if start is None else start.weights

    def iterates(self) -> Iterator[Iterate]:
        problem = self.problem
        inner = InnerSolver.of(problem)
        for _ in range(self.settings.max_iter):
            solution = inner.solve(self.listed.combined(self.theta / self.rho**2))
            roots = np.sqrt(self.listed.energies(solution.coef)) / self.rho
            norms = self.theta * roots  # rho_i ||w_i||
            yield Iterate(
                objective=problem.primal_value(
                    p_norm(norms, problem.p), solution.scores
                ),
                dual_bound=problem.dual_bound(
                    solution.coef, p_norm(roots, LpGroupNorm(problem.p).q)
                ),
                updates=len(self.rho),
                snapshot=partial(solution.expansion, self.theta, self.products),
            )
            powers = norms ** (2.0 - problem.p)
            size = p_norm(powers, problem.nu)
            if size == 0.0:
                return
            self.theta = powers / size


class ListedProducts:
    """All products, as features where kernels have rank one and as matrices else."""

    def __init__(self, base: BaseKernels, products: tuple[Product, ...]) -> None:
        self.n_rows = base.n_rows
        self.features: Array | None = None
        if isinstance(base, RankOneKernels):
            self.features = base.features(products)
        else:
            self.rows = np.stack([base.matrix(i).ravel() for i in products])

    def combined(self, scales: Array) -> Array:
        """sum_i scales_i K_i."""
        if self.features is None:
            return np.asarray((scales @ self.rows).reshape(self.n_rows, -1))
        scaled = self.features * np.sqrt(scales)
        return np.asarray(scaled @ scaled.T)

    def energies(self, coef: Array) -> Array:
        """a' K_i a for every product."""
        if self.features is None:
            return np.maximum(self.rows @ np.outer(coef, coef).ravel(), 0.0)
        return np.square(coef @ self.features)
