"""Kernels on the same rows as arrays of a device: what solvers that run there read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen

TILE_SHARE = 16  # temporaries of a product take at most this part of the memory,
TILE_BYTES = 1 << 30  # and a tile no more than that: more is not faster
EVERY = slice(None)
LinearMap: TypeAlias = Callable[[DeviceArray], DeviceArray]


class DeviceKernels(ABC):
    """K_f(i, j) of all kernels f, in tiles that stay on the device.

    A subclass says where values come from: `tiles`, `combined`, `take`. All products
    follow, a tile at a time, and are summed up in the device's longest precision.
    Coefficients and products are arrays of the device, weights and results per block
    are NumPy's; rows are chosen by slices or by arrays of the device.

    Parameters
    ----------
    device : Device
    diagonals : array of shape (rows, blocks)
        K_f(i, i).
    dtype : dtype
        NumPy's name of the precision of values.
    room : int
        Bytes of the device that products and combined kernels may take.

    Attributes
    ----------
    product_work : float
        Multiplications of `scores` for one output; infinite where they are no fewer
        than with a combined kernel.
    """

    product_work: float = np.inf

    def __init__(self, device: Device, diagonals: Array, dtype: Any, room: int) -> None:
        self.device = device
        self.diagonals = diagonals
        self.n_rows, self.n_blocks = diagonals.shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.room = room

    @abstractmethod
    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        """Yield (f, K_f between some rows and others) for every kernel."""

    @abstractmethod
    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        """sum_f weights_f K_f between some rows and others."""

    @abstractmethod
    def take(self, index: Index) -> DeviceKernels:
        """The same kernels on some of the rows."""

    def scores(
        self,
        coef: DeviceArray,
        weights: Array,
        rows: Chosen = EVERY,
        columns: Chosen = EVERY,
    ) -> DeviceArray:
        """sum_f weights_f K_f(rows, columns) coef, in the precision of coef."""
        xp = self.device.xp
        parts = [
            xp.astype(self.combined(weights, part, columns), coef.dtype, copy=False)
            @ coef
            for part in self.parts(rows, coef.shape[0])
        ]
        return xp.concat(parts)

    def block_scores(self, coef: DeviceArray) -> DeviceArray:
        """K_f coef for every f, shape (blocks, rows, outputs), as precise as coef."""
        xp = self.device.xp
        parts = []
        for part in self.parts(EVERY):
            products: list[Any] = [None] * self.n_blocks
            for f, tile in self.tiles(part, EVERY):
                products[f] = xp.astype(tile, coef.dtype, copy=False) @ coef
            parts.append(xp.stack(products))
        return xp.concat(parts, axis=1)

    def square_norms(self, coef: DeviceArray, rows: Index | None = None) -> Array:
        """trace(coef' K_f coef) for every f; coef has all rows, or those named."""
        return np.asarray(self.column_squares(coef, rows).sum(axis=1))

    def column_squares(self, coef: DeviceArray, rows: Index | None = None) -> Array:
        """a' K_f a for every f and every column a, shape (blocks, columns)."""
        if rows is not None:
            return self.take(rows).column_squares(coef)
        xp = self.device.xp
        squares = np.zeros((self.n_blocks, coef.shape[1]))
        for part in self.parts(EVERY):
            own = self.device.pick(coef, part)
            found: list[Any] = [None] * self.n_blocks
            for f, tile in self.tiles(part, EVERY):
                product = xp.astype(tile, coef.dtype, copy=False) @ coef
                found[f] = xp.sum(own * product, axis=0)
            squares += self.device.get(xp.stack(found))
        return squares

    def damped(self, weights: Array) -> Callable[[float], LinearMap] | None:
        """From a level to the map of r to K (I + level K)^-1 r, K = sum_f weights_f K_f

        None where it costs more than `scores`.
        """
        return None

    def parts(self, rows: Chosen, width: int | None = None) -> list[Chosen]:
        """Rows in parts, so many that a tile against all rows keeps to its size."""
        width = self.n_rows if width is None else width
        size = max(1, self._tile_bytes() // (8 * max(1, width)))
        if isinstance(rows, slice):
            start, stop = rows.start or 0, rows.stop
            stop = self.n_rows if stop is None else stop
        else:
            start, stop = 0, rows.shape[0]
        cuts = [slice(a, min(a + size, stop)) for a in range(start, stop, size)]
        return cuts if isinstance(rows, slice) else [rows[cut] for cut in cuts]

    @property
    def max_combined_rows(self) -> int:
        """Rows whose combined kernel, with a part of it, keeps to the room."""
        return max(1, int((self.room / (2 * self.dtype.itemsize)) ** 0.5))

    def _tile_bytes(self) -> int:
        return int(min(TILE_BYTES, self.room // TILE_SHARE))
