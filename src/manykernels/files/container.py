"""One file for a JSON document and its arrays, checked before anything is read.

The file is a line with the version, a line with the length of the document, the
document, the bytes of all arrays one after the other, and a SHA-256 of all that. There
are no offsets: places follow from the sizes, which must add up to that of the file.
Nothing in it can name code to run, and the memory for reading it is known, and bounded,
before it is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from manykernels.base.disk import file_name, regular_file, replacing
from manykernels.base.machine import allowed_bytes, parse_bytes
from manykernels.base.quoted import quoted, quoted_error

MODEL_FILE_VERSION = 3
OPENING = rb"manykernels (\d{1,9})\n([0-9a-f]{16})\n"  # version, length of the document
DIGEST_BYTES = hashlib.sha256().digest_size  # at the end
ARRAY_KINDS = "biufU"  # booleans, numbers and text; objects would need pickle
MAX_EMPTY_COLUMNS = 2**20  # of a table without rows, which costs no bytes
# Memory for reading unless the user sets it: a multiple of the file, and these bytes.
READ_FACTOR, READ_EXTRA_BYTES = 4, 100_000_000
# Bytes of Python's objects at most, by the characters that begin or separate these.
JSON_OBJECT_BYTES = {b"[": 140, b"{": 250, b":": 80, b'"': 36, b",": 48, b',"': -32}

Arrays = list[NDArray[Any]]
Limit = int | float | str | None


class ModelFileError(ValueError):
    """A file that is not a whole and unchanged model of a known version."""


def write_container(path: str | os.PathLike[str], content: Any, arrays: Arrays) -> None:
    """Write JSON-like content and arrays; the file appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/x"
    >>> write_container(path, {"answer": 42}, [np.arange(3)])
    >>> read_container(path)
    ({'answer': 42}, [array([0, 1, 2])])
    """
    with replacing(path) as stream:
        for part in container_parts(content, arrays):
            stream.write(part)


def container_parts(content: Any, arrays: Arrays) -> Iterator[bytes]:
    """The bytes of a file, piece by piece: no array is held a second time."""
    # The order in memory is kept: BLAS rounds by it.
    orders: list[Literal["C", "F"]] = [
        "C" if a.flags.c_contiguous or a.ndim < 2 else "F" for a in arrays
    ]
    described = [
        {"dtype": a.dtype.str, "shape": list(a.shape), "order": order}
        for a, order in zip(arrays, orders, strict=True)
    ]
    whole = {"content": content, "arrays": described}
    document = json.dumps(whole, separators=(",", ":")).encode()
    digest = hashlib.sha256()
    for part in chain(
        [
            f"manykernels {MODEL_FILE_VERSION}\n{len(document):016x}\n".encode()
            + document
        ],
        (a.tobytes(order) for a, order in zip(arrays, orders, strict=True)),
    ):
        digest.update(part)
        yield part
    yield digest.digest()


def read_container(
    path: str | os.PathLike[str], memory_limit: Limit = None
) -> tuple[Any, Arrays]:
    """Read what `write_container` wrote, or raise ModelFileError.

    A file that may need more memory than `memory_limit` is refused, by default more
    than four times its size and 100 MB.
    """
    allowed = None if memory_limit is None else parse_bytes(memory_limit)
    path = file_name(path)
    try:
        with regular_file(path) as stream:
            return _read(stream, path, allowed)
    except ModelFileError:
        raise
    except OSError as error:
        raise type(error)(
            f"expected to read {quoted(path)}, got {error.strerror!r}; check its "
            "name, its permissions and the disk."
        ) from error
    except ValueError as error:
        raise _broken(path, str(error).replace("\n", " ")) from error
    except Exception as error:
        why = f"its parts do not fit together ({quoted_error(error)})"
        raise _broken(path, why) from error


def _read(
    stream: BinaryIO, path: str | os.PathLike[str], allowed: int | None
) -> tuple[Any, Arrays]:
    size = os.fstat(stream.fileno()).st_size
    if allowed is None:  # a hole may have any size without taking any place
        allowed = min(READ_FACTOR * size + READ_EXTRA_BYTES, allowed_bytes(None))
    opening = re.match(OPENING, stream.read(64))  # it has up to 39 bytes
    if opening is None:
        raise ValueError("it does not begin as one")
    _require_version(path, int(opening[1]))
    start, length = opening.end(), int(opening[2], 16)
    if start + length + DIGEST_BYTES > size:
        raise ValueError("it ends too early")
    _require_room(path, 2 * size, allowed)
    stream.seek(0)
    whole = memoryview(stream.read(size))
    hashed, digest = whole[:-DIGEST_BYTES], whole[-DIGEST_BYTES:]
    if len(whole) < size or hashlib.sha256(hashed).digest() != digest:
        raise ValueError("its checksum does not match its content")
    text = bytes(whole[start : start + length])
    _require_room(path, 2 * size + _unfolded(text), allowed)
    document = json.loads(text.decode("ascii"))
    arrays = _split(hashed[start + length :], document["arrays"])
    return document["content"], arrays


def _unfolded(document: bytes) -> int:
    """Bytes that the values in a document take at most as Python objects."""
    width = 4 if re.search(rb"\\u[dD]", document) else 2 if b"\\u" in document else 1
    objects = sum(
        size * document.count(mark) for mark, size in JSON_OBJECT_BYTES.items()
    )
    return (1 + 2 * width) * len(document) + objects


def _split(payload: memoryview, described: Any) -> Arrays:
    """The arrays one after the other; raise unless they take all of the bytes."""
    arrays, start = [], 0
    for item in described:
        dtype, shape, order = _form(item)
        stop = start + math.prod(shape) * dtype.itemsize
        if stop > len(payload):
            raise ValueError(f"{len(payload)} bytes are too few for its arrays")
        values = np.frombuffer(payload[start:stop], dtype)
        _require_characters(values)
        arrays.append(values.reshape(shape, order=order).copy(order))
        start = stop
    if start < len(payload):
        raise ValueError(f"{len(payload) - start} of its bytes belong to no array")
    return arrays


def _form(described: Any) -> tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"]]:
    """Type, shape and order of an array; raise if they are not those of real data."""
    dtype, shape = np.dtype(described["dtype"]), described["shape"]
    order = described["order"]
    known = dtype.kind == "U" or (dtype.kind in ARRAY_KINDS and dtype.itemsize <= 8)
    if not (known and dtype.isnative and 0 <= len(shape) <= 4):
        raise ValueError(f"it has an array of type {dtype} and shape {shape}")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"it has an array of shape {shape}")
    is_empty = math.prod(shape) * dtype.itemsize == 0
    if is_empty and max(shape, default=0) > MAX_EMPTY_COLUMNS:
        raise ValueError(f"it has an empty array of shape {shape}")
    if order not in ("C", "F"):
        raise ValueError(f"it has an array in the order {order!r}")
    return dtype, tuple(shape), order


def _require_characters(values: NDArray[Any]) -> None:
    """Raise if bytes are no text or no truth value, which NumPy does not check."""
    codes = {"U": (np.uint32, 0x10FFFF), "b": (np.uint8, 1)}
    if values.size and values.dtype.kind in codes:
        code, most = codes[values.dtype.kind]
        if values.view(code).max() > most:
            raise ValueError(f"it has an array that is no {values.dtype}")


def _require_version(path: str | os.PathLike[str], version: int) -> None:
    if version != MODEL_FILE_VERSION:
        raise ModelFileError(
            f"expected a model file of version {MODEL_FILE_VERSION}, got version "
            f"{version} in {os.fspath(path)!r}; load it with the manykernels that "
            "wrote it, or a newer one."
        )


def _require_room(path: str | os.PathLike[str], needed: int, allowed: int) -> None:
    if needed > allowed:
        raise ModelFileError(
            f"expected a model file that needs at most {allowed / 1e9:.3g} GB of "
            f"memory, got {os.fspath(path)!r}, which may need {needed / 1e9:.3g} GB; "
            "pass a larger memory_limit if you trust it."
        )


def _broken(path: str | os.PathLike[str], why: str) -> ModelFileError:
    return ModelFileError(
        f"expected a whole manykernels model file, got {os.fspath(path)!r}, but {why}; "
        "copy the original again."
    )
