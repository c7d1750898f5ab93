"""Powers of a weighted sum of base kernels: one weight per base kernel, or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.base import BaseKernels
from manykernels.products.inner_problem import Inner, InnerSolver
from manykernels.products.product_problem import ProductProblem
from manykernels.solvers.loop import Callback, Iterate, Resumable, SolveResult, run
from manykernels.solvers.problem import Expansion


@dataclass(frozen=True)
class PowerExpansion(Expansion):
    """f = K coef + intercept, K = (weights_0 + sum_j weights_j K_j)^degree.

    The power is taken entry by entry; weights_0 belongs to a constant kernel of ones,
    which brings in the products of fewer factors.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> model = PowerExpansion(np.array([[1.0], [0.0]]), np.ones(2), degree=2)
    >>> base, rows = RankOneKernels(np.array([[1.0], [2.0]])), np.arange(2)
    >>> power_scores(base, model, rows, rows).tolist()  # (1 + 1 x)^2
    [4.0, 9.0]
    """

    degree: int = 1
    intercept: float = 0.0


def weighted_sum(
    base: BaseKernels,
    weights: Array,
    rows: Any = slice(None),
    known: Any = slice(None),
) -> Array:
    """weights_0 + sum_j weights_j K_j between some rows and others.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> weighted_sum(RankOneKernels(np.array([[1.0], [2.0]])), np.array([1.0, 3.0]))
    array([[ 4.,  7.],
           [ 7., 13.]])
    """
    return np.asarray(weights[0] + base.weighted_sum(weights[1:], rows, known))


def power_scores(
    base: BaseKernels, model: PowerExpansion, rows: Array, known: Array
) -> Array:
    """Scores of some rows from a model that was learned on the rows `known`.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> base = RankOneKernels(np.array([[1.0], [2.0]]))
    >>> model = PowerExpansion(np.array([[1.0]]), np.array([0.0, 1.0]), intercept=5.0)
    >>> power_scores(base, model, np.array([1]), np.array([0])).tolist()
    [7.0]
    """
    K = weighted_sum(base, model.weights, rows, known) ** model.degree
    return K @ model.coef[:, 0] + model.intercept


@dataclass(frozen=True)
class UniformPower:
    """f = (1 + sum_j K_j)^D coef: every product counts as often as it can be written.

    D is the problem's degree; its rho and p are not read. With D = 1 this is the plain
    sum of the base kernels.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
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
        return run(UniformSearch(problem, weights), zero, tol=1e-9, callback=callback)


class UniformSearch(Resumable):
    """The one round of a kernel with fixed weights."""

    def __init__(self, problem: ProductProblem, weights: np.ndarray) -> None:
        self.problem, self.weights = problem, weights

    def iterates(self) -> Iterator[Iterate]:
        problem = self.problem
        K = weighted_sum(problem.base, self.weights) ** problem.degree
        inner = InnerSolver.of(problem)
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


POWERS_ARMIJO_SHARE = 1e-4  # of the predicted decrease that a step must bring


@dataclass(frozen=True)
class PolynomialKernelLearning:
    r"""J of :math:`(\sum_j \mu_j K_j)^D`, least for :math:`\mu \ge 0, \|\mu\|_2 \le R`.

    j = 0 is a constant kernel, so that lower degrees take part. Projected gradients
    along :math:`-\frac D2 a^\top (S^{D-1} \circ K_j) a`, S the weighted sum, from equal
    weights. The problem is not convex for D > 1: the result is a local
    minimum and has no certificate. Another R is the same as another C, because the
    kernel is homogeneous in mu. The problem's rho and p are not read.

    Parameters
    ----------
    tol : float
        Relative decrease of the objective at which to stop.
    max_iter : int
        Projected gradient steps.
    radius : float, optional
        R; by default sqrt(r + 1), where equal weights are ones.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 1], np.ones(3), C=10)
    >>> result = PolynomialKernelLearning().solve(problem)
    >>> sorted(np.argsort(-result.model.weights)[:2].tolist())
    [1, 2]
    """

    tol: float = 1e-5
    max_iter: int = 100
    radius: float | None = None

    def solve(
        self,
        problem: ProductProblem,
        start: PowerExpansion | None = None,
        callback: Callback | None = None,
    ) -> SolveResult:
        """A local minimum, from equal weights or those of `start`."""
        search = CortesSearch(self, problem, start)
        zero = PowerExpansion(
            np.zeros((problem.n_rows, 1)), search.weights, problem.degree
        )
        return run(search, zero, tol=0.0, callback=callback)


class Place(NamedTuple):
    """Weights, the matrix of their sum, and the kernel machine there."""

    weights: Array
    total: Array
    solution: Inner


class CortesSearch(Resumable):
    """Projected gradient steps on the weights of the sum."""

    remembered = ("weights",)

    def __init__(
        self,
        settings: PolynomialKernelLearning,
        problem: ProductProblem,
        start: PowerExpansion | None,
    ) -> None:
        self.settings, self.problem = settings, problem
        size = problem.base.n_base + 1
        self.radius = settings.radius or float(np.sqrt(size))
        even = np.full(size, self.radius / np.sqrt(size))
        self.weights = even if start is None else start.weights
        self.inner = InnerSolver.of(problem)

    def iterates(self) -> Iterator[Iterate]:
        here = self._at(self.weights)
        slope = self._gradient(here)
        step = 0.1 * self.radius / max(float(np.linalg.norm(slope)), 1e-300)
        for _ in range(self.settings.max_iter):
            there = self._descend(here, slope, step)
            if there is None:
                break
            gain = here.solution.value - there.solution.value
            new_slope = self._gradient(there)
            step = _next_step(there.weights - here.weights, new_slope - slope, step)
            here, slope = there, new_slope
            self.weights = here.weights
            yield self._iterate(here)
            if gain <= self.settings.tol * here.solution.value:
                break
        else:
            return
        yield self._iterate(here)

    def _at(self, weights: Array) -> Place:
        total = weighted_sum(self.problem.base, weights)
        return Place(weights, total, self.inner.solve(total**self.problem.degree))

    def _gradient(self, place: Place) -> Array:
        """-D/2 a' (S^(D-1) * K_j) a for the constant kernel and every base kernel."""
        base, degree = self.problem.base, self.problem.degree
        coef = place.solution.coef
        inside = place.total ** (degree - 1) * np.outer(coef, coef)
        masses = np.append(inside.sum(), base.inner_products(inside))
        return -0.5 * degree * masses

    def _descend(self, here: Place, slope: Array, step: float) -> Place | None:
        """The first projected step, of halved lengths, that decreases enough."""
        for _ in range(30):
            weights = self._project(here.weights - step * slope)
            change = weights - here.weights
            predicted = float(slope @ change)
            if predicted >= -1e-12 * here.solution.value:
                return None
            there = self._at(weights)
            enough = here.solution.value + POWERS_ARMIJO_SHARE * predicted
            if there.solution.value <= enough:
                return there
            step *= 0.5
        return None

    def _project(self, weights: Array) -> Array:
        """The positive part, and then a rescaling into the ball: exact for both."""
        positive = np.maximum(weights, 0.0)
        size = float(np.linalg.norm(positive))
        return positive * min(1.0, self.radius / max(size, 1e-300))

    def _iterate(self, place: Place) -> Iterate:
        solution, problem = place.solution, self.problem
        return Iterate(
            objective=solution.value / problem.scale,
            dual_bound=0.0,
            updates=int(np.count_nonzero(place.weights)),
            snapshot=partial(
                PowerExpansion,
                solution.coef[:, None],
                place.weights,
                problem.degree,
                solution.intercept,
            ),
        )


def _next_step(change: Array, turn: Array, step: float) -> float:
    """The length of Barzilai and Borwein; twice the last one where curvature is not."""
    curvature = float(change @ turn)
    if curvature <= 0.0:
        return 2.0 * step
    return float(np.clip(float(change @ change) / curvature, 0.1 * step, 100.0 * step))
