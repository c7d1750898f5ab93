r"""J(theta) = min over w of J(w, theta): the inner problem for given kernel weights.

With K = sum_i theta_i / rho_i^2 K_i it is a plain kernel machine,
:math:`\min_f \frac12 \|f\|^2 + C \sum_t loss(f(x_t) + b, y_t)`, and its dual
coefficients give the gradient :math:`-a^\top K_i a / (2 \rho_i^2)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.base.arrays import Array
from manykernels.products.losses import ScoreLoss, SquaredError

NEWTON_STEPS = 100
MAX_CORRECTIONS = 6  # of a stale factor, before a fresh one is cheaper


@dataclass(frozen=True)
class Inner:
    """The solution for one K: f = K coef + intercept."""

    coef: Array
    intercept: float
    scores: Array
    value: float  # 1/2 a' K a + C sum loss


@dataclass
class InnerSolver:
    """Solves the inner problem again and again for kernels that change little.

    Squared errors: a factor of an earlier K + I/C preconditions conjugate gradients,
    so that most solves cost O(n^2). Other losses: damped Newton steps, O(n^3) each,
    from the last solution.
    """

    target: Array
    C: float
    loss: ScoreLoss
    intercept: bool = False
    _factor: tuple[Array, bool] | None = field(default=None, repr=False)
    _last: Array | None = field(default=None, repr=False)

    def solve(self, K: Array) -> Inner:
        """Coefficients, scores and value for the kernel matrix K."""
        if isinstance(self.loss, SquaredError):
            return self._ridge(K)
        return self._newton(K)

    def _ridge(self, K: Array) -> Inner:
        """(K + I/C) a = y - b, with b such that the coefficients sum to zero."""
        sides = [self.target] + [np.ones_like(self.target)] * self.intercept
        solved = self._solve_shifted(K, np.column_stack(sides))
        coef, intercept = solved[:, 0], 0.0
        if self.intercept:
            intercept = float(coef.sum() / solved[:, 1].sum())
            coef = coef - intercept * solved[:, 1]
            coef -= coef.mean()  # rounding: the dual is finite at a sum of zero only
        return self._finish(K, coef, intercept)

    def _solve_shifted(self, K: Array, sides: Array) -> Array:
        """(K + I/C)^-1 sides, from an earlier factor if a few corrections suffice."""
        if self._factor is not None and self._last is not None:
            start = self._last if self._last.shape == sides.shape else 0.0 * sides
            solved = _corrected(K, 1.0 / self.C, sides, self._factor, start)
            if solved is not None:
                self._last = solved
                return solved
        shifted = K.copy()
        shifted.flat[:: len(K) + 1] += 1.0 / self.C
        self._factor = cho_factor(shifted, lower=True, overwrite_a=True)
        self._last = np.asarray(cho_solve(self._factor, sides))
        return self._last

    def _newton(self, K: Array) -> Inner:
        """Newton's method on 1/2 a' K a + C sum loss(K a), safe where curvature is 0.

        With W the curvatures times C, a = b - W^1/2 B^-1 W^1/2 K b, B = I + W^1/2 K
        W^1/2 and b = W f - C loss'.
        """
        coef = np.zeros_like(self.target) if self._last is None else self._last
        best = self._finish(K, coef, 0.0)
        for _ in range(NEWTON_STEPS):
            aim = self._newton_point(K, best.scores)
            found = self._towards(K, best, aim)
            small = best.value - found.value <= 1e-11 * abs(best.value)
            best = found if found.value < best.value else best
            if small:
                break
        self._last = best.coef
        # At the solution a = -C loss'(f), and so written it is always feasible.
        dual = -self.C * self.loss.gradient(best.scores, self.target)
        return self._finish(K, dual, 0.0)

    def _newton_point(self, K: Array, scores: Array) -> Array:
        root = np.sqrt(self.C * self.loss.curvature(scores, self.target))
        b = root * root * scores - self.C * self.loss.gradient(scores, self.target)
        B = root[:, None] * K * root
        B.flat[:: len(K) + 1] += 1.0
        factor = cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(b - root * cho_solve(factor, root * (K @ b)))

    def _towards(self, K: Array, here: Inner, aim: Array) -> Inner:
        """The first of the steps 1, 1/2, 1/4, ... that lowers the value."""
        step, found = 1.0, here
        while step > 1e-6:
            found = self._finish(K, here.coef + step * (aim - here.coef), 0.0)
            if found.value <= here.value:
                return found
            step *= 0.5
        return here

    def _finish(self, K: Array, coef: Array, intercept: float) -> Inner:
        smooth = K @ coef
        scores = smooth + intercept
        loss = float(self.loss.value(scores, self.target).sum())
        value = 0.5 * float(coef @ smooth) + self.C * loss
        return Inner(coef, intercept, scores, value)


def _corrected(
    K: Array, shift: float, sides: Array, factor: tuple[Array, bool], start: Array
) -> Array | None:
    """Preconditioned conjugate gradients, all right-hand sides side by side.

    None where a few corrections do not reach a residual of 1e-10.
    """
    solved = start.copy()
    residual = sides - K @ solved - shift * solved
    enough = 1e-10 * np.linalg.norm(sides, axis=0)
    direction = np.zeros_like(sides)
    before = np.ones(sides.shape[1])
    for step in range(MAX_CORRECTIONS):
        if np.all(np.linalg.norm(residual, axis=0) <= enough):
            return solved
        preconditioned = cho_solve(factor, residual, check_finite=False)
        energy = np.einsum("tk,tk->k", residual, preconditioned)
        direction = preconditioned + (energy / before) * direction * (step > 0)
        image = K @ direction + shift * direction
        curvature = np.einsum("tk,tk->k", direction, image)
        length = np.where(
            curvature > 0.0, energy / np.where(curvature, curvature, 1), 0
        )
        solved += length * direction
        residual -= length * image
        before = np.where(energy > 0.0, energy, 1.0)
    return None
