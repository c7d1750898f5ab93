"""The linear system of ridge regression under frozen kernel weights, by Cholesky."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular

from manykernels.banks.device_kernels import DeviceKernels
from manykernels.base.arrays import Array
from manykernels.device import DeviceArray
from manykernels.solvers.problem import Problem

WORK_BYTES = 2**26  # of products K_f coef, or of factors, held at a time
INDEFINITE = (
    "kernels must be positive semi-definite to solve the squared loss exactly, got a "
    "combined kernel with eigenvalues below -1 / C; pass dtype='float64' and "
    "psd='clip', or lower C."
)


@dataclass(frozen=True)
class RidgeSolution:
    r"""The minimum J(d) of half the squared norm plus the losses times C, and more.

    With :math:`M = \sum_f d_f K_f + diag(1 / (C c_i))` and the targets Y the
    coefficients are :math:`M^{-1} Y` and :math:`J(d) = \frac12 tr(Y^\top M^{-1} Y)`.
    """

    weights: Array  # (blocks,)
    coef: Array  # (rows, outputs)
    value: float  # J(d)
    squares: Array  # ||theta_f||^2; the gradient of J is -1/2 of them
    curvature: Array  # (blocks, blocks), the second derivatives of J


class RidgeSystem:
    """M = sum_f d_f K_f + diag(1 / (C c_i)) in the processor's memory, factored.

    Parameters
    ----------
    problem : Problem
        With the squared loss.
    weights : array of shape (blocks,)
    """

    def __init__(self, problem: Problem, weights: Array) -> None:
        self.problem, self.weights = problem, weights

    @cached_property
    def factor(self) -> Array:
        """The lower Cholesky factor; the other triangle holds anything."""
        every = np.arange(self.problem.n_rows)
        matrix = np.asarray(self.problem.bank.combine(self.weights, every), np.float64)
        matrix[every, every] += 1.0 / self.problem.bound
        try:
            # The transpose is the same matrix, and in the order that LAPACK works on.
            factor, _ = cho_factor(matrix.T, lower=True, overwrite_a=True)
        except LinAlgError as error:
            raise ValueError(INDEFINITE) from error
        return np.asarray(factor)

    def solve(self, sides: Array) -> Array:
        """M^-1 sides."""
        return np.asarray(cho_solve((self.factor, True), sides))

    def inverse_diagonal(self) -> Array:
        """The diagonal of M^-1."""
        inverse, _ = lapack.dtrtri(self.factor, lower=1)
        return np.asarray(np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse)))

    def derivatives(self, coef: Array) -> tuple[Array, Array]:
        """||theta_f||^2 and V' M^-1 V for V = [K_f coef], summed over the outputs."""
        bank, (n_rows, n_outputs) = self.problem.bank, coef.shape
        squares = np.zeros(bank.n_blocks)
        curvature = np.zeros((bank.n_blocks, bank.n_blocks))
        step = max(1, WORK_BYTES // (8 * n_rows * bank.n_blocks))
        for start in range(0, n_outputs, step):
            part = coef[:, start : start + step]
            products = np.asarray(bank.block_scores(part), dtype=np.float64)
            squares += np.einsum("kfi,ik->f", products, part)
            curvature += self.curvature(products)
        if bank.dtype != np.float64:
            squares = self.problem.theta_norms(coef) ** 2  # certificates are float64
        return squares, curvature

    def curvature(self, products: Array) -> Array:
        """V' M^-1 V from V, of shape (outputs, blocks, rows)."""
        flat = products.reshape(-1, products.shape[-1])
        roots = solve_triangular(self.factor, flat.T, lower=True, check_finite=False)
        roots = roots.T.reshape(products.shape)
        return np.asarray(np.einsum("kfi,kgi->fg", roots, roots, optimize=True))


class DeviceRidgeSystem(RidgeSystem):
    """The same system on a device, in float64."""

    def __init__(
        self, problem: Problem, weights: Array, kernels: DeviceKernels
    ) -> None:
        super().__init__(problem, weights)
        self.kernels, self.device = kernels, kernels.device

    @cached_property
    def matrix(self) -> DeviceArray:
        """M itself."""
        device, kernels = self.device, self.kernels
        parts = [
            device.precisely(kernels.combined(self.weights, part))
            for part in kernels.parts(slice(0, self.problem.n_rows))
        ]
        matrix = parts[0] if len(parts) == 1 else device.xp.concat(parts)
        rows = device.put(np.arange(self.problem.n_rows))
        diagonal = device.put(1.0 / self.problem.bound)[:, None]
        return matrix + diagonal * device.precisely(rows[:, None] == rows[None, :])

    def solve(self, sides: Array) -> Array:
        return np.asarray(self.device.get(self._solve(self.device.put(sides))))

    def inverse_diagonal(self) -> Array:
        inverse = self._solve(self.device.put(np.eye(self.problem.n_rows)))
        return np.asarray(self.device.get(self.device.xp.linalg.diagonal(inverse)))

    def derivatives(self, coef: Array) -> tuple[Array, Array]:
        device, kernels, xp = self.device, self.kernels, self.device.xp
        n_blocks, (n_rows, n_outputs) = kernels.n_blocks, coef.shape
        squares, curvature = np.zeros(n_blocks), np.zeros((n_blocks, n_blocks))
        # Products and what is solved for take at most an eighth of the memory.
        step = max(1, kernels.bytes_free // (8 * 8 * n_rows * n_blocks))
        for start in range(0, n_outputs, step):
            part = device.put(coef[:, start : start + step])
            products = kernels.block_scores(part)  # (blocks, rows, outputs)
            squares += device.get(xp.sum(products * part, axis=(1, 2)))
            by_row = xp.permute_dims(products, (1, 0, 2))
            moved = self._solve(xp.reshape(by_row, (n_rows, -1)))
            moves = xp.permute_dims(xp.reshape(moved, by_row.shape), (1, 0, 2))
            flat, flat_moves = (
                xp.reshape(each, (n_blocks, -1)) for each in (products, moves)
            )
            curvature += device.get(flat @ flat_moves.T)
        return squares, curvature

    def _solve(self, sides: DeviceArray) -> DeviceArray:
        solution = self.device.positive_solve(self.matrix, sides)
        if solution is None:
            raise ValueError(INDEFINITE)
        return solution


def ridge_system(problem: Problem, weights: Array) -> RidgeSystem:
    """Return the system on the bank's device, if that has float64 and memory for it."""
    kernels = problem.bank.on_device()
    if kernels is not None and kernels.device.precise == kernels.device.xp.float64:
        # M, its factor and one more matrix of its size.
        if 3 * 8 * problem.n_rows**2 <= kernels.bytes_free:
            return DeviceRidgeSystem(problem, weights, kernels)
    return RidgeSystem(problem, weights)


def require_combined_kernel(problem: Problem, solver: str, advice: str) -> None:
    """Raise unless a combined kernel of all the rows fits into memory."""
    if problem.bank.max_combined_rows < problem.n_rows:
        raise ValueError(
            f"{solver} holds a combined kernel of all the {problem.n_rows} rows, got "
            f"memory for {problem.bank.max_combined_rows}; raise memory_limit or "
            f"{advice}."
        )


def solve_exactly(problem: Problem, weights: Array) -> RidgeSolution:
    """Coefficients, value and derivatives at these weights."""
    system = ridge_system(problem, weights)
    target = np.asarray(problem.target, dtype=np.float64)
    coef = system.solve(target)
    squares, curvature = system.derivatives(coef)
    value = 0.5 * float(np.sum(coef * target))
    return RidgeSolution(weights, coef, value, squares, curvature)
