"""Algorithm 1's ingredients: a Legendre potential and the set of the kernel weights.

Only coordinates that were drawn are ever stored. That is exact because both potentials
leave a coordinate without a gradient at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from manykernels.base.arrays import Array
from manykernels.norms.prox import project_simplex


class Potential(Protocol):
    """Psi with its mirror map, and Bregman projections on K."""

    def mirror(self, theta: Array) -> Array:
        """The gradient of Psi, less that at zero."""

    def inverse(self, dual: Array) -> Array:
        """The theta with this mirror image."""

    def project(self, theta: Array, nu: float) -> Array:
        """The nearest point of K = {theta >= 0, ||theta||_nu <= 1}."""

    def depth(self) -> float:
        """delta / alpha: the range of Psi on K over its strong convexity."""


@dataclass(frozen=True)
class Euclidean:
    """Psi = 1/2 ||theta||^2: projected stochastic gradients, Algorithm 2 at nu = 2.

    Examples
    --------
    >>> Euclidean().project(np.array([3.0, 4.0]), 2.0)
    array([0.6, 0.8])
    """

    def mirror(self, theta: Array) -> Array:
        """theta."""
        return theta

    def inverse(self, dual: Array) -> Array:
        """theta."""
        return dual

    def project(self, theta: Array, nu: float) -> Array:
        """A rescaling for nu = 2, a threshold for nu = 1, else one equation each."""
        theta = np.maximum(theta, 0.0)
        if nu == 2.0:
            return theta / max(1.0, float(np.linalg.norm(theta)))
        if np.power(theta, nu).sum() <= 1.0:
            return theta
        if nu == 1.0:
            return project_simplex(theta[None])[0]
        return _project_ball(theta, nu)

    def depth(self) -> float:
        """1/2 for every ball of radius one around zero with nu <= 2."""
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
        return _newton(theta, theta, nu - 1.0, mu, 1.0)
    u = _newton(np.power(theta, nu - 1.0), theta, 1.0 / (nu - 1.0), 1.0, mu)
    return np.power(u, 1.0 / (nu - 1.0))


def _newton(u: Array, goal: Array, power: float, factor: float, slope: float) -> Array:
    """The root of factor u^power + slope u = goal below the start u."""
    for _ in range(60):
        value = factor * np.power(u, power) + slope * u - goal
        slopes = factor * power * np.power(u, power - 1.0) + slope
        change = value / np.where(slopes > 0.0, slopes, 1.0)
        u = np.maximum(u - change, 0.0)
        if np.all(np.abs(change) <= 1e-15 * (1.0 + u)):
            break
    return u
