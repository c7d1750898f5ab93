"""Powers of a weighted sum of base kernels, which learn one weight per base kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.base import BaseKernels, DenseKernels, RankOneKernels
from manykernels.solvers.problem import Expansion


@dataclass(frozen=True)
class PowerExpansion(Expansion):
    """f = K coef + intercept, K = (weights_0 + sum_j weights_j K_j)^degree.

    The power is taken entry by entry; weights_0 belongs to a constant kernel of ones,
    which brings in the products of fewer factors.
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
    >>> weighted_sum(RankOneKernels(np.array([[1.0], [2.0]])), np.array([1.0, 3.0]))
    array([[ 4.,  7.],
           [ 7., 13.]])
    """
    if isinstance(base, RankOneKernels):
        X = base.columns
        return np.asarray(weights[0] + (X[rows] * weights[1:]) @ X[known].T)
    assert isinstance(base, DenseKernels)
    stack = base.stack[:, rows][:, :, known]
    return np.asarray(weights[0] + np.tensordot(weights[1:], stack, 1))


def power_scores(
    base: BaseKernels, model: PowerExpansion, rows: Array, known: Array
) -> Array:
    """Scores of some rows from a model that was learnt on the rows `known`."""
    K = weighted_sum(base, model.weights, rows, known) ** model.degree
    return K @ model.coef[:, 0] + model.intercept
