"""Exact solves of the squared loss where the kernel values are: on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks.device.kernels import DeviceKernels
from manykernels.base.arrays import Array
from manykernels.device import DeviceArray
from manykernels.solvers.problem import Problem

MATRICES = 3  # of rows by rows in float64 that a solution holds at most
PRODUCT_SHARE = 8  # products K_f coef take at most this part of the room at a time
INDEFINITE = (
    "kernels must be positive semi-definite to solve the squared loss exactly, got a "
    "combined kernel with eigenvalues below -1 / C; pass dtype='float64' and "
    "psd='clip', or lower C."
)


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


def direct_kernels(problem: Problem) -> DeviceKernels | None:
    """The kernels on a device with float64 and room for exact solves, if there are."""
    there = problem.bank.on_device()
    if there is None or there.device.precise != there.device.xp.float64:
        return None
    return there if 8 * MATRICES * problem.n_rows**2 <= there.room else None


def solve_there(problem: Problem, weights: Array, kernels: DeviceKernels) -> Solved:
    """Coefficients, value and derivatives at these weights, in float64."""
    device, xp = kernels.device, kernels.device.xp
    matrix = _matrix(problem, weights, kernels)
    target = device.put(np.asarray(problem.target, np.float64))
    coef = _solution(kernels, matrix, target)
    n_blocks, n_outputs = kernels.n_blocks, target.shape[1]
    squares, curvature = np.zeros(n_blocks), np.zeros((n_blocks, n_blocks))
    numbers = 8 * problem.n_rows * n_blocks * PRODUCT_SHARE
    step = max(1, kernels.room // numbers)
    for start in range(0, n_outputs, step):
        part = coef[:, start : min(start + step, n_outputs)]
        products = kernels.block_scores(part)  # (blocks, rows, outputs)
        squares += device.get(xp.sum(products * part, axis=(1, 2)))
        flat = xp.reshape(products, (n_blocks, -1))
        sides = xp.reshape(xp.permute_dims(products, (1, 0, 2)), (problem.n_rows, -1))
        moved = xp.reshape(
            _solution(kernels, matrix, sides), (problem.n_rows, n_blocks, -1)
        )
        moves = xp.reshape(xp.permute_dims(moved, (1, 0, 2)), (n_blocks, -1))
        curvature += device.get(flat @ moves.T)
    value = 0.5 * float(xp.sum(coef * target))
    return Solved(weights, device.get(coef), value, squares, curvature)


def solve_with_diagonal(
    problem: Problem, weights: Array, kernels: DeviceKernels, sides: Array
) -> tuple[Array, Array]:
    """M^-1 sides and the diagonal of M^-1."""
    device, every = kernels.device, np.eye(problem.n_rows)
    matrix = _matrix(problem, weights, kernels)
    found = _solution(kernels, matrix, device.put(np.hstack([sides, every])))
    n_sides = sides.shape[1]
    diagonal = device.xp.linalg.diagonal(found[:, n_sides:])
    return device.get(found[:, :n_sides]), device.get(diagonal)


def _matrix(problem: Problem, weights: Array, kernels: DeviceKernels) -> DeviceArray:
    """M = sum_f weights_f K_f + diag(1 / (C c_i))."""
    device = kernels.device
    rows: list[Any] = []
    for part in kernels.parts(slice(0, problem.n_rows)):
        rows.append(device.precisely(kernels.combined(weights, part)))
    matrix = rows[0] if len(rows) == 1 else device.xp.concat(rows)
    places = device.put(np.arange(problem.n_rows))
    own = device.put(1.0 / problem.bound)[:, None]
    return matrix + own * device.precisely(places[:, None] == places[None, :])


def _solution(
    kernels: DeviceKernels, matrix: DeviceArray, sides: DeviceArray
) -> DeviceArray:
    found = kernels.device.positive_solve(matrix, sides)
    if found is None:
        raise ValueError(INDEFINITE)
    return found
