"""Fitted models as JSON-like data plus arrays, and back.

Only storable classes can come out of a file, each from exactly its own fields, and
after their rules have been checked (`manykernels.base.stored`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels import kernels, losses, norms, solvers
from manykernels.base.stored import STORABLE, Wholes, make_stored, storable
from manykernels.files.container import ARRAY_KINDS, Arrays, ModelFileError
from manykernels.kernels.columns import callable_name
from manykernels.solvers.loop import Epoch

STORED_DTYPES = ("float32", "float64")
COMPARE_ROOM = "manykernels.compare"  # imported when a file names one of its classes
USED_ARRAY = np.empty(0)  # in place of an array that has been used
Functions = Mapping[str, Callable[..., Any]]


def _register(package: Any, method: str) -> None:
    """Let files hold the public dataclasses of a package with such a method."""
    for name in package.__all__:
        found: Any = getattr(package, name)
        known = name in STORABLE or not isinstance(found, type)
        if not known and is_dataclass(found) and hasattr(found, method):
            storable(found)


_register(kernels, "label")
_register(losses, "value")
_register(norms, "terms")
_register(solvers, "solve")
storable(Epoch)


def to_plain(value: Any, arrays: Arrays) -> Any:
    """JSON-like data; arrays are appended to `arrays` and referred to by position.

    Examples
    --------
    >>> arrays = []
    >>> to_plain([np.zeros(2), slice(0, 3), {"a": 1}, (1, 2)], arrays)
    [{'array': 0}, {'slice': [0, 3, None]}, {'dict': {'a': 1}}, {'tuple': [1, 2]}]
    >>> len(arrays)
    1
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return to_plain(value.item(), arrays)
    if isinstance(value, np.ndarray):
        return _plain_array(value, arrays)
    if isinstance(value, list):
        return [to_plain(item, arrays) for item in value]
    if type(value) is dict:
        return _plain_dict(value, arrays)
    if sp.issparse(value):
        csr = value.tocsr()
        parts = [to_plain(part, arrays) for part in (csr.data, csr.indices, csr.indptr)]
        return {"csr": [*parts, list(csr.shape)]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    name = type(value).__name__
    known = _is_declared(name, type(value).__module__)
    if known and STORABLE[name].cls is type(value):
        return {"part": name, **_fields(value, arrays)}
    if isinstance(value, tuple):  # the caller makes a named one of it again
        return {"tuple": to_plain(list(value), arrays)}
    raise TypeError(
        f"expected numbers, text, arrays and objects of manykernels to save, got "
        f"{name}; only these can be written to a file."
    )


def from_plain(value: Any, arrays: Arrays, functions: Functions | None = None) -> Any:
    """The inverse of `to_plain`; custom kernels find their function in `functions`.

    Arrays are taken out of `arrays`: one that is used twice would cost more memory than
    its bytes in the file.
    """
    if isinstance(value, list):
        return [from_plain(item, arrays, functions) for item in value]
    if not isinstance(value, dict):
        return value
    # A dict is a part with its fields, or has one key: the form of its content.
    if "part" in value:
        return _part(value, arrays, functions or {})
    ((form, inner),) = value.items()
    if form == "array":
        return _array(inner, arrays)
    if form == "texts":
        return _texts(inner)
    if form == "tuple":
        return tuple(from_plain(inner, arrays, functions))
    if form == "dict":
        return {key: from_plain(v, arrays, functions) for key, v in inner.items()}
    if form == "pairs":
        return {key: from_plain(v, arrays, functions) for key, v in inner}
    if form == "csr":
        return _csr(*from_plain(inner, arrays))
    if form == "slice":
        return slice(*inner)
    if form == "dtype":
        return _dtype(inner)
    raise ValueError(f"unknown data {form!r}")


def _is_declared(name: str, module: str = COMPARE_ROOM) -> bool:
    """Whether files may hold a class; rivals are imported late."""
    if name not in STORABLE and module.startswith(COMPARE_ROOM):
        _register(import_module(COMPARE_ROOM), "solve")
    return name in STORABLE


def _plain_array(array: np.ndarray, arrays: Arrays) -> Any:
    """Arrays of objects must be text, which may end in zeros that NumPy would drop."""
    if array.dtype == object and all(isinstance(item, str) for item in array.flat):
        return {"texts": [str(item) for item in array]}
    if array.dtype.kind not in ARRAY_KINDS:
        kinds = sorted({type(item).__name__ for item in array.flat})
        raise TypeError(
            "expected labels that are numbers, booleans or text to save, got "
            f"{', '.join(kinds)}; encode them first."
        )
    arrays.append(array)
    return {"array": len(arrays) - 1}


def _plain_dict(value: dict[Any, Any], arrays: Arrays) -> Any:
    if all(isinstance(key, str) for key in value):
        return {"dict": {key: to_plain(item, arrays) for key, item in value.items()}}
    pairs = [[to_plain(k, arrays), to_plain(v, arrays)] for k, v in value.items()]
    return {"pairs": pairs}


def _fields(value: Any, arrays: Arrays) -> dict[str, Any]:
    if hasattr(value, "to_stored"):
        found = value.to_stored()
    else:
        names = STORABLE[type(value).__name__].names
        found = {name: getattr(value, name) for name in names}
    if isinstance(value, kernels.Custom):
        # Code cannot be in a file: its name is, and `load` gets the function.
        found["function"] = callable_name(value.function)
    return {name: to_plain(item, arrays) for name, item in found.items()}


def _part(value: dict[str, Any], arrays: Arrays, functions: Functions) -> Any:
    name = value["part"]
    if not _is_declared(name):
        raise ModelFileError(
            f"expected a class that model files may hold, got {name!r}; load it with "
            "the manykernels that wrote it."
        )
    inner = {
        key: from_plain(item, arrays, functions)
        for key, item in value.items()
        if key != "part"
    }
    if name == "Custom":
        inner["function"] = _function(inner["function"], functions)
    return make_stored(name, inner)


def _function(wanted: Any, functions: Functions) -> Callable[..., Any]:
    if wanted not in functions:
        raise ModelFileError(
            f"expected the function of the custom kernel {wanted!r}, which a file "
            f"cannot hold, got {sorted(functions)}; pass "
            f"functions={{{wanted!r}: ...}} to load."
        )
    return functions[wanted]


def _array(position: Any, arrays: Arrays) -> np.ndarray:
    if type(position) is not int or not 0 <= position < len(arrays):
        raise ValueError(f"there is no array {position!r}")
    found, arrays[position] = arrays[position], USED_ARRAY
    if found is USED_ARRAY:
        raise ValueError(f"array {position} is used twice")
    return found


def _texts(items: Any) -> np.ndarray:
    if not all(isinstance(item, str) for item in items):
        raise ValueError("expected texts only")
    return np.array([*items, None], dtype=object)[:-1]


def _csr(data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    """A sparse table; raise if an index lies outside, which SciPy does not check."""
    n_rows, n_columns = (size for size in shape if type(size) is int and size >= 0)
    Wholes(n_rows + 1, low=0).check("row pointers", indptr, {})
    Wholes(None, low=0, below=n_columns).check("column indices", indices, {})
    rising = indptr[0] == 0 and bool(np.all(indptr[:-1] <= indptr[1:]))
    if not (rising and indptr[-1] == len(indices) and data.shape == indices.shape):
        raise ValueError("row pointers do not fit the entries of a sparse table")
    return sp.csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))


def _dtype(name: Any) -> np.dtype[Any]:
    if name not in STORED_DTYPES:
        raise ValueError(f"expected float32 or float64, got {name!r}")
    return np.dtype(name)
