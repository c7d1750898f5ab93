"""Kernel weights by centered alignment with the labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import nnls

from manykernels.banks import Bank
from manykernels.banks.centered_alignment import centered_products, ratio
from manykernels.base.arrays import Array
from manykernels.compare.combinations.base import (
    CombinationData,
    CombinedKernelClassifier,
)
from manykernels.inputs.parameters import OneOf

ALIGNMENT_RANK_RTOL = 1e-12  # of the largest eigenvalue: copies of a kernel add none


def aligned_together(bank: Bank, target: Array, weight: Array) -> Array:
    r"""The v >= 0 that minimizes :math:`v^\top M v - 2 v^\top a`, by least squares.

    With M the products of the centered kernels and a their products with the target's,
    v maximizes the alignment of :math:`\sum_f v_f K_f` up to its length.
    """
    products, aims = _products(bank, target, weight)
    values, vectors = np.linalg.eigh(products)
    kept = values > ALIGNMENT_RANK_RTOL * max(values[-1], 0.0)
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


ALIGNMENT_METHODS: dict[str, Callable[[Bank, Array, Array], Array]] = {
    "alignf": aligned_together,
    "align": aligned_apart,
}


class AlignmentClassifier(CombinedKernelClassifier):
    r"""An SVM on the sum of kernels that is aligned best with the labels.

    The centered alignment of a kernel with the labels is the cosine between the two
    matrices :math:`H K H` and :math:`H Y Y^\top H`, where Y has a column of zeros and
    ones per class and H takes off the mean.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    method : {"alignf", "align"}, default="alignf"
        "alignf" maximizes the alignment of the weighted sum over non-negative weights;
        "align" weighs every kernel by its own alignment.
    C : float, default=1.0
        Weight of the losses.
    tol, max_iter, class_weight, psd, storage, memory_limit : see `MKLClassifier`
    verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,)
        Sum to one; all alike if no kernel is aligned with the labels at all.
    kernel_views_ : see MKLClassifier
    kernel_names_, classes_, dual_coef_, support_, objective_ : see `MKLClassifier`
    duality_gap_, history_, n_iter_, temperature_, n_features_in_ : see `MKLClassifier`
    feature_names_in_ : see `MKLClassifier`

    References
    ----------
    Cortes, Mohri and Rostamizadeh (2012), Algorithms for learning kernels based on
    centered alignment.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AlignmentClassifier("rbf@0; rbf@1; rbf@2; rbf@3").fit(X, y)
    >>> model.kernel_names_[int(model.kernel_weights_.argmax())] in ("rbf@2", "rbf@3")
    True
    """

    _rules = {**CombinedKernelClassifier._rules, "method": OneOf(*ALIGNMENT_METHODS)}

    def __init__(
        self,
        kernels: Any = None,
        method: str = "alignf",
        C: float = 1.0,
        **shared: Any,
    ) -> None:
        super().__init__(kernels, C, **shared)
        self.method = method

    def _find_weights(self, data: CombinationData) -> Array:
        indicator = np.eye(len(data.targets.classes))[data.targets.target]
        return ALIGNMENT_METHODS[self.method](data.bank, indicator, data.targets.weight)
