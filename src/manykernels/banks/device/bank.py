"""A bank whose kernel values live on a device, for solvers that ask in NumPy."""

from __future__ import annotations

import numpy as np

from manykernels.banks.base import Bank, support_of, without_noise
from manykernels.banks.device.kernels import DeviceKernels
from manykernels.base.arrays import Array, Index, Values
from manykernels.device.base import Chosen


class DeviceBank(Bank):
    """All answers of a bank, computed on a device.

    Solvers that run there themselves ask `on_device`; to all others it is a bank.

    Parameters
    ----------
    kernels : DeviceKernels
    names : list of str
        One per kernel.
    noise : float
        Size of the rounding in the values, where it is larger than the dtype's.

    Examples
    --------
    >>> from manykernels.banks.device.stack import StackKernels
    >>> from manykernels.device import Device
    >>> numpy = Device("NumPy", np)
    >>> kernels = StackKernels.of(numpy, [np.eye(3), np.ones((3, 3))], np.float64)
    >>> bank = DeviceBank(kernels, ["one", "all"])
    >>> bank.combine(np.array([2.0, 1.0]), np.array([0])).tolist()
    [[3.0, 1.0, 1.0]]
    """

    def __init__(
        self, kernels: DeviceKernels, names: list[str], noise: float = 0.0
    ) -> None:
        most = kernels.max_combined_rows
        super().__init__(kernels.n_rows, names, kernels.dtype, most)
        self.kernels = kernels
        self.device = kernels.device
        self.noise = noise
        self.product_work = kernels.product_work

    def on_device(self) -> DeviceKernels:
        """The same kernels as arrays of the device."""
        return self.kernels

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        return self.kernels.diagonals

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)
        at = 0
        for part in self.kernels.parts(self.device.put(index)):
            stop = at + part.shape[0]
            for f, tile in self.kernels.tiles(part, slice(None)):
                out[at:stop, f] = self.device.get(tile)
            at = stop
        return out

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        out = self._new_rows(rows) if out is None else out
        at = 0
        for part in self.kernels.parts(self.device.put(rows)):
            stop = at + part.shape[0]
            out[at:stop] = self.device.get(self.kernels.combined(weights, part))
            at = stop
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64, shape (rows, outputs)."""
        return self._scores(slice(0, self.n_rows), coef, weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`, from their own kernel values only."""
        return self._scores(self.device.put(rows), coef, weights)

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        products = self.kernels.block_scores(self.device.put(coef, self.dtype))
        return np.ascontiguousarray(self.device.get(products).transpose(2, 0, 1))

    def block_products(self, coefs: Array) -> Array:
        """K_f coefs_f for every f, in float64: (blocks, outputs, rows) in and out."""
        device, out = self.device, np.zeros_like(coefs)
        columns = [device.precisely(device.put(block.T)) for block in coefs]
        for part in self.kernels.parts(slice(None)):
            for f, tile in self.kernels.tiles(part, slice(None)):
                found = device.get(device.precisely(tile) @ columns[f])
                out[f, :, part] = found.T
        return out

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, in float64."""
        support = support_of(coef)
        if not len(support):
            return np.zeros(self.n_blocks)
        active = self.device.precisely(self.device.put(coef[support]))
        some = support if len(support) < self.n_rows else None
        squares = self.kernels.square_norms(active, some)
        return without_noise(squares, coef, self.noise) if self.noise else squares

    def subset(self, index: Index) -> DeviceBank:
        """The same kernels on fewer rows, on the device as well."""
        return DeviceBank(self.kernels.take(index), self.names, self.noise)

    def _scores(self, rows: Chosen, coef: Array, weights: Array) -> Array:
        """From the kernel values of the support alone."""
        device, support = self.device, support_of(coef)
        if not len(support):
            n_rows = self.n_rows if isinstance(rows, slice) else rows.shape[0]
            return np.zeros((n_rows, coef.shape[1]))
        active = device.precisely(device.put(coef[support]))
        found = self.kernels.scores(active, weights, rows, device.put(support))
        return np.asarray(device.get(found), np.float64)
