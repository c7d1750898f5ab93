"""Arrays on a device that NumPy code reads: their values stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.device.base import DEVICE_TILE_VALUES, Device, DeviceArray


class HostView:
    """A two-dimensional array on a device with the attributes of a NumPy array.

    Parameters
    ----------
    device : Device
    device_array : array of shape (rows, columns)
        On the device.
    dtype : dtype, optional
        In which values come to the processor; by default their own.
    """

    ndim = 2

    def __init__(
        self, device: Device, device_array: DeviceArray, dtype: Any = None
    ) -> None:
        self.device, self.device_array = device, device_array
        self.shape: tuple[int, int] = tuple(device_array.shape)
        self.dtype = np.dtype(
            device.numpy_dtype(device_array) if dtype is None else dtype
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        wanted = self.dtype if dtype is None else dtype
        return np.asarray(self.device.get(self.device_array), wanted)


class DeviceMatrix(HostView):
    """A matrix that a user has on a device: rows and columns come as they are read.

    Examples
    --------
    >>> matrix = DeviceMatrix(Device("NumPy", np), np.eye(3))
    >>> matrix[np.array([1])], matrix.facts().tolist()
    (array([[0., 1., 0.]]), [1.0, 0.0, 3.0])
    """

    def __getitem__(self, index: Any) -> NDArray[Any]:
        both = index if isinstance(index, tuple) else (index, slice(None))
        part = self.device_array
        for axis, chosen in enumerate(both):
            if not isinstance(chosen, slice):
                chosen = self.device.put(np.ravel(np.asarray(chosen)), np.int64)
            part = self.device.pick(part, chosen, axis)
        return self.device.get(part)

    def __matmul__(self, other: Any) -> NDArray[Any]:
        return np.asarray(self, np.float64) @ other

    @property
    def T(self) -> NDArray[Any]:
        """The transpose, as a NumPy array."""
        return np.asarray(self).T

    def diagonal(self) -> NDArray[Any]:
        """K(i, i)."""
        return self.device.get(self.device.xp.linalg.diagonal(self.device_array))

    def facts(self) -> NDArray[np.float64]:
        """Largest value, largest asymmetry, and a sum that is finite if all values are.

        The asymmetry of a matrix that is not square is NaN.
        """
        xp, (n_rows, n_columns) = self.device.xp, self.shape
        size, is_square = (
            max(1, DEVICE_TILE_VALUES // max(1, n_columns)),
            n_rows == n_columns,
        )
        facts = []
        for start in range(0, n_rows, size):
            part = slice(start, min(start + size, n_rows))
            # Float32 is precise enough for a check, also of matrices in half precision.
            band = xp.astype(self.device_array[part, ...], xp.float32)
            mirror = self.device_array[:, part].T if is_square else band
            gap = xp.max(xp.abs(band - xp.astype(mirror, xp.float32)))
            total = xp.sum(self.device.precisely(xp.sum(band, axis=1)))
            largest = self.device.precisely(xp.max(xp.abs(band)))
            facts.append(xp.stack([largest, self.device.precisely(gap), total]))
        bands = np.asarray(self.device.get(xp.stack(facts)), np.float64)
        gap = bands[:, 1].max() if is_square else np.nan
        return np.array([bands[:, 0].max(), gap, bands[:, 2].sum()])


class DeviceTable(HostView):
    """A table whose rows, transpose and scaled copies stay on the device.

    Products are arrays of NumPy.

    Examples
    --------
    >>> table = DeviceTable(Device("NumPy", np), np.eye(3))
    >>> (2.0 * np.asarray(table[:2]) == table[:2] * 2.0 @ np.eye(3)).all()
    np.True_
    """

    __array_ufunc__ = None  # NumPy leaves operations to this class

    @property
    def nbytes(self) -> int:
        """On the device."""
        size = self.device.numpy_dtype(self.device_array).itemsize
        return int(self.shape[0] * self.shape[1] * size)

    @property
    def T(self) -> DeviceTable:
        """The transpose."""
        return self._with(self.device_array.T)

    def __getitem__(self, rows: Any) -> DeviceTable:
        if not isinstance(rows, slice):
            rows = self.device.put(np.arange(len(self))[rows], np.int64)
        return self._with(self.device.pick(self.device_array, rows))

    def astype(self, dtype: Any, copy: bool = True) -> DeviceTable:
        """The same values under another dtype; the table is never written to."""
        return DeviceTable(self.device, self.device_array, dtype)

    def __mul__(self, factor: Any) -> DeviceTable:
        return self._with(self.device_array * self._operand(factor))

    def __sub__(self, other: Any) -> DeviceTable:
        return self._with(self.device_array - self._operand(other))

    def __matmul__(self, other: Any) -> NDArray[Any]:
        device = self.device
        right = device.precisely(device.put(other))
        product = device.get(device.precisely(self.device_array) @ right)
        return np.asarray(product, np.result_type(self.dtype, other.dtype))

    def _with(self, values: DeviceArray) -> DeviceTable:
        return DeviceTable(self.device, values, self.dtype)

    def _operand(self, values: Any) -> DeviceArray:
        """A number, or a NumPy array on the device in the precision of the table."""
        if np.ndim(values) == 0:
            return float(values)
        return self.device.put(values, self.device.numpy_dtype(self.device_array))
