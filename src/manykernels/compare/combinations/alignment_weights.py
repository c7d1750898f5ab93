"""Weights of kernels from centered alignment, with weights of the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

from manykernels.banks import Bank
from manykernels.banks.alignment import centered_products, ratio
from manykernels.base.arrays import Array

RANK_TOLERANCE = 1e-12  # of the largest eigenvalue; copies of a kernel have none


def aligned_together(bank: Bank, target: Array, weight: Array) -> Array:
    r"""The v >= 0 that minimizes :math:`v^\top M v - 2 v^\top a`, by least squares.

    With M the products of the centered kernels and a their products with the target's,
    v maximizes the alignment of :math:`\sum_f v_f K_f` up to its length.
    """
    products, aims = _products(bank, target, weight)
    values, vectors = np.linalg.eigh(products)
    kept = values > RANK_TOLERANCE * max(values[-1], 0.0)
    if not kept.any():
        return np.zeros(bank.n_blocks)
    roots = np.sqrt(values[kept])
    # |R v - R^-T a|^2 with R' R = M; a lies in the range of M.
    axes = vectors[:, kept].T
    found, _ = nnls(roots[:, None] * axes, axes @ aims / roots)
    return np.asarray(found)


def aligned_apart(bank: Bank, target: Array, weight: Array) -> Array:
    """The alignment of every kernel, up to a common factor."""
    products, aims = _products(bank, target, weight)
    return np.maximum(ratio(aims, np.sqrt(np.diag(products))), 0.0)


def _products(bank: Bank, target: Array, weight: Array) -> tuple[Array, Array]:
    """<K_f, K_g> and <K_f, T> of the centered kernels, scaled to avoid large numbers.

    A row of weight 2 counts as two rows.
    """
    share = weight / weight.sum()
    products = centered_products(bank, share)
    centered = target - share @ target
    return products, bank.square_norms(share[:, None] * centered)


METHODS: dict[str, Callable[[Bank, Array, Array], Array]] = {
    "alignf": aligned_together,
    "align": aligned_apart,
}
