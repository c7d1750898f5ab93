"""Features of approximate kernels on a device, where they stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Curve
from manykernels.device.table import DeviceTable
from manykernels.kernels.base import Kernel
from manykernels.kernels.fused import EXPONENTIAL, curve, terms
from manykernels.kernels.rows import Rows

LinearMap: TypeAlias = Callable[[DeviceArray], DeviceArray]  # from rows to phi
BLOCK_BYTES = 2**26  # of rows and of phi at a time


def mapped_there(
    device: Device, features: LinearMap, values: Values, dtype: Any, unit: bool
) -> Rows:
    """phi of a table: computed in float64 a block at a time, kept in `dtype`.

    Parameters
    ----------
    device : Device
    features : callable
        From rows there to phi there.
    values : array of shape (rows, columns)
    dtype : dtype
    unit : bool
        Whether phi is scaled to unit length.
    """
    parts, squares = [], []
    size = max(1, BLOCK_BYTES // (8 * values.shape[1]))
    for start in range(0, len(values), size):
        rows = device.precisely(device.put(values[start : start + size]))
        phi = features(rows)
        phi = _unit_rows(device.xp, phi) if unit else phi
        squares.append(device.get(device.xp.sum(phi * phi, axis=1)))
        parts.append(device.xp.astype(phi, device.dtype(dtype), copy=False))
    found = np.concatenate(squares)
    if unit:
        found = (found > 0.5).astype(np.float64)
    whole = parts[0] if len(parts) == 1 else device.xp.concat(parts)
    return Rows(DeviceTable(device, whole), found)


def kernel_there(device: Device, kernel: Kernel, landmarks: Rows) -> LinearMap | None:
    """k(x, L) of rows x there with some rows L; None where it is no curve of <x, y>."""
    own = curve(kernel)
    if own is None or kernel.form == "cosine" or sp.issparse(landmarks.values):
        return None
    xp, there = device.xp, device.put(landmarks.values, np.float64)
    added, scale = terms(kernel, own, landmarks, None)
    right = device.put(added + own.offset), device.put(scale)
    curves = [Curve(own.slope, own.degree)]
    bent = -0.5 * own.slope if own.degree == EXPONENTIAL else 0.0

    def values(rows: DeviceArray) -> DeviceArray:
        dot, left = rows @ there.T, bent * xp.sum(rows * rows, axis=1)
        sides = [(left, xp.ones_like(left))], [right]
        return device.add_curves(xp.zeros_like(dot), dot, curves, *sides)

    return values


def waves_there(device: Device, frequencies: Values) -> LinearMap:
    """[cos Wx, sin Wx] / sqrt(m) of rows x there."""
    xp, there = device.xp, device.put(frequencies)

    def features(rows: DeviceArray) -> DeviceArray:
        angles = rows @ there
        waves = xp.concat([xp.cos(angles), xp.sin(angles)], axis=1)
        return waves / float(np.sqrt(there.shape[1]))

    return features


def _unit_rows(xp: Any, phi: DeviceArray) -> DeviceArray:
    """Rows of unit length; a row of zeros stays."""
    # The largest entry first: squares of tiny numbers would vanish.
    phi = _divided(xp, phi, xp.max(xp.abs(phi), axis=1))
    return _divided(xp, phi, xp.sqrt(xp.sum(phi * phi, axis=1)))


def _divided(xp: Any, phi: DeviceArray, lengths: DeviceArray) -> DeviceArray:
    safe = xp.where(lengths > 0.0, lengths, xp.ones_like(lengths))
    return phi / safe[:, None]
