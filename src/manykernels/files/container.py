"""One file for a JSON document and its arrays, checked before anything is read.

The file is a zip archive without compression: `document.json`, the raw bytes of every
array, and a SHA-256 of all of them. Nothing in it can name code to run, and no size in
it is believed before it is compared with the bytes that are there.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FORMAT = "manykernels"
VERSION = 2
DOCUMENT = "document.json"
CHECKSUM = "sha256"
KINDS = "biufU"  # booleans, numbers and text; objects would need pickle
MOST_EMPTY = 2**20  # columns of a table without rows, which cost no bytes

Arrays = list[NDArray[Any]]


class ModelFileError(ValueError):
    """A file that is not a whole and unchanged model of a known version."""


def write_container(path: str | os.PathLike[str], content: Any, arrays: Arrays) -> None:
    """Write JSON-like content and arrays; the file appears whole or not at all.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_container(folder / "x", {"answer": 42}, [np.arange(3)])
    >>> read_container(folder / "x")
    ({'answer': 42}, [array([0, 1, 2])])
    """
    parts = _parts(content, arrays)
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
                for part, payload in [*parts.items(), (CHECKSUM, _digest(parts))]:
                    archive.writestr(zipfile.ZipInfo(part), payload)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_container(path: str | os.PathLike[str]) -> tuple[Any, Arrays]:
    """Read what `write_container` wrote, or raise ModelFileError."""
    if Path(path).exists() and not Path(path).is_file():
        raise _broken(path, "it is no regular file")
    whole = Path(path).read_bytes()
    try:
        parts = _read_parts(path, whole)
        document = json.loads(parts[DOCUMENT].decode())
        _require_version(path, document)
        arrays = [
            _to_array(parts[_array_name(i)], described)
            for i, described in enumerate(document["arrays"])
        ]
        return document["content"], arrays
    except ModelFileError:
        raise
    except Exception as error:
        raise _broken(path, f"its parts do not fit together ({error})") from error


def _parts(content: Any, arrays: Arrays) -> dict[str, bytes]:
    # The order in memory is kept: BLAS rounds by it.
    orders: list[Literal["C", "F"]] = [
        "C" if a.flags.c_contiguous or a.ndim < 2 else "F" for a in arrays
    ]
    described = [
        {"dtype": a.dtype.str, "shape": list(a.shape), "order": order}
        for a, order in zip(arrays, orders, strict=True)
    ]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "content": content,
        "arrays": described,
    }
    parts = {DOCUMENT: json.dumps(document, allow_nan=True).encode()}
    payloads = [a.tobytes(order) for a, order in zip(arrays, orders, strict=True)]
    return parts | {_array_name(i): payload for i, payload in enumerate(payloads)}


def _array_name(i: int) -> str:
    return f"array{i}"


def _digest(parts: dict[str, bytes]) -> bytes:
    """SHA-256 over names, lengths and bytes, in order of the names."""
    digest = hashlib.sha256()
    for name in sorted(parts):
        digest.update(f"{name}:{len(parts[name])}:".encode())
        digest.update(parts[name])
    return digest.hexdigest().encode()


def _read_parts(path: str | os.PathLike[str], whole: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
            if DOCUMENT not in names or CHECKSUM not in names or packed:
                raise _broken(path, "it is some other zip archive")
            if len(set(names)) < len(names):
                raise _broken(path, "two of its parts have the same name")
            if sum(entry.file_size for entry in entries) > len(whole):
                raise _broken(path, "its parts overlap")
            parts = {name: archive.read(name) for name in names}
    except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise _broken(path, f"it is no whole archive ({error})") from error
    if _digest({k: v for k, v in parts.items() if k != CHECKSUM}) != parts[CHECKSUM]:
        raise _broken(path, "its checksum does not match its content")
    return parts


def _require_version(path: str | os.PathLike[str], document: Any) -> None:
    if document["format"] != FORMAT:
        raise _broken(path, f"its format is {document['format']!r}")
    if document["version"] != VERSION:
        raise ModelFileError(
            f"expected a model file of version {VERSION}, got version "
            f"{document['version']!r} in {os.fspath(path)!r}; load it with the "
            "manykernels that wrote it, or a newer one."
        )


def _to_array(payload: bytes, described: Any) -> NDArray[Any]:
    dtype = np.dtype(described["dtype"])
    shape = tuple(int(size) for size in described["shape"])
    known = dtype.kind == "U" or (dtype.kind in KINDS and dtype.itemsize <= 8)
    if not (known and dtype.isnative and len(shape) <= 4):
        raise ValueError(f"an array of type {dtype} and shape {shape}")
    if any(not 0 <= size <= max(len(payload), MOST_EMPTY) for size in shape):
        raise ValueError(f"an array of shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(payload):
        raise ValueError(f"{len(payload)} bytes for {dtype} of shape {shape}")
    order = described["order"]
    if order not in ("C", "F"):
        raise ValueError(f"an array in the order {order!r}")
    return np.frombuffer(payload, dtype).reshape(shape, order=order).copy(order)


def _broken(path: str | os.PathLike[str], why: str) -> ModelFileError:
    return ModelFileError(
        f"expected a whole manykernels model file, but of {os.fspath(path)!r} can be "
        f"said that {why}; copy the original again."
    )
