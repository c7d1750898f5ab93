"""What products that begin alike can reach at most."""

from __future__ import annotations

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.base import BaseKernels, multiply_columns
from manykernels.products.indices import Product


class PrefixBounds:
    """What the products that begin with a prefix can reach at most.

    Their energies are not negative and sum to a' (K_prefix * S^left) a; and none of
    their entries exceeds that of the prefix times the largest of its row.
    """

    def __init__(
        self, base: BaseKernels, rho: Array, coef: Array, weighted: Array
    ) -> None:
        self.base, self.rho, self.coef, self.weighted = base, rho, coef, weighted
        # Of features with unit mean square only Cauchy and Schwarz know a bound.
        self.normalized = base.normalized
        self.powers = [] if self.normalized else base.power_sums(len(rho) - 1)
        self.largest = np.abs(base.columns).max(axis=1)

    def of(self, prefix: Product, degree: int) -> float:
        if self.normalized:
            energy = len(self.coef) * float(self.coef @ self.coef)
            return energy / float(self.rho[degree]) ** 2
        left = degree - len(prefix)
        v = np.abs(self.weighted * multiply_columns(self.base.columns, prefix))
        by_entries = self.base.energies(np.array([v @ self.largest**left]))[0]
        by_sum = self.base.energy_sum(self.coef, prefix, self.powers[left])
        return float(min(by_entries, by_sum)) / float(self.rho[degree]) ** 2
