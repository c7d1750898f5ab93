"""A fitted model: kernels on support rows, one coefficient matrix, kernel weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.banks.base import support_of
from manykernels.kernels import KernelSet
from manykernels.solvers.problem import Expansion

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BlockModel:
    """scores(x) = sum_f weights_f sum_j k_f(x, x_j) coef_j over the support rows.

    Weights sum to one; the common factor is in the coefficients.
    """

    kernels: KernelSet  # reference rows are the support rows
    coef: Array  # (support rows, outputs)
    weights: Array  # (kernels,)

    @classmethod
    def from_expansion(cls, kernels: KernelSet, model: Expansion) -> BlockModel:
        """Keep the support rows of a solution on the kernels' reference rows."""
        support = support_of(model.coef)
        total = float(model.weights.sum())
        coef = total * model.coef[support]
        return cls(kernels.restrict(support), coef, model.weights / total)

    def scores(self, X: Any) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        parts = [
            self._combined(block) @ self.coef for _, block in self.kernels.cross(X)
        ]
        return np.concatenate([*parts, np.empty((0, self.coef.shape[1]))])

    def _combined(self, block: NDArray[Any]) -> Array:
        """sum_f weights_f block_f, without the kernels that have no weight."""
        combined = np.zeros(block.shape[1:])
        for f in np.flatnonzero(self.weights):
            combined += self.weights[f] * block[f]
        return combined

    def block_scores(self, X: Any) -> Array:
        """Each kernel's part of the scores, shape (rows, kernels, outputs)."""
        shape = (self.kernels.n_kernels, self.coef.shape[1])
        parts = [
            np.moveaxis(block @ self.coef, 0, 1) * self.weights[:, None]
            for _, block in self.kernels.cross(X)
        ]
        return np.concatenate([*parts, np.empty((0, *shape))])
