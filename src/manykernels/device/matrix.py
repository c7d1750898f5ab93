"""A matrix that a user has on a device: parts come as they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.device.base import Device, DeviceArray

BAND_VALUES = 1 << 27  # looked at a time


class DeviceMatrix:
    """To the processor an array that is read in pieces; its values stay where they are.

    Parameters
    ----------
    device : Device
    there : array of shape (rows, columns)
        On the device.

    Examples
    --------
    >>> matrix = DeviceMatrix(Device("NumPy", np), np.eye(3))
    >>> matrix[np.array([1])], matrix.facts().tolist()
    (array([[0., 1., 0.]]), [1.0, 0.0, 3.0])
    """

    ndim = 2

    def __init__(self, device: Device, there: DeviceArray) -> None:
        self.device, self.there = device, there
        self.shape: tuple[int, int] = tuple(there.shape)
        self.dtype = device.numpy_dtype(there)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        found = self.there
        for axis, chosen in enumerate((rows, columns)):
            if not isinstance(chosen, slice):
                chosen = self.device.put(np.ravel(np.asarray(chosen)), np.int64)
            found = self.device.pick(found, chosen, axis)
        return self.device.get(found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.device.get(self.there), dtype)

    def __matmul__(self, other: Any) -> NDArray[Any]:
        return np.asarray(self, np.float64) @ other

    @property
    def T(self) -> NDArray[Any]:
        """The transpose, here."""
        return np.asarray(self).T

    def diagonal(self) -> NDArray[Any]:
        """K(i, i)."""
        return self.device.get(self.device.xp.linalg.diagonal(self.there))

    def facts(self) -> NDArray[np.float64]:
        """Largest value, largest asymmetry, and a sum that is finite if all values are.

        The asymmetry of a matrix that is not square is no number.
        """
        xp, n_rows = self.device.xp, self.shape[0]
        size = max(1, BAND_VALUES // max(1, self.shape[1]))
        square, found = self.shape[0] == self.shape[1], []
        for start in range(0, n_rows, size):
            part = slice(start, min(start + size, n_rows))
            band = xp.astype(self.there[part, ...], xp.float32)
            mirror = self.there[:, part].T if square else band
            apart = xp.max(xp.abs(band - xp.astype(mirror, xp.float32)))
            total = xp.sum(self.device.precisely(xp.sum(band, axis=1)))
            largest = self.device.precisely(xp.max(xp.abs(band)))
            found.append(xp.stack([largest, self.device.precisely(apart), total]))
        bands = np.asarray(self.device.get(xp.stack(found)), np.float64)
        gap = bands[:, 1].max() if square else np.nan
        return np.array([bands[:, 0].max(), gap, bands[:, 2].sum()])
