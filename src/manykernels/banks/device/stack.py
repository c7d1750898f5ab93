"""Stored kernel matrices on a device, in whatever precision they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen


class StackKernels(DeviceKernels):
    """K_f = factors_f * matrices_f, converted tile by tile.

    Parameters
    ----------
    device : Device
    matrices : list of arrays of shape (rows, rows)
        On the device, float16 to float64.
    factors : array of shape (blocks,)
    diagonals : array of shape (rows, blocks)
    dtype : dtype
        Of the values that are handed out.
    room : int
        Bytes that products may take.
    """

    def __init__(
        self,
        device: Device,
        matrices: Sequence[DeviceArray],
        factors: Array,
        diagonals: Array,
        dtype: Any,
        room: int,
    ) -> None:
        super().__init__(device, diagonals, dtype, room)
        self.matrices = list(matrices)
        self.factors = factors

    @classmethod
    def of(cls, device: Device, matrices: Sequence[Any], dtype: Any) -> StackKernels:
        """From matrices of NumPy's."""
        diagonals = np.stack([np.diagonal(matrix) for matrix in matrices], axis=1)
        there = [device.put(matrix) for matrix in matrices]
        room = device.allowed_bytes(None)
        factors = np.ones(len(there))
        return cls(device, there, factors, diagonals.astype(float), dtype, room)

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        """Yield (f, K_f between some rows and others) for every kernel."""
        for f in range(self.n_blocks):
            yield f, self._tile(f, rows, columns) * float(self.factors[f])

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        """sum_f weights_f K_f between some rows and others."""
        factors = weights * self.factors
        used = np.flatnonzero(factors).tolist() or [0]
        out = self._tile(used[0], rows, columns) * float(factors[used[0]])
        for f in used[1:]:
            out += self._tile(f, rows, columns) * float(factors[f])
        return out

    def take(self, index: Index) -> DeviceKernels:
        """The same kernels on some of the rows, copied together."""
        device, chosen = self.device, self.device.put(index)
        matrices = [
            device.pick(device.pick(matrix, chosen), chosen, axis=1)
            for matrix in self.matrices
        ]
        diagonals = self.diagonals[index]
        return StackKernels(
            device, matrices, self.factors, diagonals, self.dtype, self.room
        )

    def _tile(self, f: int, rows: Chosen, columns: Chosen) -> DeviceArray:
        device = self.device
        tile = device.pick(device.pick(self.matrices[f], rows), columns, axis=1)
        return device.xp.astype(tile, device.dtype(self.dtype), copy=False)
