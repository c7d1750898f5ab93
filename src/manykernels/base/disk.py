"""Files that are written whole or not at all, and read only where they are files."""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from manykernels.base.machine import allowed_bytes
from manykernels.base.quoted import quoted

# What some file systems answer when a folder is to be synced.
NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def file_name(path: Any, what: str = "path") -> str:
    """The name of a file as text.

    Examples
    --------
    >>> file_name(Path("model.mk"))
    'model.mk'
    >>> file_name(3)
    Traceback (most recent call last):
    TypeError: path must be the name of a file, got 3; write for instance 'model.mk'.
    """
    try:
        name = os.fsdecode(path)
    except TypeError:
        name = None
    if name and "\0" not in name:
        return name
    kind = TypeError if name is None else ValueError
    raise kind(
        f"{what} must be the name of a file, got {quoted(path)}; write for instance "
        "'model.mk'."
    )


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose bytes become the file's content when the block ends well.

    Until then, and after any failure, the file is what it was. It is made as `open`
    would make it: the umask counts, an earlier file keeps its permissions and a link
    its place. File and folder are synced: what has been written outlives a crash of
    the machine.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "text"
    >>> with replacing(path) as stream:
    ...     _ = stream.write(b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    target = Path(os.path.realpath(file_name(path)))
    draft = target.with_name(f".draft-{secrets.token_hex(8)}")
    try:
        mode = _writable_mode(target)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(draft, flags, 0o666), "wb") as stream:
            yield stream
            stream.flush()
            if mode is not None:
                os.chmod(draft, mode)
            os.fsync(stream.fileno())
        os.replace(draft, target)
        sync_folder(target.parent)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise _not_written(path, error) from error
        raise


def _writable_mode(target: Path) -> int | None:
    """The permissions of an earlier file, which `open` would ask for too."""
    try:
        found = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise FileExistsError(
            "expected the name of a new or ordinary file to write, got "
            f"{str(target)!r}, which is a folder or a device; choose another name."
        )
    if not os.access(target, os.W_OK):
        raise PermissionError(
            f"expected a file that may be written, got {str(target)!r}, which is "
            "read-only; choose another name."
        )
    return stat.S_IMODE(found.st_mode)


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder outlive a crash, where folders can be synced."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(handle)


def _not_written(path: str | os.PathLike[str], error: OSError) -> OSError:
    """The same sort of error in one sentence."""
    return type(error)(
        f"expected to write {quoted(file_name(path))}, got {error.strerror!r}; choose "
        "another folder or free some space."
    )


class TooLargeError(MemoryError):
    """What is read does not fit into the memory that is free."""


def require_room(n_bytes: int, what: str) -> None:
    """Raise where this many bytes are more than most of what is free."""
    allowed = allowed_bytes(None)
    if n_bytes > allowed:
        raise TooLargeError(
            f"expected {what} of at most {allowed / 1e9:.3g} GB, most of what is free, "
            f"got {n_bytes / 1e9:.3g} GB or more; read a part of it."
        )


def read_whole(stream: Any, what: str) -> bytes:
    """All bytes of a stream, unless they are more than fit into memory.

    A device never ends, and a few packed bytes may stand for any number of others.

    Examples
    --------
    >>> import io
    >>> read_whole(io.BytesIO(b"whole"), "a file")
    b'whole'
    """
    parts, size = [], 0
    while part := stream.read(2**20):
        size += len(part)
        parts.append(part)
        if size >> 30 > (size - len(part)) >> 30:  # asking the system takes a while
            require_room(2 * size, what)
    return b"".join(parts)


def unpacked(content: bytes, what: str) -> bytes:
    """The bytes of a gzip file; OSError, EOFError or zlib.error if it is damaged."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        return read_whole(stream, what)


@contextmanager
def regular_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream of a file's bytes; pipes, devices and folders are refused at once.

    Examples
    --------
    >>> with regular_file("/") as stream:
    ...     pass
    Traceback (most recent call last):
    ValueError: it is no regular file
    """
    # A pipe would wait for its other end, unless it is opened without waiting.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is no regular file")
    with os.fdopen(handle, "rb") as stream:
        yield stream
