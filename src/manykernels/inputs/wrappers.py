"""Around fit and predict: failed fits roll back, arrays return as they came."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from sklearn import get_config

from manykernels.base.imports import room
from manykernels.device import Device, to_numpy
from manykernels.device.host_views import DeviceMatrix

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
FitMethod = Callable[Concatenate[Any, Arguments], Result]
PredictMethod = TypeVar("PredictMethod", bound=Callable[..., Any])


def rollback_on_error(
    method: FitMethod[Arguments, Result],
) -> FitMethod[Arguments, Result]:
    """Leave the attributes as they were where a method fails or is interrupted.

    Examples
    --------
    >>> class Learner:
    ...     @rollback_on_error
    ...     def fit(self, value):
    ...         self.n_features_in_ = value
    ...         raise ValueError("half done")
    >>> learner = Learner()
    >>> try:
    ...     learner.fit(3)
    ... except ValueError:
    ...     print(vars(learner))
    {}
    """

    @wraps(method)
    def run(self: Any, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        # A shallow copy is enough: fits replace attributes and do not change them.
        before = dict(vars(self))
        try:
            return method(self, *args, **options)
        # Ctrl-C is a BaseException.
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run


def return_as_input_type(method: PredictMethod) -> PredictMethod:
    """Return numbers in the library and on the device of X, as scikit-learn does.

    That is after ``sklearn.set_config(array_api_dispatch=True)``; without it, and for
    labels that are no numbers, results are NumPy's. The result for a Dask collection is
    computed when it is asked for.
    """

    @wraps(method)
    def run(self: Any, X: Any, *others: Any, **options: Any) -> Any:
        if is_partitioned(X):
            return room("distributed").lazily(method, self, X)
        result = method(self, X, *others, **options)
        if not (get_config()["array_api_dispatch"] and is_foreign(X)):
            return result
        if result.dtype.kind not in "biuf":
            return result
        from sklearn.utils._array_api import get_namespace

        xp, _ = get_namespace(X)
        return xp.asarray(result, device=X.device)

    return run  # type: ignore[return-value]


def is_partitioned(values: Any) -> bool:
    """Whether it is a collection of partitions that Dask schedules.

    Examples
    --------
    >>> is_partitioned(np.ones(2))
    False
    """
    return hasattr(values, "__dask_graph__") and not isinstance(values, type)


def is_foreign(values: Any) -> bool:
    """Whether it is an array of another library than NumPy."""
    if isinstance(values, np.ndarray | np.generic):
        return False
    return hasattr(values, "__dlpack__") and hasattr(values, "device")


def from_other_libraries(values: Any) -> Any:
    """Arrays of other libraries as NumPy's, also in lists and dicts; the rest as it is.

    Examples
    --------
    >>> from_other_libraries({"a": np.ones(2)})
    {'a': array([1., 1.])}
    """
    if values is None or isinstance(values, np.ndarray):
        return values
    if type(values) is dict:
        return {key: from_other_libraries(value) for key, value in values.items()}
    if type(values) in (list, tuple) and any(map(is_foreign, values)):
        return [from_other_libraries(value) for value in values]
    if not (hasattr(values, "__dlpack__") and hasattr(values, "device")):
        return values
    known = hasattr(values, "detach") or hasattr(values, "get")  # PyTorch, CuPy
    return to_numpy(values) if known else np.from_dlpack(values)


def given_matrices(X: Any, device: Device | None) -> Any:
    """Kernel matrices that lie on the device stay on it; all others are NumPy's."""
    if device is None:
        return from_other_libraries(X)

    def stays(values: Any) -> bool:
        return is_foreign(values) and device.has(values)

    if isinstance(X, list | tuple) and X and all(map(stays, X)):
        return [DeviceMatrix(device, device.shared(matrix)) for matrix in X]
    if not stays(X):
        return from_other_libraries(X)
    matrices = device.shared(X)
    if matrices.ndim == 2:
        return [DeviceMatrix(device, matrices)]
    if matrices.ndim != 3:
        return from_other_libraries(X)  # which will be refused
    return [DeviceMatrix(device, matrices[:, :, k]) for k in range(matrices.shape[2])]
