"""Regression under frozen kernel weights: coordinate ascent and steps of Newton's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from manykernels.base.arrays import Array
from manykernels.hot.regression import residual_sweeps
from manykernels.losses.base import Loss
from manykernels.solvers.loop import relative_gap

SWEEPS = 10  # between two steps of Newton's
ROUNDS = 60  # of sweeps and steps
STILL = 1e-12  # changes, relative to the largest coefficient, that end the sweeps
JITTER = 1e-10  # of the mean diagonal, where a kernel is singular


class DualTerms(NamedTuple):
    r"""The dual :math:`a y - tube |a| - soft_i a^2 / 2` with :math:`|a| \le limit_i`.

    What losses of the residual are made of, for coefficients of one row and output.
    """

    tube: float
    soft: Array  # (rows,)
    limit: Array  # (rows,)

    @classmethod
    def of(cls, loss: Loss, bound: Array) -> DualTerms:
        """The terms for rows whose losses count `bound`; others raise a ValueError."""
        unit = loss.residual_dual
        if unit is None:
            raise ValueError(
                "RegressionAscent handles the losses 'squared', 'huber' and "
                f"'epsilon_insensitive', got the loss {loss.name!r}; choose another "
                "solver."
            )
        return cls(unit.tube, unit.soft / bound, unit.limit * bound)


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
        for _ in range(ROUNDS):
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
        """Of the frozen problem."""
        return relative_gap(*self.values())

    def _charge(self) -> float:
        """tube |a| + soft a^2 / 2, summed."""
        size = np.abs(self.coef)
        return float(np.sum(size * (self.terms.tube + 0.5 * self.terms.soft * size)))

    def _losses(self) -> float:
        """The losses times C c_i: the conjugates of the charges, at the residuals."""
        beyond = np.maximum(np.abs(self.residual) - self.terms.tube, 0.0)
        soft, limit = self.terms.soft, self.terms.limit
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.where(beyond > 0.0, np.minimum(beyond / soft, limit), 0.0)
        return float(np.sum(size * (beyond - 0.5 * soft * size)))

    def _sweep(self) -> None:
        n_rows = self.kernel.shape[0]
        orders = np.stack([self.rng.permutation(n_rows) for _ in range(SWEEPS)])
        self.updates = residual_sweeps(
            self.kernel, self.residual, self.coef, *self.terms, orders, STILL
        )

    def free(self, k: int) -> NDArray[np.intp]:
        """Rows whose coefficient is neither zero nor at its limit."""
        size = np.abs(self.coef[k])
        return np.flatnonzero((size > 0.0) & (size < self.terms.limit))

    def factor(self, free: NDArray[np.intp]) -> Array | None:
        """Cholesky's factor of the second derivatives; None if they are singular."""
        matrix = self.kernel[np.ix_(free, free)]
        diagonal = self.terms.soft[free] + JITTER * np.mean(np.diag(matrix))
        matrix[np.diag_indices(len(free))] += diagonal
        try:
            return np.asarray(cho_factor(matrix, lower=True, overwrite_a=True)[0])
        except LinAlgError:
            return None

    def _newton(self, k: int) -> None:
        """Solve for the free coefficients, as far as they stay free."""
        free = self.free(k)
        factor = self.factor(free) if len(free) else None
        if factor is None:
            return
        coef, residual = self.coef[k, free], self.residual[k, free]
        sign = np.sign(coef)
        slope = residual - self.terms.tube * sign - self.terms.soft[free] * coef
        step = cho_solve((factor, True), slope)
        room = np.where(step * sign > 0.0, self.terms.limit[free] - np.abs(coef), 0.0)
        room = np.where(step * sign < 0.0, np.abs(coef), room)
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.where(step != 0.0, room / np.abs(step), np.inf)
        length = min(1.0, float(lengths.min(initial=np.inf)))
        moved = coef + length * step
        # The coefficient that ends the step is zero or at its limit, not nearly so.
        ends = lengths <= length
        towards = np.where(step * sign > 0.0, sign * self.terms.limit[free], 0.0)
        moved[ends] = towards[ends]
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
