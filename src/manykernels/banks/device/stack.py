"""Stored kernel matrices on a device, in whatever precision they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen

COPIED_SHARE = 0.5  # of the room that the matrices of some of the rows may take


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
    chosen : array of int, optional
        On the device: which rows of the matrices there are, by default all.
    """

    def __init__(
        self,
        device: Device,
        matrices: Sequence[DeviceArray],
        factors: Array,
        diagonals: Array,
        dtype: Any,
        room: int,
        chosen: DeviceArray = None,
    ) -> None:
        super().__init__(device, diagonals, dtype, room)
        self.matrices = list(matrices)
        self.factors = factors
        self.chosen = chosen

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
        """The same kernels on some of the rows: copied together where there is room."""
        device, chosen = self.device, self.device.put(index)
        if self.chosen is not None:
            chosen = device.pick(self.chosen, chosen)
        sizes = [device.numpy_dtype(matrix).itemsize for matrix in self.matrices]
        copied = len(index) ** 2 * sum(sizes)
        matrices, room = self.matrices, self.room
        if copied <= COPIED_SHARE * room:
            matrices = [
                device.pick(device.pick(matrix, chosen), chosen, axis=1)
                for matrix in matrices
            ]
            chosen, room = None, room - copied
        diagonals = self.diagonals[index]
        return StackKernels(
            device, matrices, self.factors, diagonals, self.dtype, room, chosen
        )

    def _tile(self, f: int, rows: Chosen, columns: Chosen) -> DeviceArray:
        pick = self.device.pick
        if self.chosen is not None:
            rows, columns = pick(self.chosen, rows), pick(self.chosen, columns)
        tile = pick(pick(self.matrices[f], rows), columns, axis=1)
        return self.device.xp.astype(tile, self.device.dtype(self.dtype), copy=False)
