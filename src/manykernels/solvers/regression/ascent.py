"""Certified regression with losses that have kinks or bounds: dual ascent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from manykernels.base.arrays import Array
from manykernels.base.stored import storable
from manykernels.hot.dual import residual_sweeps
from manykernels.solvers.loop import (
    Iterate,
    IterativeSolver,
    Resumable,
    relative_gap,
)
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.ridge import few_threads
from manykernels.solvers.regression.ridge_system import require_combined_kernel
from manykernels.solvers.weight_newton import WeightSteps

FIRST_FROZEN_GAP = 1e-2  # relative, asked of the first frozen problem
LEAST_FROZEN_GAP = 1e-14  # below which rounding limits a frozen problem
SWEEPS_PER_STEP = 10  # of coordinate ascent, between two Newton steps
MAX_ASCENT_ROUNDS = 60  # of sweeps and a step
SWEEP_TOL = 1e-12  # changes, relative to the largest coefficient, that end sweeps
DIAGONAL_SHIFT = 1e-10  # of the mean diagonal, where a kernel is singular


@storable
@dataclass(frozen=True)
class RegressionAscent(IterativeSolver):
    r"""Freeze d, solve the dual on :math:`K_d = \sum_f d_f K_f`, update d, repeat.

    For the epsilon-insensitive, Huber and squared losses, that of censored times, and
    1 <= p <= 2. A round solves the frozen problem by coordinate ascent (a step along
    the residual, a soft threshold, a clip) with Newton steps on the coefficients that
    are free; the same second derivatives give the Newton step on the weights.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None
        For the order of the rows.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import EpsilonInsensitive
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(2), np.ones((2, 2))], axis=1))
    >>> problem = Problem(bank, np.array([[1.0], [2.0]]), 1, EpsilonInsensitive(0.1),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(2))
    >>> RegressionAscent(tol=1e-6, random_state=0).solve(problem).converged
    True
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-3
    max_iter: int = 200
    random_state: int | np.random.Generator | None = None

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[RegressionRounds, Expansion]:
        terms = DualTerms.of(problem)
        require_combined_kernel(problem, "RegressionAscent", "fit fewer rows")
        start = start or problem.zero()
        rng = np.random.default_rng(self.random_state)
        return RegressionRounds(problem, terms, start, rng, self), start

    def _threads(self, problem: Problem) -> AbstractContextManager[object]:
        return few_threads(problem.n_rows)


class RegressionRounds(Resumable):
    """The state of the search: coefficients, weights, and how precise to be."""

    remembered = ("coef", "done", "goal", "rng", "newton")

    def __init__(
        self,
        problem: Problem,
        terms: DualTerms,
        start: Expansion,
        rng: np.random.Generator,
        solver: RegressionAscent,
    ) -> None:
        self.problem = problem
        self.terms = terms
        self.rng = rng
        self.solver = solver
        coef = np.clip(start.coef, terms.floor[:, None], terms.limit[:, None])
        self.coef: Array = np.ascontiguousarray(coef.T)  # (outputs, rows)
        values = problem.loss.residual_rows(problem.target).values
        self.target = np.ascontiguousarray(values.T, dtype=np.float64)
        self.done = 0
        self.goal = FIRST_FROZEN_GAP
        weights = problem.norm.normalize_weights(start.weights)
        self.newton = WeightSteps(problem.norm, weights[None])

    def iterates(self) -> Iterator[Iterate]:
        while self.done < self.solver.max_iter:
            self.done += 1
            frozen = self._solve_frozen()
            products = self.problem.bank.block_scores(frozen.coef.T)
            norms = self._norms(frozen, products)
            iterate = self._iterate(frozen, norms)
            gap = relative_gap(iterate.objective, iterate.dual_bound)
            # The gap bounds a square, and the weights' gap is of the first order.
            self.goal = min(
                self.goal, max(gap, self.solver.tol) ** 2 + LEAST_FROZEN_GAP
            )
            self._advance(frozen, products, norms)
            yield iterate

    def _solve_frozen(self) -> FrozenRegression:
        weights, rows = self.newton.trial[0], np.arange(self.problem.n_rows)
        kernel = np.asarray(self.problem.bank.combine(weights, rows), np.float64)
        frozen = FrozenRegression(
            kernel, self.target, self.coef.copy(), self.terms, self.rng
        )
        frozen.solve(self.goal)
        self.coef = frozen.coef
        return frozen

    def _norms(self, frozen: FrozenRegression, products: Array) -> Array:
        # Certificates are float64 whatever the storage.
        if self.problem.bank.dtype != np.float64:
            return self.problem.theta_norms(frozen.coef.T)
        squares = np.einsum("kfi,ki->f", products, frozen.coef)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def _iterate(self, frozen: FrozenRegression, norms: Array) -> Iterate:
        problem, weights = self.problem, self.newton.trial[0].copy()
        coef = frozen.coef.T.copy()
        if problem.bank.dtype == np.float64:
            scores = (frozen.target - frozen.residual).T
        else:
            scores = problem.bank.scores(coef, weights)
        return Iterate(
            objective=problem.primal_value(scores, weights * norms),
            dual_bound=problem.dual_bound(coef, norms),
            updates=frozen.updates,
            snapshot=partial(Expansion, coef, weights),
            dual_snapshot=partial(np.asarray, coef),
        )

    def _advance(self, frozen: FrozenRegression, products: Array, norms: Array) -> None:
        primal, dual = frozen.values()
        curvature = frozen.curvature(np.asarray(products, dtype=np.float64))
        self.newton.advance(
            np.array([0]),
            np.array([dual]),
            np.array([primal]),
            norms[None] ** 2,
            curvature[None],
        )


class DualTerms(NamedTuple):
    r"""The dual :math:`a y - tube |a| - soft_i a^2 / 2`, `floor_i` to `limit_i`.

    What losses of the residual are made of, for one row and output.
    """

    tube: float
    soft: Array  # (rows,)
    limit: Array  # (rows,)
    floor: Array  # (rows,), minus the limit, or zero where residuals have one side

    @classmethod
    def of(cls, problem: Problem) -> DualTerms:
        """The terms of a loss of the residual; other losses raise a ValueError."""
        loss, bound = problem.loss, problem.bound
        unit = loss.residual_dual
        if unit is None:
            raise ValueError(
                "RegressionAscent handles the losses 'squared', 'huber', "
                "'epsilon_insensitive' and 'censored', got the loss "
                f"{loss.name!r}; choose another solver."
            )
        limit = unit.limit * bound
        one_sided = loss.residual_rows(problem.target).one_sided
        floor = np.where(one_sided, 0.0, -limit)
        return cls(unit.tube, unit.soft / bound, limit, floor)


class FrozenRegression:
    """max over a of sum_i (a_i y_i - tube |a_i| - soft_i a_i^2 / 2) - 1/2 a' K a.

    Sweeps settle which coefficients are zero or at their limit; Newton's step on the
    others is exact, where the kernel is ill conditioned and sweeps would crawl.

    Parameters
    ----------
    kernel : array of shape (rows, rows)
    target, coef : array of shape (outputs, rows)
    terms : DualTerms
    rng : Generator
    """

    def __init__(
        self,
        kernel: Array,
        target: Array,
        coef: Array,
        terms: DualTerms,
        rng: np.random.Generator,
    ) -> None:
        self.kernel = kernel
        self.target = target
        self.coef = coef
        self.terms = terms
        self.rng = rng
        self.residual = target - coef @ kernel
        self.updates = 0

    def solve(self, goal: float) -> float:
        """Ascend to a relative gap of `goal`, or as far as rounding lets; the gap."""
        gap = self.relative_gap()
        for _ in range(MAX_ASCENT_ROUNDS):
            if gap <= goal:
                break
            self._sweep()
            for k in range(len(self.coef)):
                self._newton(k)
            self.residual = self.target - self.coef @ self.kernel
            before, gap = gap, self.relative_gap()
            if self.updates == 0 and gap >= before:
                break
        return gap

    def values(self) -> tuple[float, float]:
        """Primal and dual value of the frozen problem."""
        scores = self.target - self.residual
        quadratic = float(np.sum(self.coef * scores))
        gain = float(np.sum(self.coef * self.target)) - self._charge()
        return 0.5 * quadratic + self._losses(), gain - 0.5 * quadratic

    def relative_gap(self) -> float:
        return relative_gap(*self.values())

    def _charge(self) -> float:
        """tube |a| + soft a^2 / 2, summed."""
        size = np.abs(self.coef)
        return float(np.sum(size * (self.terms.tube + 0.5 * self.terms.soft * size)))

    def _losses(self) -> float:
        """The losses times C c_i: the conjugates of the charges, at the residuals."""
        beyond = np.maximum(np.abs(self.residual) - self.terms.tube, 0.0)
        soft = self.terms.soft
        limit = np.where(self.residual > 0.0, self.terms.limit, -self.terms.floor)
        # Without a soft part the size is at its limit as soon as there is any excess.
        unlimited = np.full_like(beyond, np.inf)
        np.divide(beyond, soft, out=unlimited, where=soft > 0.0)
        size = np.where(beyond > 0.0, np.minimum(unlimited, limit), 0.0)
        return float(np.sum(size * (beyond - 0.5 * soft * size)))

    def _sweep(self) -> None:
        n_rows = self.kernel.shape[0]
        orders = np.stack(
            [self.rng.permutation(n_rows) for _ in range(SWEEPS_PER_STEP)]
        )
        self.updates = residual_sweeps(
            self.kernel, self.residual, self.coef, *self.terms, orders, SWEEP_TOL
        )

    def free(self, k: int) -> NDArray[np.intp]:
        """Rows whose coefficient is neither zero nor at its limit."""
        size = np.abs(self.coef[k])
        return np.flatnonzero((size > 0.0) & (size < self.terms.limit))

    def factor(self, free: NDArray[np.intp]) -> Array | None:
        """Cholesky's factor of the second derivatives; None if they are singular."""
        matrix = self.kernel[np.ix_(free, free)]
        diagonal = self.terms.soft[free] + DIAGONAL_SHIFT * np.mean(np.diag(matrix))
        matrix[np.diag_indices(len(free))] += diagonal
        try:
            return np.asarray(cho_factor(matrix, lower=True, overwrite_a=True)[0])
        except LinAlgError:
            return None

    def _newton(self, k: int) -> None:
        """Solve for the free coefficients; the first that meets a limit ends it."""
        free = self.free(k)
        factor = self.factor(free) if len(free) else None
        if factor is None:
            return
        coef, residual = self.coef[k, free], self.residual[k, free]
        sign = np.sign(coef)
        slope = residual - self.terms.tube * sign - self.terms.soft[free] * coef
        step = cho_solve((factor, True), slope)
        # Coefficients may grow to their limit, or shrink to zero.
        end = np.where(step * sign > 0.0, sign * self.terms.limit[free], 0.0)
        lengths = np.full_like(step, np.inf)
        np.divide(np.abs(end - coef), np.abs(step), out=lengths, where=step != 0.0)
        length = min(1.0, float(lengths.min(initial=np.inf)))
        moved = coef + length * step
        # The coefficient that ends the step is zero or at its limit, not nearly so.
        moved[lengths <= length] = end[lengths <= length]
        self.residual[k] -= (moved - coef) @ self.kernel[free]
        self.coef[k, free] = moved

    def curvature(self, products: Array) -> Array:
        """V' M^-1 V over the free rows, for V = [K_f a]: second derivatives in d.

        `products` has shape (outputs, blocks, rows).
        """
        total = np.zeros((products.shape[1], products.shape[1]))
        for k, product in enumerate(products):
            free = self.free(k)
            factor = self.factor(free) if len(free) else None
            if factor is not None:
                root = solve_triangular(factor, product[:, free].T, lower=True)
                total += root.T @ root
        return total
