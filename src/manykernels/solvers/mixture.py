"""A dual point that mixes those of many rounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.norms.group import LpGroupNorm, p_norms

Array = NDArray[np.float64]

GRID = np.linspace(0.0, 1.0, 33)


class DualMixture:
    r"""The best dual value on segments between successive dual points.

    The dual value is :math:`\ell(A) - \tfrac12 \|\theta(A)\|_{2,q}^2` with linear
    :math:`\ell`. Each round's point serves the weights frozen in that round, and for
    p near 1 its largest block norm alone spoils the bound; the next round spoils
    another block. By the triangle inequality the block norms of a mixture are at
    most the mixture of the block norms, so a good mixture is found and certified
    from F numbers a round, without a kernel value.
    """

    def __init__(self, norm: LpGroupNorm) -> None:
        self.norm = norm
        self.value = 0.0
        self.coef: Array | None = None
        self._linear = 0.0
        self._norms: Array = np.zeros(0)

    def add(self, coef: Array, linear: float, theta_norms: Array) -> float:
        """Mix in a feasible point; returns the best value so far."""
        if self.coef is None:
            self.coef, self._linear, self._norms = coef.copy(), linear, theta_norms
            self.value = linear - self.norm.dual_value(theta_norms)
            return self.value
        share = self._best_share(linear, theta_norms)
        if share > 0.0:
            self.coef = (1.0 - share) * self.coef + share * coef
            self._linear += share * (linear - self._linear)
            self._norms = (1.0 - share) * self._norms + share * theta_norms
            self.value = self._linear - self.norm.dual_value(self._norms)
        return self.value

    def _best_share(self, linear: float, theta_norms: Array) -> float:
        """Maximise the concave function of the share on a grid, refined twice."""
        low, high = 0.0, 1.0
        for _ in range(3):
            shares = low + GRID * (high - low)
            norms = np.outer(1.0 - shares, self._norms) + np.outer(shares, theta_norms)
            values = (1.0 - shares) * self._linear + shares * linear
            values -= 0.5 * p_norms(norms, self.norm.q) ** 2
            best = int(np.argmax(values))
            low = shares[max(best - 1, 0)]
            high = shares[min(best + 1, len(shares) - 1)]
        return float(shares[best])
