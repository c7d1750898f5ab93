"""Fitted models as JSON-like data plus arrays, and back.

Only the classes listed here can come out of a file, each from exactly its own fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from manykernels import kernels
from manykernels.files.container import Arrays, ModelFileError
from manykernels.kernels import Custom, Kernel, KernelSet
from manykernels.kernels.groups import FeatureGroup, GivenGroup, MappedGroup
from manykernels.kernels.maps import RandomFourier, TensorSketch, Whitening
from manykernels.kernels.psd import Clip
from manykernels.kernels.rows import Rows
from manykernels.kernels.scaling import Scaling

PARTS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        KernelSet,
        FeatureGroup,
        GivenGroup,
        MappedGroup,
        Whitening,
        RandomFourier,
        TensorSketch,
        Rows,
        Scaling,
        Clip,
    )
}
KERNELS: dict[str, type[Kernel]] = {
    cls.__name__: cls
    for cls in (getattr(kernels, name) for name in kernels.__all__)
    if isinstance(cls, type) and issubclass(cls, Kernel) and cls is not Kernel
}
DTYPES = ("float32", "float64")
Part = TypeVar("Part")
Functions = Mapping[str, Callable[..., Any]]


def storable(cls: type[Part]) -> type[Part]:
    """Class decorator: a dataclass that files may hold, field by field."""
    PARTS[cls.__name__] = cls
    return cls


def to_plain(value: Any, arrays: Arrays) -> Any:
    """JSON-like data; arrays are appended to `arrays` and referred to by position.

    Examples
    --------
    >>> arrays = []
    >>> to_plain({"a": np.zeros(2), "b": slice(0, 3)}, arrays), len(arrays)
    ({'a': {'array': 0}, 'b': {'slice': [0, 3, None]}}, 1)
    """
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if sp.issparse(value):
        csr = value.tocsr()
        parts = [to_plain(part, arrays) for part in (csr.data, csr.indices, csr.indptr)]
        return {"csr": [*parts, list(csr.shape)]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, Custom):
        own = {"function": None, "custom": _function_name(value)}
        return {"kernel": "Custom", **_fields(value, arrays), **own}
    if type(value).__name__ in KERNELS and isinstance(value, Kernel):
        return {"kernel": type(value).__name__, **_fields(value, arrays)}
    if type(value).__name__ in PARTS:
        return {"part": type(value).__name__, **_fields(value, arrays)}
    if isinstance(value, dict):
        return {str(key): to_plain(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item, arrays) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"expected plain data, arrays or kernels to save, got {type(value).__name__}; "
        "replace it before saving."
    )


def from_plain(value: Any, arrays: Arrays, functions: Functions | None = None) -> Any:
    """The inverse of `to_plain`; custom kernels find their function in `functions`."""
    if isinstance(value, list):
        return [from_plain(item, arrays, functions) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        return arrays[value["array"]]
    if set(value) == {"slice"}:
        return slice(*value["slice"])
    if set(value) == {"dtype"}:
        return _dtype(value["dtype"])
    if set(value) == {"csr"}:
        data, indices, indptr = (arrays[part["array"]] for part in value["csr"][:3])
        return sp.csr_matrix((data, indices, indptr), shape=tuple(value["csr"][3]))
    inner = {key: from_plain(item, arrays, functions) for key, item in value.items()}
    if "kernel" in inner:
        return _kernel(inner, functions or {})
    if "part" in inner:
        return _build(PARTS, inner.pop("part"), inner)
    return inner


def _fields(value: Any, arrays: Arrays) -> dict[str, Any]:
    return {
        field.name: to_plain(getattr(value, field.name), arrays)
        for field in fields(value)
        if not callable(getattr(value, field.name))
    }


def _function_name(kernel: Custom) -> str:
    function = kernel.function
    return str(getattr(function, "__name__", type(function).__name__))


def _kernel(settings: dict[str, Any], functions: Functions) -> Kernel:
    kind = settings.pop("kernel")
    if kind == "Custom":
        wanted = settings.pop("custom")
        if wanted not in functions:
            raise ModelFileError(
                f"expected the function of the custom kernel {wanted!r}, which a file "
                f"cannot hold, got {sorted(functions)}; pass "
                f"functions={{{wanted!r}: ...}} to load."
            )
        settings["function"] = functions[wanted]
    return _build(KERNELS, kind, settings)


def _build(known: dict[str, Any], name: Any, settings: dict[str, Any]) -> Any:
    if name not in known:
        raise ModelFileError(
            f"expected one of {', '.join(known)} in a model file, got {name!r}; "
            "load it with the manykernels that wrote it."
        )
    cls = known[name]
    wanted = {field.name for field in fields(cls)}
    if set(settings) != wanted:
        odd = sorted(set(settings) ^ wanted)
        raise ModelFileError(
            f"expected the fields of {name} in a model file, got a difference in "
            f"{', '.join(odd)}; load it with the manykernels that wrote it."
        )
    return cls(**settings)


def _dtype(name: Any) -> np.dtype[Any]:
    if name not in DTYPES:
        raise ModelFileError(
            f"expected float32 or float64 in a model file, got {name!r}; copy the "
            "original again."
        )
    return np.dtype(name)
