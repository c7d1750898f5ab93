"""A table of numbers that lies on a device: to the processor an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.device.base import Device, DeviceArray


class DeviceTable:
    """Rows, scaling and products as of a NumPy array, computed on the device.

    Rows and scaled copies are tables there again; products are NumPy's.

    Parameters
    ----------
    device : Device
    there : array of shape (rows, columns)
        On the device.
    dtype : dtype, optional
        In which values come to the processor; by default their own.

    Examples
    --------
    >>> table = DeviceTable(Device("NumPy", np), np.eye(3))
    >>> (2.0 * np.asarray(table[:2]) == table[:2] * 2.0 @ np.eye(3)).all()
    np.True_
    """

    ndim = 2
    __array_ufunc__ = None  # NumPy leaves operations to this class

    def __init__(self, device: Device, there: DeviceArray, dtype: Any = None) -> None:
        self.device, self.there = device, there
        self.shape: tuple[int, int] = tuple(there.shape)
        self.dtype = np.dtype(device.numpy_dtype(there) if dtype is None else dtype)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """On the device."""
        size = self.device.numpy_dtype(self.there).itemsize
        return int(self.shape[0] * self.shape[1] * size)

    @property
    def T(self) -> DeviceTable:
        """The transpose, there as well."""
        return DeviceTable(self.device, self.there.T, self.dtype)

    def __getitem__(self, rows: Any) -> DeviceTable:
        if not isinstance(rows, slice):
            rows = self.device.put(np.arange(len(self))[rows], np.int64)
        return DeviceTable(self.device, self.device.pick(self.there, rows), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        wanted = self.dtype if dtype is None else dtype
        return np.asarray(self.device.get(self.there), wanted)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceTable:
        """The same values, by another name: nobody writes to them."""
        return DeviceTable(self.device, self.there, dtype)

    def __mul__(self, factor: Any) -> DeviceTable:
        return DeviceTable(self.device, self.there * self._alike(factor), self.dtype)

    def __sub__(self, other: Any) -> DeviceTable:
        return DeviceTable(self.device, self.there - self._alike(other), self.dtype)

    def __matmul__(self, other: Any) -> NDArray[Any]:
        device = self.device
        right = device.precisely(device.put(other))
        found = device.get(device.precisely(self.there) @ right)
        return np.asarray(found, np.result_type(self.dtype, other.dtype))

    def _alike(self, values: Any) -> DeviceArray:
        """A number, or an array of NumPy's there, in the precision of the table."""
        if np.ndim(values) == 0:
            return float(values)
        return self.device.put(values, self.device.numpy_dtype(self.there))
