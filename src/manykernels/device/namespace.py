"""One way to write array code for NumPy, PyTorch, CuPy and what follows the standard.

A function that takes arrays asks `xp = namespace(scores)` and goes on with the names of
the array API standard. NumPy arrays get NumPy itself; nothing else is imported.

Examples
--------
>>> def softmax(scores):
...     xp = namespace(scores)
...     powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
...     return powers / xp.sum(powers, axis=1, keepdims=True)
>>> softmax(np.zeros((1, 2))).tolist()
[[0.5, 0.5]]
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

DeviceArray: TypeAlias = Any  # an array of any of these libraries


class _OlderNumPy:
    """NumPy before 2.1, with the names of the standard that it lacks."""

    concat = staticmethod(np.concatenate)
    permute_dims = staticmethod(np.transpose)
    cumulative_sum = staticmethod(np.cumsum)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def astype(values: NDArray[Any], dtype: Any, *, copy: bool = True) -> NDArray[Any]:
        return values.astype(dtype, copy=copy)

    @staticmethod
    def matrix_transpose(values: NDArray[Any]) -> NDArray[Any]:
        return np.swapaxes(values, -1, -2)


# NumPy by the names of the array API standard.
NUMPY: Any = np if hasattr(np, "astype") else _OlderNumPy()


def namespace(array: DeviceArray) -> Any:
    """Return the functions for an array, by the names of the array API standard."""
    if isinstance(array, np.ndarray | np.generic):
        return NUMPY
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    from array_api_compat import array_namespace

    return array_namespace(array)


def to_numpy(array: DeviceArray) -> NDArray[Any]:
    """Return an array of any library and device as NumPy's; NumPy's own uncopied."""
    if hasattr(array, "detach"):  # PyTorch
        array = array.detach().cpu().numpy()
    elif hasattr(array, "get") and not isinstance(array, np.ndarray):  # CuPy
        array = array.get()
    return np.asarray(array)


def to_namespace_of(like: DeviceArray, values: Any, dtype: Any = None) -> DeviceArray:
    """Return NumPy values, or a number, in the library and on the device of `like`.

    They take its dtype unless another one of its namespace is given.

    Examples
    --------
    >>> to_namespace_of(np.ones(2, np.float32), [1.0, 2.0]).dtype
    dtype('float32')
    """
    dtype = like.dtype if dtype is None else dtype
    if isinstance(like, np.ndarray | np.generic):
        return np.asarray(values, dtype)
    values = np.ascontiguousarray(values)
    if not values.flags.writeable:  # which PyTorch would warn of
        values = values.copy()
    device = getattr(like, "device", None)
    return namespace(like).asarray(values, dtype=dtype, device=device)


def quotient(xp: Any, above: DeviceArray, below: DeviceArray) -> DeviceArray:
    """above / below, and 0 where below is 0, as for a system that is solved."""
    ones = xp.ones_like(below)
    safe = xp.where(below > 0.0, below, ones)
    return xp.where(below > 0.0, above / safe, 0.0 * ones)
