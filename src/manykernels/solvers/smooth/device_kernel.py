"""Products with K = sum_f d_f K_f that stay on a device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manykernels.banks.base import Bank, norms_of_squares
from manykernels.banks.device.kernels import DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import DeviceArray
from manykernels.solvers.problem import Problem
from manykernels.solvers.smooth.kernel import holds_combined
from manykernels.solvers.smooth.losses import LinearMap, RowLosses


class DeviceFrozenKernel:
    """`FrozenKernel` for arrays of a device.

    Products are formed in the precision of the kernel values, and the combined kernel
    is held there unless memory does not allow it or features serve better.

    Examples
    --------
    >>> from manykernels.banks import build_bank
    >>> from manykernels.device import Device
    >>> from manykernels.kernels import KernelSet, Linear
    >>> kernels = KernelSet.fit([Linear()], [[1.0], [2.0]], dtype="float64")
    >>> bank = build_bank(kernels, device=Device("NumPy", np))
    >>> kernel = DeviceFrozenKernel(bank, bank.on_device(), np.array([3.0]))
    >>> product = kernel.times(np.array([[1.0], [0.0]]))
    >>> product.tolist() == bank.scores(np.array([[1.0], [0.0]]), [3.0]).tolist()
    True
    """

    def __init__(self, bank: Bank, kernels: DeviceKernels, weights: Array) -> None:
        self.bank = bank
        self.kernels = kernels
        self.device = kernels.device
        self.xp = kernels.device.xp
        self.weights = weights
        self.dtype = self.device.dtype(kernels.dtype)
        self.exact = self.dtype == self.device.precise
        self.held: DeviceArray = None
        if holds_combined(bank):
            parts = kernels.parts(slice(0, kernels.n_rows))
            rows = [kernels.combined(weights, part) for part in parts]
            self.held = rows[0] if len(rows) == 1 else self.xp.concat(rows)

    def put(self, coef: Array) -> DeviceArray:
        """An array of NumPy's there, in the precision of sums."""
        return self.device.precisely(self.device.put(coef))

    def get(self, coef: DeviceArray) -> Array:
        """An array from there, as NumPy's."""
        return np.asarray(self.device.get(coef), np.float64)

    def dot(self, a: DeviceArray, b: DeviceArray) -> float:
        """The sum of the products of two arrays."""
        return float(self.xp.sum(a * b))

    def losses(self, problem: Problem) -> RowLosses:
        """The problem's losses for scores that are there."""
        there = problem.loss.on_device(self.device)
        target, bound = self.device.put(problem.target), self.put(problem.bound)
        return RowLosses(there, target, bound, self.dot)

    def times(self, coef: DeviceArray) -> DeviceArray:
        """K coef, multiplied in the precision of kernel values."""
        there = self.xp.astype(coef, self.dtype, copy=False)
        if self.held is None:
            found = self.kernels.scores(there, self.weights)
        else:
            found = self.held @ there
        return self.device.precisely(found)

    def damped(self) -> Callable[[float], LinearMap] | None:
        """From a level to the map of r to K (I + level K)^-1 r, if that is cheap."""
        found = self.kernels.damped(self.weights)
        return None if found is None else lambda level: self._in_sums(found(level))

    def _in_sums(self, product: LinearMap) -> LinearMap:
        """A map in the precision of kernel values, to and from that of sums."""
        return lambda coef: self.device.precisely(
            product(self.xp.astype(coef, self.dtype, copy=False))
        )

    def times_each(self, moves: DeviceArray) -> DeviceArray:
        """K move for all moves of shape (moves, rows, outputs), in one product."""
        xp, (n_moves, n_rows, n_outputs) = self.xp, moves.shape
        columns = xp.reshape(xp.permute_dims(moves, (1, 0, 2)), (n_rows, -1))
        product = xp.reshape(self.times(columns), (n_rows, n_moves, n_outputs))
        return xp.permute_dims(product, (1, 0, 2))

    def exact_times(self, coef: DeviceArray) -> DeviceArray:
        """K coef, multiplied in the precision of sums."""
        device = self.device
        if self.held is None:
            return self.kernels.scores(coef, self.weights)
        parts = self.kernels.parts(slice(0, self.kernels.n_rows))
        rows = (device.precisely(device.pick(self.held, part)) for part in parts)
        return self.xp.concat([some @ coef for some in rows])

    def block_products(self, coef: DeviceArray, blocks: Index) -> DeviceArray:
        """K_f coef for some f, shape (blocks, rows, outputs)."""
        there = self.xp.astype(coef, self.dtype, copy=False)
        found = self.kernels.block_scores(there)
        return self.device.precisely(self.device.pick(found, self.device.put(blocks)))

    def block_norms(self, coefs: list[DeviceArray]) -> list[Array]:
        """||theta_f|| for each of some coefficients; kernel values are passed once."""
        columns = self.kernels.column_squares(self.xp.concat(coefs, axis=1))
        squares = np.split(columns, len(coefs), axis=1)
        return [
            norms_of_squares(self.bank, self.get(coef), own.sum(axis=1))
            for coef, own in zip(coefs, squares, strict=True)
        ]
