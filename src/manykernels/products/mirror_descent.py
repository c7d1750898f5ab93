"""Randomized mirror descent over all products of base kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import storable
from manykernels.products.base import BaseKernels, Product, RankOneKernels, multiplicity
from manykernels.products.machine import (
    ActiveFeatures,
    ActiveProducts,
    Inner,
    InnerSolver,
)
from manykernels.products.potentials import Euclidean, Potential
from manykernels.products.pricing import Pricing
from manykernels.products.problem import ProductExpansion, ProductProblem
from manykernels.solvers.loop import Callback, Iterate, SolveResult, State, run


class Draw(NamedTuple):
    """A drawn product and the estimate of the gradient that it stands for."""

    product: Product
    gradient: float  # g_i / s_i, the only coordinate that is not zero
    total: float  # sum of |g_i| over ordered products, a bound on the estimate


@dataclass(frozen=True)
class ProductSampler:
    r"""Draws i with :math:`s_i \propto m_i\, a^\top K_i a / \rho_i^2`.

    i runs over the products of at most `degree` base kernels, and m_i counts the
    orders in which i can be written: the degree is drawn first and the factors one by
    one, from powers of the sum of the base kernels, without listing the products.

    Parameters
    ----------
    base : BaseKernels
    rho : array of shape (degree + 1,)
        Prior weight of every degree; a larger one makes its products rarer.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> base = RankOneKernels(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> sampler = ProductSampler.of(base, np.ones(2))
    >>> sampler.total(np.array([1.0, 0.0]))  # 1 for the constant, 1 for column 0
    2.0
    """

    base: BaseKernels
    rho: Array
    powers: list[Array]

    @classmethod
    def of(cls, base: BaseKernels, rho: Array) -> ProductSampler:
        """Prepare the powers of the summed kernel, once for all draws."""
        return cls(base, rho, base.power_sums(max(len(rho) - 1, 0)))

    def degree_masses(self, coef: Array) -> Array:
        """a' S^d a / rho_d^2 for every degree d, over ordered products."""
        masses = [coef @ (power @ coef) for power in self.powers]
        return np.maximum(masses, 0.0) / np.square(self.rho)

    def total(self, coef: Array) -> float:
        """The sum of a' K_i a / rho_i^2 over all ordered products."""
        return float(self.degree_masses(coef).sum())

    def draw(self, coef: Array, rng: np.random.Generator) -> Draw | None:
        """One product and its unbiased estimate; None where the gradient is zero.

        With s_i as above and g_i = -a' K_i a / (2 rho_i^2) the estimate g_i / s_i is
        minus half the total, divided by the number of orders.
        """
        masses = self.degree_masses(coef)
        total = float(masses.sum())
        if not total > 0.0:
            return None
        degree = _pick(masses, rng)
        chosen: Product = ()
        for left in range(degree, 0, -1):
            options = self.base.factor_masses(coef, chosen, self.powers[:left])
            chosen += (_pick(options, rng),)
        product = tuple(sorted(chosen))
        return Draw(product, -0.5 * total / multiplicity(product), 0.5 * total)


def _pick(masses: Array, rng: np.random.Generator) -> int:
    """A position with probability proportional to its mass."""
    cumulative = np.cumsum(np.maximum(masses, 0.0))
    place = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return int(min(place, len(masses) - 1))


CERTIFY_WORK = 2e9  # multiply-adds that a certificate may take


@storable
@dataclass(frozen=True)
class RandomizedMirrorDescent:
    r"""theta <- project(theta - step * gradient estimate), theta the kernel weights.

    Every iteration draws one of all the products with probability proportional to its
    gradient (Algorithm 3) and moves its weight alone; the result is the average of the
    weights. With the Euclidean potential and p = 4/3 this is Algorithm 2.

    Parameters
    ----------
    max_iter : int
        Draws.
    tol : float
        Relative duality gap at which to stop.
    step : {"adaptive", "theory"} or float
        "theory" is Corollary 3.3, 1 / sqrt(B T), which presumes the largest gradient
        everywhere. "adaptive" divides the gradient by the sum of all its entries,
        and then by sqrt(k) at draw k; a number is a step of number / sqrt(k).
    potential : Potential
        The Euclidean one, or ShiftedEntropy for p = 1.
    patience : int, optional
        Stop when that many looks in a row brought no improvement of 1e-4.
    look_every : int
        Draws between two looks at the objective of the averaged weights.
    random_state : int or Generator

    Examples
    --------
    >>> from manykernels.products import ProductProblem, RankOneKernels
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 3], np.ones(3), C=10)
    >>> result = RandomizedMirrorDescent(100, random_state=0).solve(problem)
    >>> result.model.products[int(np.argmax(result.model.weights))]
    (0, 3)
    """

    max_iter: int = 500
    tol: float = 1e-3
    step: Literal["adaptive", "theory"] | float = "adaptive"
    potential: Potential = field(default_factory=Euclidean)
    patience: int | None = 5
    look_every: int = 50
    random_state: Any = None

    def solve(
        self,
        problem: ProductProblem,
        start: ProductExpansion | None = None,
        callback: Callback | None = None,
    ) -> SolveResult:
        """Return the best averaged weights and their coefficients."""
        with one_blas_thread():
            search = MirrorSearch(self, problem, start)
            return run(
                search,
                ProductExpansion.zero(problem.n_rows),
                tol=self.tol,
                patience=self.patience,
                callback=callback,
            )


class MirrorSearch:
    """The state of one run."""

    def __init__(
        self,
        settings: RandomizedMirrorDescent,
        problem: ProductProblem,
        start: ProductExpansion | None = None,
    ) -> None:
        self.settings, self.problem = settings, problem
        self.rng = np.random.default_rng(settings.random_state)
        rho = np.array(problem.rho, dtype=float)
        self.sampler = ProductSampler.of(problem.base, rho)
        self.average = AveragedWeights()
        self.inner = InnerSolver.of(problem)
        self.averaged = replace(self.inner)  # its own factor: another kernel
        self.active = self._first_active(rho)
        self.pricing = Pricing(
            problem.base, rho, problem.least_degree, affordable=CERTIFY_WORK
        )
        self.done = 0
        self.scale: float | None = None
        if start is not None:
            self.active.set(start.weights, list(start.products))

    def _first_active(self, rho: Array) -> ActiveProducts:
        base = self.problem.base
        if self.problem.loss.is_squared and isinstance(base, RankOneKernels):
            return ActiveFeatures(base, rho, self.inner)
        return ActiveProducts(base, rho)

    def iterates(self) -> Iterator[Iterate]:
        """A look at the averaged weights after every `look_every` draws."""
        solution = self.active.solve(self.inner)
        if self.scale is None:
            self.scale = self._first_scale(solution)
        while self.done < self.settings.max_iter:
            end = min(self.done + self.settings.look_every, self.settings.max_iter)
            while self.done < end:
                solution = self._advance(solution, self.scale)
            yield self._look()

    def _advance(self, solution: Inner, first: float) -> Inner:
        """One iteration of Algorithm 1."""
        self.done += 1
        drawn = self.sampler.draw(solution.coef, self.rng)
        if drawn is None:
            return solution
        place = self.active.place(drawn.product)
        step = self._step(first, drawn.total)
        potential, nu = self.settings.potential, self.problem.nu
        dual = potential.mirror(self.active.theta).copy()
        dual[place] -= step * drawn.gradient
        theta = potential.project(potential.inverse(dual), nu)
        if isinstance(potential, Euclidean) and nu == 2.0:
            self.active.move(theta, place)
        else:
            self.active.set(theta, self.active.products)
        self.average.add(theta, float(self.done))
        self._change_to_rows()
        return self.active.solve(self.inner)

    def _change_to_rows(self) -> None:
        """With more products than rows, a matrix over the rows is the smaller one."""
        active = self.active
        if isinstance(active, ActiveFeatures) and len(active.products) > (
            self.problem.n_rows
        ):
            self.active = ActiveProducts(active.base, active.rho)
            self.active.set(active.theta, active.products)

    def _first_scale(self, solution: Inner) -> float:
        """Half the total of the gradients at the start, the largest there is."""
        return 0.5 * self.sampler.total(solution.coef)

    def _step(self, first: float, total: float) -> float:
        rule = self.settings.step
        if rule == "theory":
            # B = C^2 / 2, and 1 / sqrt(B T) becomes sqrt(delta / alpha) times it.
            depth = 2.0 * self.settings.potential.depth()
            return float(np.sqrt(2.0 * depth / self.settings.max_iter) / first)
        if rule == "adaptive":
            return 1.0 / (total * float(np.sqrt(self.done)))
        return float(rule) / float(np.sqrt(self.done))

    def _look(self) -> Iterate:
        """Objective and dual bound of the averaged weights."""
        theta = self.average.value(len(self.active.products))
        products = tuple(self.active.products)
        problem = self.problem
        solution = self.active.solve_at(theta, self.averaged)
        return Iterate(
            objective=solution.value / problem.scale,
            dual_bound=problem.dual_bound(solution.coef, self.dual_norm(solution.coef)),
            updates=self.done,
            snapshot=partial(solution.expansion, theta, products),
        )

    def dual_norm(self, coef: Array) -> float:
        """||(sqrt(a' K_i a) / rho_i)_i||_q over all products, or a bound on it.

        q is at least 2, so that the root of the sum of all a' K_i a / rho_i^2 is above
        it; where there are too many products to look at, that sum has a closed form.
        """
        half = np.inf if self.problem.p == 1.0 else 0.5 / (1.0 - 1.0 / self.problem.p)
        total = self.sampler.total(coef)
        if self.pricing.work > CERTIFY_WORK:
            return float(np.sqrt(total))
        power = None if np.isinf(half) else half
        prices = self.pricing.search(coef, 1, power)
        if prices.power_sum is None:
            return float(np.sqrt(prices.largest))
        return float(prices.power_sum ** (0.5 / half))

    def state(self) -> State:
        """All that the next round depends on."""
        return {
            "products": [list(product) for product in self.active.products],
            "theta": self.active.theta.copy(),
            "average": self.average.sums.copy(),
            "weight": self.average.weight,
            "done": self.done,
            "scale": self.scale,
            "draws": self.rng.bit_generator.state,
        }

    def restore(self, state: State) -> None:
        """Go on from `state`, with the draws that would have followed."""
        products = [tuple(product) for product in state["products"]]
        self.active.set(state["theta"], products)
        self.average.sums = state["average"].copy()
        self.average.weight = state["weight"]
        self.done, self.scale = state["done"], state["scale"]
        self.rng.bit_generator.state = state["draws"]


class AveragedWeights:
    """sum_k k theta_k / sum_k k, over coordinates that grow in number.

    Later weights count more than in a plain average: the first ones are far off.
    """

    def __init__(self) -> None:
        self.sums: Array = np.zeros(0)
        self.weight = 0.0

    def add(self, theta: Array, weight: float) -> None:
        """One more point."""
        if len(theta) > len(self.sums):
            self.sums = np.append(self.sums, np.zeros(len(theta) - len(self.sums)))
        self.sums += weight * theta
        self.weight += weight

    def value(self, size: int) -> Array:
        """The average, or zeros before the first point."""
        if self.weight == 0.0:
            return np.zeros(size)
        return self.sums / self.weight
