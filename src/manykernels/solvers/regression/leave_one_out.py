"""Leave-one-out residuals of ridge regression in closed form."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, lapack

from manykernels.base.arrays import Array
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ridge_exact import factorize, few_threads


def held_out_residuals(
    problem: Problem, weights: Array, centered: bool, counts: Array | None = None
) -> Array:
    r"""y_i minus the prediction of the fit without row i, shape (rows, outputs).

    With the kernel weights frozen and :math:`M = K_d + D`, :math:`D = diag(1/(C c_i))`,
    it is :math:`(M^{-1} y)_i / (M^{-1})_{ii}`: one Cholesky factor for all the rows.
    This is the criterion of least-squares SVMs. A row that stands for n_i rows loses
    one of them, and with it the share :math:`s_i = 1/n_i` of its weight:
    :math:`D_i (M^{-1} y)_i / (1 - s_i + s_i D_i (M^{-1})_{ii})`.

    Parameters
    ----------
    problem : Problem
        With the squared loss.
    weights : array of shape (blocks,)
    centered : bool
        Whether the target is y less its weighted mean; then the fit without row i
        takes the mean of the other rows.
    counts : array of shape (rows,), optional
        How many rows a row stands for; all of it is left out where that is one or
        less, which is the default.

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
    weight = problem.sample_weight[:, None]
    share = np.ones_like(weight)
    if counts is not None:
        share = 1.0 / np.maximum(counts[:, None], 1.0)
    if centered:
        lost = share * weight
        coef = coef + unit * problem.target * lost / (weight.sum() - lost)
    # Divided by D_i, so that share one gives the plain formula to the bit.
    rest = (1.0 - share) * problem.C * weight
    return np.asarray(coef / (rest + share * diagonal[:, None]))
