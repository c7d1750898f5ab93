"""Fitted models whose kernels meet elsewhere than in a weighted sum of kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.kernels import KernelSet
from manykernels.mkl.model import used_kernels


@dataclass(frozen=True)
class MergedModel:
    """scores(x) = sum_j merge(k_1(x, x_j), ..., k_F(x, x_j)) coef_j."""

    kernels: KernelSet  # reference rows are the support rows
    coef: Array  # (support rows, outputs)
    merge: Callable[[Array], Array]  # (rows, kernels, n) -> (rows, n)

    def scores(self, X: Any) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        blocks = self.kernels.astype(np.float64).cross(X)
        parts = [self.merge(np.moveaxis(b, 0, 1)) @ self.coef for _, b in blocks]
        return np.concatenate([*parts, np.empty((0, self.coef.shape[1]))])


@dataclass(frozen=True)
class StackedModel:
    """scores(x)_k = sum_f weights_fk sum_j k_f(x, x_j) coef_fjk.

    Every kernel has a classifier of its own; the weights mix their scores.
    """

    kernels: KernelSet  # reference rows are the support rows
    coef: Array  # (kernels, support rows, outputs)
    weights: Array  # (kernels,) or (kernels, outputs)

    def scores(self, X: Any) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        return np.asarray(self.block_scores(X).sum(axis=1))

    def block_scores(self, X: Any) -> Array:
        """Each kernel's part of the scores, shape (rows, kernels, outputs)."""
        factors = self.weights.reshape(len(self.weights), -1)
        used = self.kernels.only(used_kernels(self.weights)).astype(np.float64)
        shape = (len(factors), self.coef.shape[2])
        parts = [np.moveaxis(b @ self.coef, 0, 1) * factors for _, b in used.cross(X)]
        return np.concatenate([*parts, np.empty((0, *shape))])
