"""Drawing products of base kernels in proportion to their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.base import BaseKernels
from manykernels.products.indices import Product, multiplicity


class Draw(NamedTuple):
    """A drawn product and its estimate of the gradient."""

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
        if base.limits is not None:
            raise ValueError(
                "Products can only be drawn with all their powers, got powers=False; "
                "use powers=True, p=1, or solver=ExplicitLpNorm() for few columns."
            )
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
        # A prior of its own (footnote 3) changes the gradient, not how it is drawn.
        orders = multiplicity(product) * self.base.rareness(product) ** 2
        return Draw(product, -0.5 * total / orders, 0.5 * total)


def _pick(masses: Array, rng: np.random.Generator) -> int:
    """A position with probability proportional to its mass."""
    cumulative = np.cumsum(np.maximum(masses, 0.0))
    place = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return int(min(place, len(masses) - 1))
