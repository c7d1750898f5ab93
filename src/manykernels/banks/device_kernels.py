"""Kernels on the same rows as arrays of a device, for solvers that run on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from manykernels.base.arrays import Array, Index, Selection
from manykernels.device import Device, DeviceArray
from manykernels.device.base import DEVICE_TILE_VALUES, Chosen
from manykernels.kernels.kernel_set import KernelSet

TILE_SHARE = 16  # temporaries of a product take at most this part of the memory
COPIED_SHARE = 0.5  # of the free bytes that the matrices of some of the rows may take
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
    bytes_free : int
        Bytes of the device that products and combined kernels may take.

    Attributes
    ----------
    product_work : float
        Multiplications of `scores` for one output; infinite where they are no fewer
        than with a combined kernel.
    """

    product_work: float = np.inf

    def __init__(
        self, device: Device, diagonals: Array, dtype: Any, bytes_free: int
    ) -> None:
        self.device = device
        self.diagonals = diagonals
        self.n_rows, self.n_blocks = diagonals.shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.bytes_free = bytes_free

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
        if rows is not None:  # only the values among these rows are needed
            return self.take(rows).column_squares(coef)
        xp = self.device.xp
        squares = np.zeros((self.n_blocks, coef.shape[1]))
        for part in self.parts(EVERY):
            of_part = self.device.pick(coef, part)
            sums: list[Any] = [None] * self.n_blocks
            for f, tile in self.tiles(part, EVERY):
                product = xp.astype(tile, coef.dtype, copy=False) @ coef
                sums[f] = xp.sum(of_part * product, axis=0)
            squares += self.device.get(xp.stack(sums))
        return squares

    def damped(self, weights: Array) -> Callable[[float], LinearMap] | None:
        """From a level to the map of r to K (I + level K)^-1 r, K = sum_f weights_f K_f

        None where it costs more than `scores`.
        """
        return None

    def parts(self, rows: Chosen, width: int | None = None) -> list[Chosen]:
        """Rows in parts, so many that a tile against all rows keeps to its size."""
        width = self.n_rows if width is None else width
        # Counted in float64: sums of a certificate convert their tiles to it.
        values = min(DEVICE_TILE_VALUES, self.bytes_free // TILE_SHARE // 8)
        size = max(1, values // max(1, width))
        if isinstance(rows, slice):
            start, stop = rows.start or 0, rows.stop
            stop = self.n_rows if stop is None else stop
        else:
            start, stop = 0, rows.shape[0]
        cuts = [slice(a, min(a + size, stop)) for a in range(start, stop, size)]
        return cuts if isinstance(rows, slice) else [rows[cut] for cut in cuts]

    @property
    def max_combined_rows(self) -> int:
        """Rows whose combined kernel, with a part of it, keeps to the free bytes."""
        return max(1, int((self.bytes_free / (2 * self.dtype.itemsize)) ** 0.5))


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
    bytes_free : int
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
        bytes_free: int,
        chosen: DeviceArray = None,
    ) -> None:
        super().__init__(device, diagonals, dtype, bytes_free)
        self.matrices = list(matrices)
        self.factors = factors
        self.chosen = chosen

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        for f in range(self.n_blocks):
            yield f, self._tile(f, rows, columns) * float(self.factors[f])

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        factors = weights * self.factors
        used = np.flatnonzero(factors).tolist() or [0]
        out = self._tile(used[0], rows, columns) * float(factors[used[0]])
        for f in used[1:]:
            out += self._tile(f, rows, columns) * float(factors[f])
        return out

    def take(self, index: Index) -> DeviceKernels:
        device, chosen = self.device, self.device.put(index)
        if self.chosen is not None:
            chosen = device.pick(self.chosen, chosen)
        sizes = [device.numpy_dtype(matrix).itemsize for matrix in self.matrices]
        copied = len(index) ** 2 * sum(sizes)
        # A working set is read many times. Picking its rows and columns from the whole
        # matrices takes longer each time, and is only done where memory is short.
        matrices, bytes_free = self.matrices, self.bytes_free
        if copied <= COPIED_SHARE * bytes_free:
            matrices = [
                device.pick(device.pick(matrix, chosen), chosen, axis=1)
                for matrix in matrices
            ]
            chosen, bytes_free = None, bytes_free - copied
        diagonals = self.diagonals[index]
        return StackKernels(
            device, matrices, self.factors, diagonals, self.dtype, bytes_free, chosen
        )

    def _tile(self, f: int, rows: Chosen, columns: Chosen) -> DeviceArray:
        pick = self.device.pick
        if self.chosen is not None:
            rows, columns = pick(self.chosen, rows), pick(self.chosen, columns)
        tile = pick(pick(self.matrices[f], rows), columns, axis=1)
        return self.device.xp.astype(tile, self.device.dtype(self.dtype), copy=False)


class HostKernels(DeviceKernels):
    """Values are computed on the processor, tile by tile, and sent.

    Parameters
    ----------
    device : Device
    kernels : KernelSet
    bytes_free : int
        Bytes of the device that products may take.
    """

    def __init__(self, device: Device, kernels: KernelSet, bytes_free: int) -> None:
        diagonals = np.asarray(kernels.diagonals().T)
        super().__init__(device, diagonals, kernels.dtype, bytes_free)
        self.kernels = kernels

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        for f, tile in self.kernels.tile(self._places(rows), self._places(columns)):
            yield f, self.device.put(tile, self.dtype)

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        used = self.kernels.only(np.flatnonzero(weights))
        of_rows, of_columns = self._places(rows), self._places(columns)
        tile = used.combined_tile(weights, of_rows, of_columns)
        return self.device.put(tile, self.dtype)

    def take(self, index: Index) -> DeviceKernels:
        return HostKernels(self.device, self.kernels.take(index), self.bytes_free)

    def _places(self, chosen: Any) -> Selection:
        if isinstance(chosen, slice):
            return slice(*chosen.indices(self.n_rows))
        return np.asarray(self.device.get(chosen), np.intp)
