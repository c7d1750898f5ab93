"""The averaged kernel: hard to beat where all kernels are good."""

from __future__ import annotations

import numpy as np

from manykernels.base.arrays import Array
from manykernels.compare.combinations.base import (
    CombinationData,
    CombinedKernelClassifier,
)


class AveragedKernelClassifier(CombinedKernelClassifier):
    r"""An SVM on the mean of the kernels, :math:`K = \frac1F \sum_f K_f`.

    The same model as `MKLClassifier(p=2)` with C divided by the number of kernels.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    C : float, default=1.0
        Weight of the losses.
    tol, max_iter, class_weight, psd, storage, memory_limit : see `MKLClassifier`
    verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,)
        1 / n_kernels each.
    kernel_views_ : see MKLClassifier
    kernel_names_, classes_, dual_coef_, support_, objective_ : see `MKLClassifier`
    duality_gap_, history_, n_iter_, temperature_, n_features_in_ : see `MKLClassifier`
    feature_names_in_ : see `MKLClassifier`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> AveragedKernelClassifier("rbf@0-1; rbf@2-3", C=10).fit(X, y).score(X, y) > 0.95
    True
    """

    def _find_weights(self, data: CombinationData) -> Array:
        return np.ones(data.bank.n_blocks)
