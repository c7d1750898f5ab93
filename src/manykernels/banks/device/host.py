"""Kernels that only the processor computes, for products on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index, Selection
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen
from manykernels.kernels import KernelSet


class HostKernels(DeviceKernels):
    """Values are computed on the processor, tile by tile, and sent.

    Parameters
    ----------
    device : Device
    kernels : KernelSet
    room : int
        Bytes of the device that products may take.
    """

    def __init__(self, device: Device, kernels: KernelSet, room: int) -> None:
        diagonals = np.asarray(kernels.diagonals().T)
        super().__init__(device, diagonals, kernels.dtype, room)
        self.kernels = kernels

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        """Yield (f, K_f between some rows and others) for every kernel."""
        places = self._places(rows), self._places(columns)
        for f, tile in self.kernels.tile(*places):
            yield f, self.device.put(tile, self.dtype)

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        """sum_f weights_f K_f between some rows and others."""
        used = self.kernels.only(np.flatnonzero(weights))
        places = self._places(rows), self._places(columns)
        return self.device.put(used.combined_tile(weights, *places), self.dtype)

    def take(self, index: Index) -> DeviceKernels:
        """The same kernels on some of the rows."""
        return HostKernels(self.device, self.kernels.take(index), self.room)

    def _places(self, chosen: Any) -> Selection:
        if isinstance(chosen, slice):
            return slice(*chosen.indices(self.n_rows))
        return np.asarray(self.device.get(chosen), np.intp)
