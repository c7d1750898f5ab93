"""Randomized mirror descent over all products of base kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import brentq

from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import storable
from manykernels.inputs.parameters import SEARCH, OneOf, check_parameters
from manykernels.norms.proximity import project_simplex
from manykernels.products.base import RankOneKernels
from manykernels.products.inner_problem import (
    ActiveFeatures,
    ActiveProducts,
    Inner,
    InnerSolver,
)
from manykernels.products.pricing import Pricing
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.product_sampler import ProductSampler
from manykernels.solvers.loop import Callback, Iterate, SolveResult, State, run

# Multiply-adds of an exhaustive search, a fraction of a second, that a certificate may
# take; beyond, the closed form of the sum over all products bounds the dual norm.
MAX_CERTIFICATE_WORK = 2e9


# A potential Psi has a mirror map and Bregman projections on K, the non-negative part
# of the unit ball of the nu-norm. Only coordinates that were drawn are ever stored,
# which is exact: a coordinate without a gradient stays at zero.


@dataclass(frozen=True)
class Euclidean:
    """Psi = 1/2 ||theta||^2: projected stochastic gradients, Algorithm 2 at nu = 2.

    Examples
    --------
    >>> Euclidean().project(np.array([3.0, 4.0]), 2.0)
    array([0.6, 0.8])
    """

    def mirror(self, theta: Array) -> Array:
        """Return the gradient of Psi, less that at zero."""
        return theta

    def inverse(self, dual: Array) -> Array:
        """Return the theta with this mirror image."""
        return dual

    def project(self, theta: Array, nu: float) -> Array:
        """Return the nearest point of K = {theta >= 0, ||theta||_nu <= 1}."""
        theta = np.maximum(theta, 0.0)
        if nu == 2.0:
            return theta / max(1.0, float(np.linalg.norm(theta)))
        if np.power(theta, nu).sum() <= 1.0:
            return theta
        if nu == 1.0:
            return project_simplex(theta[None])[0]
        return _project_ball(theta, nu)

    def depth(self) -> float:
        """Return delta / alpha: the range of Psi on K over its strong convexity."""
        return 0.5


@dataclass(frozen=True)
class ShiftedEntropy:
    """Psi = sum (theta_i + eps) (log(theta_i + eps) - 1): multiplicative updates.

    Exponential weights would need one number per product; with the shift eps a product
    that was never drawn stays at zero. Only for nu = 1, that is p = 1.

    Examples
    --------
    >>> ShiftedEntropy(0.1).inverse(ShiftedEntropy(0.1).mirror(np.array([0.3])))
    array([0.3])
    """

    eps: float = 1e-2

    def mirror(self, theta: Array) -> Array:
        """log(1 + theta / eps)."""
        return np.log1p(theta / self.eps)

    def inverse(self, dual: Array) -> Array:
        """eps (exp(dual) - 1)."""
        return self.eps * np.expm1(np.minimum(dual, 700.0))

    def project(self, theta: Array, nu: float) -> Array:
        """[c (theta + eps) - eps]_+ with the c that makes the sum one."""
        if nu != 1.0:
            raise ValueError(
                f"ShiftedEntropy needs p = 1, that is nu = 1, got nu = {nu:g}; use "
                "Euclidean for other p."
            )
        theta = np.maximum(theta, 0.0)
        if theta.sum() <= 1.0:
            return theta
        shifted = np.sort(theta + self.eps)[::-1]
        count = np.arange(1, len(shifted) + 1)
        factors = (1.0 + self.eps * count) / np.cumsum(shifted)
        kept = np.flatnonzero(factors * shifted > self.eps)[-1]
        return np.asarray(
            np.maximum(factors[kept] * (theta + self.eps) - self.eps, 0.0)
        )

    def depth(self) -> float:
        """log(1 + 1 / eps), times the curvature 1 + eps, roughly."""
        return float((1.0 + self.eps) * np.log1p(1.0 / self.eps))


Potential = Euclidean | ShiftedEntropy


def _project_ball(theta: Array, nu: float) -> Array:
    """x + mu x^(nu - 1) = theta for every entry, mu such that ||x||_nu = 1."""

    def excess(mu: float) -> float:
        return float(np.power(_shrunk(theta, mu, nu), nu).sum()) - 1.0

    high = 1.0
    while excess(high) > 0.0:
        high *= 4.0
    projected = _shrunk(theta, float(brentq(excess, 0.0, high)), nu)
    norm = float(np.power(projected, nu).sum()) ** (1.0 / nu)
    return np.asarray(projected / max(1.0, norm))


def _shrunk(theta: Array, mu: float, nu: float) -> Array:
    """The x in [0, theta] with x + mu x^(nu - 1) = theta.

    In x, or in u = x^(nu - 1) where nu < 2, the left side is convex and increasing:
    Newton's method from above converges without a safeguard.
    """
    if nu >= 2.0:
        return _newton_root(theta, theta, nu - 1.0, mu, 1.0)
    u = _newton_root(np.power(theta, nu - 1.0), theta, 1.0 / (nu - 1.0), 1.0, mu)
    return np.power(u, 1.0 / (nu - 1.0))


def _newton_root(
    u: Array, goal: Array, power: float, factor: float, slope: float
) -> Array:
    """The root of factor u^power + slope u = goal below the start u."""
    for _ in range(60):
        value = factor * np.power(u, power) + slope * u - goal
        slopes = factor * power * np.power(u, power - 1.0) + slope
        change = value / np.where(slopes > 0.0, slopes, 1.0)
        u = np.maximum(u - change, 0.0)
        if np.all(np.abs(change) <= 1e-15 * (1.0 + u)):
            break
    return u


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
    average : {"late", "plain"}
        The weights of draw k count k times in "late". "plain" is the average of
        Corollary 3.3, over the weights before each draw.
    potential : Potential
        The Euclidean one, or ShiftedEntropy for p = 1.
    patience : int, optional
        Stop when that many looks in a row brought no improvement of 1e-4.
    look_every : int
        Draws between two looks at the objective of the averaged weights.
    random_state : int or Generator

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> from manykernels.products.product_problem import ProductProblem
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 3], np.ones(3), C=10)
    >>> result = RandomizedMirrorDescent(100, random_state=0).solve(problem)
    >>> result.model.products[int(np.argmax(result.model.weights))]
    (0, 3)
    """

    takes_weights: ClassVar[bool] = True  # of rows

    max_iter: int = 500
    tol: float = 1e-3
    step: Literal["adaptive", "theory"] | float = "adaptive"
    average: Literal["late", "plain"] = "late"
    potential: Potential = field(default_factory=Euclidean)
    patience: int | None = 5
    look_every: int = 50
    random_state: Any = None

    def __post_init__(self) -> None:
        check_parameters(self, SEARCH)
        OneOf("late", "plain").check("average", self.average)

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
            problem.base, rho, problem.least_degree, affordable=MAX_CERTIFICATE_WORK
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
            yield self._evaluate()

    def _advance(self, solution: Inner, first: float) -> Inner:
        """One iteration of Algorithm 1."""
        self.done += 1
        if self.settings.average == "plain":
            self.average.add(self.active.theta, 1.0)
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
        if self.settings.average == "late":
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

    def _evaluate(self) -> Iterate:
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
        if self.pricing.work > MAX_CERTIFICATE_WORK:
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
    """sum_k v_k theta_k / sum_k v_k, over coordinates that grow in number.

    With v_k = k later weights count more than in a plain average: the first ones are
    far off.
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
        whole = np.append(self.sums, np.zeros(size - len(self.sums)))
        return whole / self.weight if self.weight else whole
