"""Devices: where arrays live, and the functions that compute with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from manykernels.base.imports import require_library
from manykernels.base.machine import allowed_bytes
from manykernels.base.quoted import quoted
from manykernels.device.namespace import NUMPY, DeviceArray

Terms: TypeAlias = tuple[DeviceArray, DeviceArray]  # added, and multiplied
Chosen: TypeAlias = Any  # positions of rows: a slice, or a DeviceArray of integers
EXPONENTIAL = 0  # in place of the degree of a power
# Values computed or checked at a time, 1 GB in float64: more is not faster.
DEVICE_TILE_VALUES = 1 << 27


class Curve(NamedTuple):
    """g(t) = t ** degree, or its exponential, at t = slope <x, y> + l(x) + l(y)."""

    slope: float
    degree: int


class HingeBlocks(Protocol):
    """Dual ascent for the hinge loss, a block of rows at a time."""

    def blocks(
        self, coef: NDArray[np.float64], scores: NDArray[np.float64], goal: float
    ) -> int:
        """Improve coef (rows, outputs), from its scores (outputs, rows)."""


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
    seconds_per_value : float or None
        How fast fits are, per kernel value: an order of magnitude; None where they
        are about as fast as with NumPy.

    Examples
    --------
    >>> device = Device("NumPy", np)
    >>> device.get(device.put(np.arange(3)) * 2).tolist()
    [0, 2, 4]
    """

    seconds_per_value: float | None = None

    def __init__(self, name: str, xp: Any) -> None:
        self.name = name
        self.xp = NUMPY if xp is np else xp
        self.precise: Any = xp.float64

    def dtype(self, dtype: Any) -> Any:
        """The namespace's name of a NumPy dtype."""
        return getattr(self.xp, np.dtype(dtype).name)

    def put(self, values: Any, dtype: Any = None) -> DeviceArray:
        """Copy a NumPy array to the device, in a dtype of NumPy's.

        A `DeviceMatrix` or `DeviceTable` is on it already.
        """
        if hasattr(values, "device_array"):
            return values.device_array
        return self.xp.asarray(np.ascontiguousarray(values, dtype))

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        """An array to be filled, in a dtype of NumPy's."""
        return self.xp.empty(shape, dtype=self.dtype(dtype))

    def has(self, values: Any) -> bool:
        """Whether it is an array of another library's on this device."""
        return False

    def shared(self, values: Any) -> DeviceArray:
        """Wrap such an array as one of the device, without a copy."""
        return values

    def get(self, values: DeviceArray) -> NDArray[Any]:
        """Copy an array of the device to NumPy."""
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
        """The user's limit, or most of what is free on the device."""
        return allowed_bytes(limit)

    @contextmanager
    def out_of_memory_error(self) -> Iterator[None]:
        """Raise a MemoryError of one sentence where the device's memory is full."""
        yield

    def add_curves(
        self,
        out: DeviceArray,
        dot: DeviceArray,
        curves: Sequence[Curve],
        left: Sequence[Terms],
        right: Sequence[Terms],
    ) -> DeviceArray:
        """out + sum_f s_f(x) s_f(y) g_f(slope_f dot + l_f(x) + l_f(y)), perhaps in out.

        Parameters
        ----------
        out, dot : array of shape (rows, columns)
            What to add to, and the inner products.
        curves : list of Curve
            g is a power, or for degree 0 the exponential.
        left, right : list of (l, s)
            Of the rows and of the columns, for every curve.
        """
        xp = self.xp
        for curve, (l_row, s_row), (l_column, s_column) in zip(
            curves, left, right, strict=True
        ):
            values = dot * curve.slope + l_row[:, None] + l_column[None, :]
            if curve.degree == EXPONENTIAL:
                # Rounding may leave a tiny positive number between equal rows.
                values = xp.exp(xp.minimum(values, xp.zeros_like(values)))
            else:
                values = _power(values, curve.degree)
            values *= s_row[:, None]
            values *= s_column[None, :]
            out += xp.astype(values, out.dtype, copy=False)
        return out

    def hinge_blocks(
        self, matrix: DeviceArray, target: Any, bound: Any, n_outputs: int
    ) -> HingeBlocks | None:
        """The frozen hinge problem as compiled for this device; None if it is not."""
        return None

    def largest(self, values: DeviceArray, count: int) -> DeviceArray:
        """Where the largest values of a flat array are, the largest first."""
        return self.xp.argsort(-values)[:count]

    def positive_solve(
        self, matrix: DeviceArray, sides: DeviceArray
    ) -> DeviceArray | None:
        """M^-1 sides for a symmetric matrix; None where it is not positive definite."""
        linalg = self.xp.linalg
        try:
            factor = linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return None
        half = linalg.solve(factor, sides)
        return linalg.solve(self.xp.matrix_transpose(factor), half)


def _power(values: DeviceArray, degree: int) -> DeviceArray:
    """values ** degree for a whole number, by repeated squaring."""
    if degree == 1:
        return values
    half = _power(values * values, degree // 2)
    return half * values if degree % 2 else half


# For code that takes a device, where the processor computes with NumPy.
HOST = Device("cpu", np)


def read_device(name: Any) -> str:
    """Return the name of a device, if it is one.

    Examples
    --------
    >>> read_device("cuda:1")
    'cuda:1'
    >>> read_device("gpu")
    Traceback (most recent call last):
    ValueError: device must be 'cuda', 'cuda:1' (the second GPU), 'mps', 'cpu' or None,
    got 'gpu'; choose one of these.
    """
    text = str(name) if type(name).__name__ == "device" else name  # torch.device
    if not isinstance(text, str) or not re.fullmatch(r"cpu|cuda(:\d+)?|mps", text):
        raise ValueError(
            "device must be 'cuda', 'cuda:1' (the second GPU), 'mps', 'cpu' or None, "
            f"got {quoted(name)}; choose one of these."
        )
    return text


def open_device(name: Any) -> Device:
    """Open the device of that name.

    It needs PyTorch, which comes with the extra ``manykernels[torch]``.
    """
    return _opened(read_device(name))


@cache
def _opened(name: str) -> Device:
    for library in ("torch", "array_api_compat"):
        require_library(library, "torch")
    from manykernels.device.torch_device import TorchDevice

    return TorchDevice(name)
