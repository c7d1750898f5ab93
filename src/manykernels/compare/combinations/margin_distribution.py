"""EasyMKL's first step: the points of two classes that are closest to each other."""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVC

from manykernels.base.arrays import Array

HARD = 1e12  # as good as infinite: lam bounds the coefficients
TOL = 1e-9  # of the optimality conditions, where the margin is 1


def margin_distribution(kernel: Array, sign: Array, lam: float, weight: Array) -> Array:
    r"""minimize :math:`(1-\lambda) \gamma^\top Y K Y \gamma + \lambda \sum_i
    \gamma_i^2 / c_i` over distributions.

    The :math:`\gamma_i \ge 0` sum to one in each of the two classes. It is the dual of
    a hard-margin SVM on :math:`(1-\lambda) K + \lambda\, diag(1/c)`, up to the length
    of the solution.

    Parameters
    ----------
    kernel : array of shape (rows, rows)
    sign : array of shape (rows,)
        1 or -1.
    lam : float in (0, 1]
        Near 0 for the closest points of the classes' hulls, 1 for their means.
    weight : array of shape (rows,)

    Examples
    --------
    >>> sign, ones = np.array([1.0, 1.0, -1.0]), np.ones(3)
    >>> margin_distribution(np.eye(3), sign, 1.0, ones).round(6).tolist()
    [0.5, 0.5, 1.0]
    """
    matrix = (1.0 - lam) * np.asarray(kernel, dtype=np.float64)
    matrix[np.diag_indices_from(matrix)] += lam / weight
    svm = SVC(C=HARD, kernel="precomputed", tol=TOL).fit(matrix, sign)
    gamma = np.zeros(len(sign))
    gamma[svm.support_] = np.abs(svm.dual_coef_[0])
    for own in (sign > 0.0, sign < 0.0):
        gamma[own] /= gamma[own].sum()
    return gamma
