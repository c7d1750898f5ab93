"""Mirror descent with products drawn uniformly, whatever their gradients are."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.base import BaseKernels
from manykernels.products.indices import Product
from manykernels.products.mirror_descent import MirrorSearch, RandomizedMirrorDescent
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.product_sampler import Draw, ProductSampler
from manykernels.solvers.loop import Callback, SolveResult, State, run


@dataclass(frozen=True)
class UniformCoordinateDescent:
    """theta_i <- project(theta_i - step * N g_i), i uniform among the N products.

    The same projection and average of the weights as RandomizedMirrorDescent, and an
    unbiased estimate of the same gradient, but with a variance that grows with N. The
    step is 1 / sqrt(sum of the squared estimates so far), which needs no constant and,
    for estimates of equal size, is the schedule of the other.

    Parameters
    ----------
    max_iter, tol, patience, look_every, random_state
        As in RandomizedMirrorDescent.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 3], np.ones(3), C=10)
    >>> result = UniformCoordinateDescent(500, random_state=0).solve(problem)
    >>> result.model.products[int(np.argmax(result.model.weights))]
    (0, 3)
    """

    max_iter: int = 500
    tol: float = 1e-3
    patience: int | None = None
    look_every: int = 50
    random_state: Any = None

    def solve(
        self,
        problem: ProductProblem,
        start: ProductExpansion | None = None,
        callback: Callback | None = None,
    ) -> SolveResult:
        """Return the best averaged weights and their coefficients."""
        settings = RandomizedMirrorDescent(
            max_iter=self.max_iter,
            look_every=self.look_every,
            random_state=self.random_state,
        )
        search = UniformMirrorSearch(settings, problem, start)
        return run(
            search,
            ProductExpansion.zero(problem.n_rows),
            tol=self.tol,
            patience=self.patience,
            callback=callback,
        )


class UniformMirrorSearch(MirrorSearch):
    """Mirror descent with uniform draws, and steps that know their variance."""

    def __init__(
        self,
        settings: RandomizedMirrorDescent,
        problem: ProductProblem,
        start: ProductExpansion | None,
    ) -> None:
        super().__init__(settings, problem, start)
        self.sampler = UniformSampler.over(problem)
        self._squares = 0.0

    def _step(self, first: float, total: float) -> float:
        self._squares += total * total
        return float(1.0 / np.sqrt(self._squares)) if self._squares > 0.0 else 0.0

    def state(self) -> State:
        """That of mirror descent, and what steps are made of."""
        return {**super().state(), "squares": self._squares}

    def restore(self, state: State) -> None:
        """Go on from `state`."""
        super().restore(state)
        self._squares = state["squares"]


@dataclass(frozen=True)
class UniformSampler(ProductSampler):
    """Draws every product of the problem with the same probability."""

    least_degree: int = 0

    @classmethod
    def over(cls, problem: ProductProblem) -> UniformSampler:
        """The sampler for a problem, whose intercept replaces the constant product."""
        rho = np.asarray(problem.rho, dtype=float)
        powers = problem.base.power_sums(problem.degree)
        return cls(problem.base, rho, powers, problem.least_degree)

    def draw(self, coef: Array, rng: np.random.Generator) -> Draw:
        """A product and N times its own derivative -a' K_i a / (2 rho_i^2)."""
        counts = _counts(self.base.n_base, len(self.rho) - 1)
        counts[: self.least_degree] = 0.0
        degree = int(rng.choice(len(counts), p=counts / counts.sum()))
        product = draw_product(self.base.n_base, degree, rng)
        energy = _energy(self.base, coef, product) / float(self.rho[degree]) ** 2
        estimate = 0.5 * float(counts.sum()) * energy
        return Draw(product, -estimate, estimate)


def draw_product(n_base: int, degree: int, rng: np.random.Generator) -> Product:
    """One of the distinct products of `degree` factors, all equally likely.

    Multisets of {0, ..., r - 1} and sets of {0, ..., r + degree - 2} are matched by
    adding 0, 1, 2, ... to the sorted elements.
    """
    if degree == 0:
        return ()
    chosen = rng.choice(n_base + degree - 1, size=degree, replace=False)
    return tuple(int(j) - k for k, j in enumerate(sorted(chosen)))


def _counts(n_base: int, degree: int) -> Array:
    """Distinct products of every degree."""
    return np.array([comb(n_base + d - 1, d) for d in range(degree + 1)], dtype=float)


def _energy(base: BaseKernels, coef: Array, product: Product) -> float:
    """a' K_i a of one product."""
    value = base.weigh(coef)
    for j in product:
        value = value * base.columns[:, j]
    return float(base.energies(np.array([value.sum()]))[0])
