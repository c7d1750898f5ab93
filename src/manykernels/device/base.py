"""What a device is to the code that runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from manykernels.base.machine import allowed_bytes

DeviceArray: TypeAlias = Any  # an array of the device's namespace
Chosen: TypeAlias = Any  # positions of rows: a slice, or a DeviceArray of integers


class Device:
    """A place for arrays and the functions for them, by the array API standard.

    This one is the processor, for any library that follows the standard to the letter.

    Parameters
    ----------
    name : str
    xp : module
        The library's namespace.

    Attributes
    ----------
    precise : dtype
        Of sums that a certificate rests on: float64 where the device has it.
    is_host : bool
        Whether it computes in the processor's own memory.

    Examples
    --------
    >>> device = Device("NumPy", np)
    >>> device.get(device.put(np.arange(3)) * 2).tolist()
    [0, 2, 4]
    """

    is_host: bool = True

    def __init__(self, name: str, xp: Any) -> None:
        self.name = name
        self.xp = xp
        self.precise: Any = xp.float64

    def dtype(self, dtype: Any) -> Any:
        """The namespace's name of a NumPy dtype."""
        return getattr(self.xp, np.dtype(dtype).name)

    def put(self, values: Any, dtype: Any = None) -> DeviceArray:
        """A NumPy array there, in a dtype of NumPy's."""
        return self.xp.asarray(np.ascontiguousarray(values, dtype))

    def get(self, values: DeviceArray) -> NDArray[Any]:
        """An array from there, as NumPy's."""
        return np.asarray(values)

    def numpy_dtype(self, values: DeviceArray) -> np.dtype[Any]:
        """NumPy's name of an array's dtype."""
        return np.dtype(str(values.dtype).rpartition(".")[2])

    def pick(self, values: DeviceArray, chosen: Chosen, axis: int = 0) -> DeviceArray:
        """Some rows or columns: a view if they are a slice."""
        if isinstance(chosen, slice):
            return values[(slice(None),) * axis + (chosen, ...)]
        return self.xp.take(values, chosen, axis=axis)

    def precisely(self, values: DeviceArray) -> DeviceArray:
        """The same numbers in the precision of sums."""
        return self.xp.astype(values, self.precise, copy=False)

    def allowed_bytes(self, limit: int | float | str | None) -> int:
        """The user's limit, or most of what is free there."""
        return allowed_bytes(limit)

    @contextmanager
    def said_when_full(self) -> Iterator[None]:
        """What runs out of the device's memory says so, and what to do."""
        yield

    def synchronize(self) -> None:
        """Wait until everything that was asked for is computed."""
