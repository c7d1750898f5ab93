"""Ridge regression under frozen kernel weights, solved exactly, with derivatives."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from manykernels.banks.base import Bank
from manykernels.base.arrays import Array
from manykernels.base.threads import one_blas_thread
from manykernels.solvers.loop import Iterate
from manykernels.solvers.problem import Expansion, Problem

PRODUCT_BYTES = 2**26  # of products K_f coef held at a time
THREADED_ROWS = 3000  # from which on a factor is worth several BLAS threads


@dataclass(frozen=True)
class Solved:
    r"""The minimum J(d) of half the squared norm plus the losses times C, and more.

    With :math:`M = \sum_f d_f K_f + diag(1 / (C c_i))` and the targets Y the
    coefficients are :math:`M^{-1} Y` and :math:`J(d) = \frac12 tr(Y^\top M^{-1} Y)`.
    """

    weights: Array  # (blocks,)
    coef: Array  # (rows, outputs)
    value: float  # J(d)
    squares: Array  # ||theta_f||^2; the gradient of J is -1/2 of them
    curvature: Array  # (blocks, blocks), the second derivatives of J
    factor: Array  # lower Cholesky factor of M


def solve_exactly(problem: Problem, weights: Array) -> Solved:
    """Coefficients, value and derivatives at these weights, by one Cholesky factor."""
    factor = factorize(problem, weights)
    target = np.asarray(problem.target, dtype=np.float64)
    coef = np.asarray(cho_solve((factor, True), target))
    squares, curvature = _derivatives(problem.bank, coef, factor)
    if problem.bank.dtype != np.float64:
        squares = problem.theta_norms(coef) ** 2  # certificates are float64
    value = 0.5 * float(np.sum(coef * target))
    return Solved(weights, coef, value, squares, curvature, factor)


def certified_iterate(problem: Problem, solved: Solved) -> Iterate:
    """Objective and dual bound; float64 whatever the storage."""
    coef, weights = solved.coef, solved.weights
    norms = np.sqrt(np.maximum(solved.squares, 0.0))
    if problem.bank.dtype == np.float64:
        scores = problem.target - coef / problem.bound[:, None]  # as M coef = Y
    else:
        scores = problem.bank.scores(coef, weights)
    return Iterate(
        objective=problem.primal_value(scores, weights * norms),
        dual_bound=problem.dual_bound(coef, norms),
        updates=problem.n_rows,
        snapshot=lambda: Expansion(coef, weights),
        dual_snapshot=lambda: coef,
    )


def few_threads(n_rows: int) -> AbstractContextManager[object]:
    """One BLAS thread for small factors: threads that wait for each other cost more."""
    return one_blas_thread() if n_rows < THREADED_ROWS else nullcontext()


def factorize(problem: Problem, weights: Array) -> Array:
    """The lower Cholesky factor of sum_f d_f K_f + diag(1 / (C c_i))."""
    every = np.arange(problem.n_rows)
    matrix = np.asarray(problem.bank.combine(weights, every), dtype=np.float64)
    matrix[every, every] += 1.0 / problem.bound
    return positive_factor(matrix)


def positive_factor(matrix: Array) -> Array:
    """Cholesky's factor, written over the matrix; indefinite kernels are unmasked."""
    try:
        # The transpose is the same matrix, and in the order that LAPACK works on.
        factor, _ = cho_factor(matrix.T, lower=True, overwrite_a=True)
    except LinAlgError as error:
        raise ValueError(
            "kernels must be positive semi-definite to solve the squared loss exactly, "
            "got a combined kernel with eigenvalues below -1 / C; pass dtype='float64' "
            "and psd='clip', or lower C."
        ) from error
    return np.asarray(factor)


def _derivatives(bank: Bank, coef: Array, factor: Array) -> tuple[Array, Array]:
    """||theta_f||^2 and V' M^-1 V for V = [K_f coef], summed over the outputs."""
    squares = np.zeros(bank.n_blocks)
    curvature = np.zeros((bank.n_blocks, bank.n_blocks))
    n_rows, n_outputs = coef.shape
    step = max(1, PRODUCT_BYTES // (8 * n_rows * bank.n_blocks))
    for start in range(0, n_outputs, step):
        part = coef[:, start : start + step]
        products = np.asarray(bank.block_scores(part), dtype=np.float64)
        squares += np.einsum("kfi,ik->f", products, part)
        roots = half_solve(factor, products)
        curvature += np.einsum("kfi,kgi->fg", roots, roots, optimize=True)
    return squares, curvature


def half_solve(factor: Array, products: Any) -> Array:
    """L^-1 v for all the vectors v along the last axis."""
    flat = products.reshape(-1, products.shape[-1])
    roots = solve_triangular(factor, flat.T, lower=True, check_finite=False)
    return np.asarray(roots.T.reshape(products.shape))
