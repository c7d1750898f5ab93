"""Arrays of other libraries: on the way in to NumPy, on the way out as they came."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config

from manykernels.base.rooms import room
from manykernels.device import Device
from manykernels.device.matrix import DeviceMatrix

Method = TypeVar("Method", bound=Callable[..., Any])


def on_processor(values: Any) -> Any:
    """Arrays of other libraries as NumPy's, also in lists and dicts; the rest as it is.

    Examples
    --------
    >>> on_processor({"a": np.ones(2)})
    {'a': array([1., 1.])}
    """
    if type(values) is dict:
        return {key: on_processor(value) for key, value in values.items()}
    if type(values) in (list, tuple) and any(map(_is_foreign, values)):
        return [on_processor(value) for value in values]
    if not _is_foreign(values):
        return values
    if hasattr(values, "cpu"):  # PyTorch
        return np.asarray(values.detach().cpu().numpy())
    if hasattr(values, "get"):  # CuPy
        return np.asarray(values.get())
    return np.from_dlpack(values)


def is_partitioned(values: Any) -> bool:
    """Whether it is a collection of partitions that Dask schedules.

    Examples
    --------
    >>> is_partitioned(np.ones(2))
    False
    """
    return hasattr(values, "__dask_graph__") and not isinstance(values, type)


def given_matrices(X: Any, device: Device | None) -> Any:
    """Kernel matrices that lie on the device stay there; all others are NumPy's."""
    if device is None:
        return on_processor(X)

    def stays(values: Any) -> bool:
        return _is_foreign(values) and device.has(values)

    if isinstance(X, list | tuple) and X and all(map(stays, X)):
        return [DeviceMatrix(device, device.shared(matrix)) for matrix in X]
    if not stays(X):
        return on_processor(X)
    there = device.shared(X)
    if there.ndim == 2:
        return [DeviceMatrix(device, there)]
    if there.ndim != 3:
        return on_processor(X)  # which will be refused
    return [DeviceMatrix(device, there[:, :, k]) for k in range(there.shape[2])]


def as_it_came(method: Method) -> Method:
    """Numbers go back to the library and device of X, if scikit-learn is told so.

    That is ``sklearn.set_config(array_api_dispatch=True)``; without it, and for labels
    that are no numbers, results are NumPy's. Of a Dask collection the result is one
    that is computed when it is asked for.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any, *others: Any, **options: Any) -> Any:
        if is_partitioned(X):
            return room("distributed").lazily(method, self, X)
        result = method(self, X, *others, **options)
        if not (_is_foreign(X) and get_config()["array_api_dispatch"]):
            return result
        if result.dtype.kind not in "biuf":
            return result
        from sklearn.utils._array_api import get_namespace

        xp, _ = get_namespace(X)
        return xp.asarray(result, device=X.device)

    return wrapped  # type: ignore[return-value]


def _is_foreign(values: Any) -> bool:
    """Whether it is an array that lives by itself, of another library than NumPy."""
    alone = hasattr(values, "__dlpack__") and hasattr(values, "device")
    return alone and not isinstance(values, np.ndarray | np.generic)
