"""Hierarchical kernel learning over the lattice of products (Bach, 2008)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.base.arrays import Array
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import Product
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.solvers.loop import Callback, Iterate, SolveResult, State, run


def divides(part: Product, whole: Product) -> bool:
    """Whether every factor of `part` is one of `whole`, as often at least.

    Examples
    --------
    >>> divides((1,), (1, 1, 2)), divides((2, 2), (1, 1, 2))
    (True, False)
    """
    return not Counter(part) - Counter(whole)


def parents(product: Product) -> Iterator[Product]:
    """The products with one factor less."""
    for k in range(len(product)):
        yield product[:k] + product[k + 1 :]


def ancestry(products: Sequence[Product]) -> Array:
    """Entry (v, w) is 1 where v divides w, else 0."""
    return np.array([[divides(v, w) for w in products] for v in products], dtype=float)


def sources(
    hull: Sequence[Product], n_base: int, degree: int, least: int
) -> list[Product]:
    """The products outside a hull all of whose parents are inside.

    A hull holds the divisors of all its products; `least` is the smallest degree.

    Examples
    --------
    >>> sources([(), (0,)], n_base=2, degree=2, least=0)
    [(1,), (0, 0)]
    """
    known = set(hull)
    roots: list[Product] = [(j,) for j in range(n_base)] if least else [()]
    found = {root for root in roots if root not in known}
    for product in known:
        if len(product) < degree:
            found |= {
                child
                for j in range(n_base)
                if (child := tuple(sorted((*product, j)))) not in known
                and all(i in known for i in parents(child) if len(i) >= least)
            }
    return sorted(found, key=lambda i: (len(i), i))


class Below:
    r"""Bounds :math:`\sum_{w} E_w / (\sum_v d_v)^2`, w below t, v between t and w.

    E_w = <a, z_w>^2. If the bound is at most Omega^2 for every source t, no product
    outside the hull is needed (Bach, 2008, Proposition 5). Degrees up to 3.
    """

    def __init__(self, columns: Array, weights: Array, coef: Array) -> None:
        self.columns, self.weights, self.coef = columns, weights, coef
        self.degree = len(weights) - 1

    def of(self, products: Sequence[Product]) -> tuple[Array, Array]:
        """E_t / d_t^2 and the bound of every product, which has one factor or more."""
        own, bound = np.zeros(len(products)), np.zeros(len(products))
        order = sorted(range(len(products)), key=lambda i: products[i])
        for first, places in groupby(order, key=lambda i: products[i][0]):
            v = self.coef * self.columns[:, first]
            singles = v @ self.columns
            pairs = self._pairs(v)
            for i in places:
                t = products[i]
                energy, children, grandchildren = _values(t, v.sum(), singles, pairs)
                d = self.weights[len(t) :]
                own[i] = energy**2 / d[0] ** 2
                bound[i] = own[i] + _children(children, d) + _pairs(grandchildren, d)
        return own, bound

    def _pairs(self, v: Array) -> Array:
        if self.degree < 3:
            return np.zeros((0, 0))
        return np.asarray(self.columns.T @ (self.columns * v[:, None]))


def _values(
    t: Product, single: float, singles: Array, pairs: Array
) -> tuple[float, Array, Array]:
    """<a, z> of t, of t times a factor, and of t times two factors."""
    none = np.zeros(0)
    if len(t) == 1:
        return float(single), singles, pairs
    if len(t) == 2:
        return float(singles[t[1]]), pairs[t[1]] if len(pairs) else none, none
    return float(pairs[t[1], t[2]]), none, none


def _children(values: Array, d: Array) -> float:
    return float(np.square(values).sum() / (d[0] + d[1]) ** 2) if len(d) > 1 else 0.0


def _pairs(values: Array, d: Array) -> float:
    """Two different factors come twice in `values`, and have two products between."""
    if len(d) < 3 or not len(values):
        return 0.0
    squares = np.square(values)
    same = float(np.trace(squares))
    different = 0.5 * (float(squares.sum()) - same)
    return float(
        same / (d[0] + d[1] + d[2]) ** 2 + different / (d[0] + 2 * d[1] + d[2]) ** 2
    )


SMOOTHING_SHARE = 1e-7  # of the norm: keeps weights positive between two steps
ZERO_WEIGHT_RTOL = 1e-9  # of the largest: products outside the linear systems
MAX_HULL_STEPS = 300  # alternations on one hull


@dataclass(frozen=True)
class HierarchicalKernelLearning:
    r"""minimize :math:`\frac12 (\sum_v d_v \|w_{D(v)}\|)^2 + C \sum_t loss`.

    D(v) are the products that v divides, and :math:`\|w_{D(v)}\|` the length of all
    their coefficients: a product is used only if all its divisors are. The weights d
    are the problem's rho, one per degree. The search grows a hull of products that
    holds all divisors, first by sources that violate the necessary condition, then by
    those that violate the sufficient one.

    Restricted to base kernels of rank one, squared errors and degrees up to 3; p is not
    read. The certificate is Bach's bound on the dual norm: it is sound, but can stay
    loose where sources have very many products below them and d grows slowly.

    Parameters
    ----------
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Rounds.
    top : int
        Products added in a round at most.
    max_active : int
        Products in the hull at most, as in Bach's experiments.
    patience : int, optional
        Stop when that many rounds in a row brought no improvement of 1e-4.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(80, 5))
    >>> y = X[:, 0] * X[:, 3]
    >>> problem = ProductProblem(RankOneKernels(X), y, np.array([1, 2, 4.0]), C=10)
    >>> model = HierarchicalKernelLearning().solve(problem).model
    >>> [i for i, weight in zip(model.products, model.weights) if weight > 0.1]
    [(0,), (3,), (0, 3)]
    """

    tol: float = 1e-3
    max_iter: int = 100
    top: int = 20
    max_active: int = 300
    patience: int | None = 3

    def solve(
        self,
        problem: ProductProblem,
        start: ProductExpansion | None = None,
        callback: Callback | None = None,
    ) -> SolveResult:
        """The best model found; `start` gives the hull of an earlier solution."""
        _require_supported(problem)
        search = HullSearch(self, problem, start)
        zero = ProductExpansion.zero(problem.n_rows)
        return run(
            search, zero, tol=self.tol, patience=self.patience, callback=callback
        )


def _require_supported(problem: ProductProblem) -> None:
    if not isinstance(problem.base, RankOneKernels):
        raise ValueError(
            "HierarchicalKernelLearning needs base kernels of rank one, got "
            f"{type(problem.base).__name__}; use ColumnGeneration for others."
        )
    if problem.base.normalized:
        raise ValueError(
            "HierarchicalKernelLearning needs products as they are, got normalized "
            "ones; use RankOneKernels(columns) without normalized=True."
        )
    if not problem.loss.is_squared:
        raise ValueError(
            "HierarchicalKernelLearning needs squared errors, got the loss "
            f"{problem.loss.name!r}; use ColumnGeneration for others."
        )
    if not 1 <= problem.degree <= 3:
        raise ValueError(
            "HierarchicalKernelLearning needs a degree of 1, 2 or 3, got "
            f"{problem.degree}; use ColumnGeneration for others."
        )


class HullSolution(NamedTuple):
    """The optimum on a hull."""

    w: Array
    zeta: Array  # weight of every product: w = zeta z' a
    coef: Array
    scores: Array
    norm: float  # sum_v d_v ||w_D(v)||
    dual_norm: float  # a bound on it over the products of the hull


class HullSearch:
    """Grows the hull: solve on it, bound what lies outside, add what violates."""

    def __init__(
        self,
        settings: HierarchicalKernelLearning,
        problem: ProductProblem,
        start: ProductExpansion | None,
    ) -> None:
        assert isinstance(problem.base, RankOneKernels)
        self.settings, self.problem, self.base = settings, problem, problem.base
        self.d = np.asarray(problem.rho, dtype=float)
        self.target = _centered(problem.target) if problem.intercept else problem.target
        self.products: list[Product] = [] if problem.intercept else [()]
        self.eta = np.ones(len(self.products))
        self._prepare([] if start is None else list(start.products))

    def _prepare(self, new: list[Product]) -> None:
        """More products, with a share of the weight like that of the others."""
        self.products += [i for i in new if i not in self.products]
        even = 1.0 / max(len(self.products), 1)
        self.eta = np.append(
            self.eta, np.full(len(self.products) - len(self.eta), even)
        )
        features = self.base.features(self.products)
        self.means = features.mean(axis=0) * int(self.problem.intercept)
        self.features = features - self.means
        self.gram = self.features.T @ self.features
        self.pulls = self.features.T @ self.target
        self.weights = np.array([self.d[len(i)] for i in self.products])
        self.below = ancestry(self.products).reshape(2 * (len(self.products),))

    def iterates(self) -> Iterator[Iterate]:
        problem = self.problem
        for _ in range(self.settings.max_iter):
            solution = self._solve()
            outside = self._sources()
            own, bound = self._below(solution.coef).of(outside)
            dual_norm = max(solution.dual_norm, float(np.sqrt(bound.max(initial=0.0))))
            yield Iterate(
                objective=problem.primal_value(solution.norm, solution.scores),
                dual_bound=problem.dual_bound(solution.coef, dual_norm),
                updates=len(self.products),
                snapshot=partial(self._snapshot, solution, tuple(self.products)),
            )
            room = self.settings.max_active - len(self.products)
            new = self._violators(outside, own, bound, solution.norm**2)
            if not new or room <= 0:
                return
            self._prepare(new[: min(self.settings.top, room)])

    def state(self) -> State:
        return {"products": [list(i) for i in self.products], "eta": self.eta}

    def restore(self, state: State) -> None:
        self._prepare([tuple(i) for i in state["products"]])
        self.eta = state["eta"]

    def _sources(self) -> list[Product]:
        problem = self.problem
        return sources(
            self.products, self.base.n_base, problem.degree, problem.least_degree
        )

    def _below(self, coef: Array) -> Below:
        return Below(self.base.columns, self.d, coef)

    def _violators(
        self, outside: list[Product], own: Array, bound: Array, allowed: float
    ) -> list[Product]:
        """Sources that are needed for certain, or else those that may be."""
        values = own if np.any(own > allowed * (1.0 + 1e-6)) else bound
        order = np.argsort(-values, kind="stable")
        return [outside[i] for i in order if values[i] > allowed * (1.0 + 1e-6)]

    def _solve(self) -> HullSolution:
        """Alternate ridge regression and eta_v = ||w_D(v)|| / (d_v norm)."""
        solution = self._at()
        for _ in range(MAX_HULL_STEPS):
            if self._gap(solution) <= 0.2 * self.settings.tol or not solution.norm:
                break
            lengths = np.sqrt(self.below @ np.square(solution.w))
            sizes = (lengths + SMOOTHING_SHARE * solution.norm) / self.weights
            self.eta = sizes / float(np.square(self.weights) @ sizes)
            solution = self._at()
        return solution

    def _at(self) -> HullSolution:
        """w = s (s G s + I / C)^-1 s z'y with s^2 = zeta, for the present eta.

        Products of hardly any weight are left out of the system and have w = 0; the
        dual norm, sqrt(sum_w zeta_w^2 E_w) / (d_v eta_v), looks at all of them.
        """
        problem = self.problem
        zeta = 1.0 / ((1.0 / self.eta) @ self.below)
        alive = np.flatnonzero(zeta > ZERO_WEIGHT_RTOL * zeta.max(initial=0.0))
        s = np.sqrt(zeta[alive])
        shifted = s[:, None] * self.gram[np.ix_(alive, alive)] * s
        shifted.flat[:: len(s) + 1] += 1.0 / problem.C
        w = np.zeros(len(zeta))
        if len(s):
            factor = cho_factor(shifted, overwrite_a=True)
            w[alive] = s * cho_solve(factor, s * self.pulls[alive])
        smooth = self.features[:, alive] @ w[alive]
        coef = problem.C * (self.target - smooth)
        lengths = np.sqrt(self.below @ np.square(w))
        reach = np.sqrt(self.below @ np.square(zeta * (coef @ self.features)))
        return HullSolution(
            w,
            zeta,
            coef,
            smooth + (problem.target - self.target),
            float(self.weights @ lengths),
            float((reach / (self.weights * self.eta)).max(initial=0.0)),
        )

    def _gap(self, solution: HullSolution) -> float:
        """The relative duality gap on the hull alone."""
        value = self.problem.primal_value(solution.norm, solution.scores)
        bound = self.problem.dual_bound(solution.coef, solution.dual_norm)
        return (value - bound) / value if value > 0.0 else 0.0

    def _snapshot(
        self, solution: HullSolution, products: tuple[Product, ...]
    ) -> ProductExpansion:
        """An expansion divides weights by rho^2, which is no part of this kernel."""
        rho = np.array([self.d[len(i)] for i in products])
        shift = float((self.problem.target - self.target).mean())
        return ProductExpansion(
            solution.coef[:, None],
            solution.zeta * np.square(rho),
            products,
            shift - float(self.means[: len(products)] @ solution.w),
        )


def _centered(target: Array) -> Array:
    return np.asarray(target - target.mean())
