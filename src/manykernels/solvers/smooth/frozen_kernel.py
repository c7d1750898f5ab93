"""Products with K = sum_f d_f K_f, many times for the same weights d."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from manykernels.banks.base import Bank, block_norms
from manykernels.banks.device_kernels import DeviceKernels
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices
from manykernels.device import HOST, Device, DeviceArray
from manykernels.losses.base import LinearMap

# Kernels of up to as many rows are held in float64: twice the bytes of float32, and no
# more passes over the bank for exact products.
FLOAT64_ROWS = 8192
DampedProduct: TypeAlias = Callable[[float], LinearMap]


class FrozenKernel:
    """K coef for one combined kernel.

    The kernels are combined once and held, unless memory does not allow it or the
    blocks' own products (thin features, sparse matrices) are cheaper. Arrays are
    NumPy's here, and a device's in the subclass.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> bank = GramBank(np.stack([np.eye(2), np.ones((2, 2))], axis=1))
    >>> kernel = FrozenKernel(bank, np.array([2.0, 1.0]))
    >>> kernel.times(np.array([[1.0], [0.0]])).tolist()
    [[3.0], [1.0]]
    """

    device: Device = HOST

    def __init__(self, bank: Bank, weights: Array) -> None:
        self.bank = bank
        self.weights = weights
        self.held: DeviceArray | None = (
            self._combined() if holds_combined(bank) else None
        )

    @property
    def exact(self) -> bool:
        """Whether products carry no rounding but that of float64."""
        return self.held is None or bool(self.held.dtype == np.float64)

    def times(self, coef: DeviceArray) -> DeviceArray:
        """K coef, in float64; multiplied in the precision of a held kernel."""
        if self.held is None:
            return self.bank.scores(coef, self.weights)
        held, by_output = self.held, np.ascontiguousarray(coef.T, self.held.dtype)

        def work(start: int, stop: int) -> Values:
            return np.asarray(by_output @ held[:, start:stop])  # K is symmetric

        parts = in_slices(len(held), held.nbytes, work)
        return np.ascontiguousarray(np.concatenate(parts, axis=1).T, np.float64)

    def exact_times(self, coef: DeviceArray) -> DeviceArray:
        """K coef without the rounding of a kernel held in single precision."""
        return self.times(coef) if self.exact else self.bank.scores(coef, self.weights)

    def times_each(self, moves: DeviceArray) -> DeviceArray:
        """K move for all moves of shape (moves, rows, outputs), in one product."""
        xp, (n_moves, n_rows, n_outputs) = self.device.xp, moves.shape
        columns = xp.reshape(xp.permute_dims(moves, (1, 0, 2)), (n_rows, -1))
        product = xp.reshape(self.times(columns), (n_rows, n_moves, n_outputs))
        return xp.permute_dims(product, (1, 0, 2))

    def damped(self) -> DampedProduct | None:
        """From a level to the map of r to K (I + level K)^-1 r, if that is cheap."""
        return None

    def block_products(self, coef: DeviceArray, blocks: Index) -> DeviceArray:
        """K_f coef for some f, shape (blocks, rows, outputs)."""
        parts = self.bank.block_scores(coef)[:, blocks]
        return np.ascontiguousarray(parts.transpose(1, 2, 0), np.float64)

    def block_norms(self, coefs: list[DeviceArray]) -> list[Array]:
        """||theta_f|| for each of some coefficients."""
        return [block_norms(self.bank, coef) for coef in coefs]

    def put(self, coef: Array) -> DeviceArray:
        """Return a NumPy array as the products take it."""
        return self.device.precisely(self.device.put(coef))

    def get(self, coef: DeviceArray) -> Array:
        """Return an array of the device as NumPy's."""
        return np.asarray(self.device.get(coef), np.float64)

    def diagonal(self) -> Array:
        """K(i, i)."""
        return np.asarray(self.bank.diagonals() @ self.weights)

    def _combined(self) -> DeviceArray:
        """The whole combined kernel; in float64 where it is small and can be."""
        bank = self.bank
        precise = bank.stores_values and bank.n_rows <= FLOAT64_ROWS
        held = np.empty((bank.n_rows,) * 2, np.float64 if precise else bank.dtype)
        return bank.combine(self.weights, np.arange(bank.n_rows), held)


class DeviceFrozenKernel(FrozenKernel):
    """Products that are formed on a device, in the precision of the kernel values.

    Examples
    --------
    >>> from manykernels.banks import build_bank
    >>> from manykernels.kernels import Linear
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> kernels = KernelSet.fit([Linear()], [[1.0], [2.0]], dtype="float64")
    >>> bank = build_bank(kernels, device=HOST)
    >>> kernel = DeviceFrozenKernel(bank, bank.on_device(), np.array([3.0]))
    >>> product = kernel.times(np.array([[1.0], [0.0]]))
    >>> product.tolist() == bank.scores(np.array([[1.0], [0.0]]), [3.0]).tolist()
    True
    """

    def __init__(self, bank: Bank, kernels: DeviceKernels, weights: Array) -> None:
        self.kernels = kernels
        self.device = kernels.device
        self.dtype = self.device.dtype(kernels.dtype)
        super().__init__(bank, weights)

    @property
    def exact(self) -> bool:
        return bool(self.dtype == self.device.precise)

    def times(self, coef: DeviceArray) -> DeviceArray:
        short = self._shorten(coef)
        if self.held is None:
            return self.device.precisely(self.kernels.scores(short, self.weights))
        return self.device.precisely(self.held @ short)

    def exact_times(self, coef: DeviceArray) -> DeviceArray:
        device = self.device
        if self.held is None:
            return self.kernels.scores(coef, self.weights)
        parts = self.kernels.parts(slice(0, self.kernels.n_rows))
        rows = (device.precisely(device.pick(self.held, part)) for part in parts)
        return device.xp.concat([some @ coef for some in rows])

    def damped(self) -> DampedProduct | None:
        damped_at = self.kernels.damped(self.weights)
        if damped_at is None:
            return None

        def damped(level: float) -> LinearMap:
            product, device = damped_at(level), self.device
            return lambda coef: device.precisely(product(self._shorten(coef)))

        return damped

    def block_products(self, coef: DeviceArray, blocks: Index) -> DeviceArray:
        products = self.kernels.block_scores(self._shorten(coef))
        chosen = self.device.pick(products, self.device.put(blocks))
        return self.device.precisely(chosen)

    def block_norms(self, coefs: list[DeviceArray]) -> list[Array]:
        # Together: a pass over the kernel values costs more than the products.
        columns = self.kernels.column_squares(self.device.xp.concat(coefs, axis=1))
        squares = np.split(columns, len(coefs), axis=1)
        return [
            block_norms(self.bank, self.get(coef), square.sum(axis=1))
            for coef, square in zip(coefs, squares, strict=True)
        ]

    def _shorten(self, coef: DeviceArray) -> DeviceArray:
        """The coefficients in the precision of kernel values."""
        return self.device.xp.astype(coef, self.dtype, copy=False)

    def _combined(self) -> DeviceArray:
        parts = self.kernels.parts(slice(0, self.kernels.n_rows))
        rows = [self.kernels.combined(self.weights, part) for part in parts]
        return rows[0] if len(rows) == 1 else self.device.xp.concat(rows)


def freeze(bank: Bank, weights: Array, on_device: bool = True) -> FrozenKernel:
    """Return the combined kernel where the bank's values are, or in NumPy."""
    kernels = bank.on_device() if on_device else None
    if kernels is None:
        return FrozenKernel(bank, weights)
    return DeviceFrozenKernel(bank, kernels, weights)


def holds_combined(bank: Bank) -> bool:
    """Whether one combined kernel fits, and serves better than the blocks' products.

    Examples
    --------
    >>> from manykernels.banks import BlockBank, FeatureBlock
    >>> holds_combined(BlockBank([FeatureBlock(np.ones((9, 2)))]))
    False
    """
    # Products of thin blocks have to save half of the work to be faster.
    thin = bank.product_work < 0.5 * bank.n_rows**2
    return bank.n_rows <= bank.max_combined_rows and not thin
