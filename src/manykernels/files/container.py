"""One file for a JSON document and its arrays, checked before anything is read.

The file is a line with the version, a line with the length of the document, the
document, the bytes of all arrays one after the other, and a SHA-256 of all that. There
are no offsets: what is there follows from the sizes, and these must add up to the
file's own. Nothing in it can name code to run, and how much memory it takes to read is
known, and bounded, before it is read.
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
from manykernels.base.quoted import quoted
from manykernels.base.stored import one_line

FORMAT = "manykernels"
VERSION = 3
OPENING = rb"manykernels (\d{1,9})\n([0-9a-f]{16})\n"  # version, length of the document
LONGEST_OPENING = 64
DIGEST = 32  # bytes at the end
KINDS = "biufU"  # booleans, numbers and text; objects would need pickle
MOST_EMPTY = 2**20  # columns of a table without rows, which cost no bytes
# What reading may take, unless the user sets a limit: a multiple of the file, and this.
TIMES, EXTRA = 4, 100_000_000
# Bytes that Python takes at most for what these begin or separate in a document.
UNFOLDED = {b"[": 140, b"{": 250, b":": 80, b'"': 36, b",": 48, b',"': -32}

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
        [f"{FORMAT} {VERSION}\n{len(document):016x}\n".encode() + document],
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
        why = f"its parts do not fit together ({one_line(error)})"
        raise _broken(path, why) from error


def _read(
    stream: BinaryIO, path: str | os.PathLike[str], allowed: int | None
) -> tuple[Any, Arrays]:
    size = os.fstat(stream.fileno()).st_size
    if allowed is None:  # a hole may have any size without taking any place
        allowed = min(TIMES * size + EXTRA, allowed_bytes(None))
    opening = re.match(OPENING, stream.read(LONGEST_OPENING))
    if opening is None:
        raise ValueError("it does not begin as one")
    _require_version(path, int(opening[1]))
    start, length = opening.end(), int(opening[2], 16)
    if start + length + DIGEST > size:
        raise ValueError("it ends too early")
    _require_room(path, 2 * size, allowed)
    stream.seek(0)
    whole = memoryview(stream.read(size))
    if len(whole) < size or hashlib.sha256(whole[:-DIGEST]).digest() != whole[-DIGEST:]:
        raise ValueError("its checksum does not match its content")
    text = bytes(whole[start : start + length])
    _require_room(path, 2 * size + _unfolded(text), allowed)
    document = json.loads(text.decode("ascii"))
    arrays = _split(whole[start + length : -DIGEST], document["arrays"])
    return document["content"], arrays


def _unfolded(document: bytes) -> int:
    """Bytes that the values in a document take at most as Python objects."""
    width = 4 if re.search(rb"\\u[dD]", document) else 2 if b"\\u" in document else 1
    objects = sum(size * document.count(mark) for mark, size in UNFOLDED.items())
    return (1 + 2 * width) * len(document) + objects


def _split(payload: memoryview, described: Any) -> Arrays:
    """The arrays one after the other; their sizes must add up to what is there."""
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
    """Type, shape and order of an array; empty arrays may be wide, but not absurd."""
    dtype, shape = np.dtype(described["dtype"]), described["shape"]
    order = described["order"]
    known = dtype.kind == "U" or (dtype.kind in KINDS and dtype.itemsize <= 8)
    if not (known and dtype.isnative and 0 <= len(shape) <= 4):
        raise ValueError(f"it has an array of type {dtype} and shape {shape}")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"it has an array of shape {shape}")
    if not math.prod(shape) * dtype.itemsize and max(shape, default=0) > MOST_EMPTY:
        raise ValueError(f"it has an empty array of shape {shape}")
    if order not in ("C", "F"):
        raise ValueError(f"it has an array in the order {order!r}")
    return dtype, tuple(shape), order


def _require_characters(values: NDArray[Any]) -> None:
    """Raise where bytes are no text or no truth value, which numpy would not notice."""
    codes = {"U": (np.uint32, 0x10FFFF), "b": (np.uint8, 1)}
    if values.size and values.dtype.kind in codes:
        code, most = codes[values.dtype.kind]
        if values.view(code).max() > most:
            raise ValueError(f"it has an array that is no {values.dtype}")


def _require_version(path: str | os.PathLike[str], version: int) -> None:
    if version != VERSION:
        raise ModelFileError(
            f"expected a model file of version {VERSION}, got version {version} in "
            f"{os.fspath(path)!r}; load it with the manykernels that wrote it, or a "
            "newer one."
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
        f"expected a whole manykernels model file, but of {os.fspath(path)!r} can be "
        f"said that {why}; copy the original again."
    )
