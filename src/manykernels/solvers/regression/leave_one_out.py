"""Leave-one-out residuals of ridge regression in closed form."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, lapack

from manykernels.base.arrays import Array
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ridge_exact import factorize, few_threads


def held_out_residuals(problem: Problem, weights: Array, centered: bool) -> Array:
    r"""y_i minus the prediction of the fit without row i, shape (rows, outputs).

    With the kernel weights frozen and :math:`M = K_d + diag(1 / (C c_i))` it is
    :math:`(M^{-1} y)_i / (M^{-1})_{ii}`: one Cholesky factor for all the rows. This is
    the criterion of least-squares SVMs.

    Parameters
    ----------
    problem : Problem
        With the squared loss.
    weights : array of shape (blocks,)
    centered : bool
        Whether the target is y less its weighted mean; then the fit without row i
        takes the mean of the other rows.

    References
    ----------
    Cawley and Talbot (2004), Fast exact leave-one-out cross-validation of sparse
    least-squares support vector machines.
    """
    with few_threads(problem.n_rows):
        factor = factorize(problem, weights)
        ones = np.ones((problem.n_rows, 1))
        solved = cho_solve((factor, True), np.hstack([problem.target, ones]))
        inverse, _ = lapack.dtrtri(factor, lower=1)
    diagonal = np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse))
    coef, unit = solved[:, :-1], solved[:, -1:]
    if centered:
        weight = problem.sample_weight[:, None]
        others = problem.sample_weight.sum() - weight
        coef = coef + unit * problem.target * weight / others
    return np.asarray(coef / diagonal[:, None])
