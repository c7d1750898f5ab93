"""A Gram stack in a file: written band by band, checked, resumed, read by rows.

The values lie in one plain file, little-endian, without a header. A small JSON file
beside it says what they are and holds a checksum per finished band; it is replaced
whole after every band, so a build that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.banks.bands import BAND, FLOAT16, bands, fill_right, require_half_range
from manykernels.banks.fingerprint import fingerprint
from manykernels.base.arrays import Index, Values
from manykernels.base.disk import regular_file, replacing
from manykernels.base.machine import in_slices, require_disk
from manykernels.kernels import KernelSet

FORMAT = "manykernels gram stack"
VERSION = 1
CHUNK_BYTES = 4 << 20  # read at a time when a band is checked
DESCRIPTION_BYTES, BAND_BYTES = 1000, 20  # more than its texts and numbers take
UNKNOWN = -1  # in place of the checksum of a band that is not finished

logger = logging.getLogger(__name__)


class GramFileError(ValueError):
    """A file that is not the Gram stack which its folder promises.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "values.gram"
    ...     _ = path.write_bytes(b"something else")
    ...     try:
    ...         GramFile(path, (2, 1, 2), "float64")[np.array([0, 1])]
    ...     except GramFileError as error:
    ...         print("refused")
    refused
    """


class GramFile:
    """stack[i, f, j] = K_f(i, j) on disk; `file[index]` reads whole rows.

    Rows are read, not mapped: pages of a memory map would count as memory in use.

    Parameters
    ----------
    path : path
        The file with the values; its description has the suffix ".json".
    shape : tuple of int
        (rows, blocks, rows).
    dtype : dtype
        float16, float32 or float64.
    identity : str
        What the values were computed from, see `fingerprint`.
    """

    def __init__(
        self, path: Path, shape: tuple[int, int, int], dtype: Any, identity: str = ""
    ) -> None:
        self.path = path
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype).newbyteorder("<")
        self.identity = identity
        self.row_bytes = shape[1] * shape[2] * self.dtype.itemsize
        self.disk_bytes = shape[0] * self.row_bytes

    @property
    def description_path(self) -> Path:
        """Where the description and the checksums are."""
        return self.path.with_suffix(".json")

    def __getitem__(self, index: Index) -> Values:
        """Rows `index`, shape (len(index), blocks, rows); runs in one go."""
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        cuts = np.flatnonzero(np.diff(index) != 1) + 1
        edges = [0, *cuts.tolist(), len(index)]
        with self._open("rb") as stream:
            for start, stop in zip(edges[:-1], edges[1:], strict=True):
                if stop > start:
                    offset = int(index[start]) * self.row_bytes
                    self._read(stream, offset, out[start:stop])
        return out

    def complete(self, kernels: KernelSet) -> None:
        """Keep the bands that are there and intact; compute the others."""
        with self._locked():
            checksums = self._start()
            missing = self._missing(checksums)
            if missing and self.path.stat().st_size == 0:
                self._create(checksums)
            for band in missing:
                rows = bands(self.shape[0])[band]
                values = self._compute(kernels, rows)
                self._write(rows, values)
                checksums[band] = zlib.crc32(values.data)
                self._describe(checksums)

    def _compute(self, kernels: KernelSet, rows: slice) -> Values:
        """One band: its right part from the kernels, its left part from the file."""
        values = np.empty((rows.stop - rows.start, *self.shape[1:]), self.dtype)
        fill_right(kernels, rows, values)
        with self._open("rb") as stream:
            for left in bands(rows.start):
                values[:, :, left] = self._tile(stream, left, rows).transpose(2, 1, 0)
        return values

    def _tile(self, stream: FileIO, rows: slice, columns: slice) -> Values:
        """stack[rows, :, columns] of finished rows."""
        width = columns.stop - columns.start
        tile = np.empty((rows.stop - rows.start, self.shape[1], width), self.dtype)
        line_bytes = self.shape[2] * self.dtype.itemsize
        first = rows.start * self.row_bytes + columns.start * self.dtype.itemsize
        for k, line in enumerate(tile.reshape(-1, width)):
            self._read(stream, first + k * line_bytes, line)
        return tile

    def _start(self) -> list[int]:
        """Checksums of the finished bands; an empty file has none yet."""
        size = self.path.stat().st_size
        if size == 0:
            return [UNKNOWN] * len(bands(self.shape[0]))
        if size != self.disk_bytes:
            raise GramFileError(
                f"expected {self.disk_bytes} bytes of kernel values in "
                f"{str(self.path)!r}, got {size}; delete the file or choose another "
                "folder."
            )
        return self._checksums()

    def _checksums(self) -> list[int]:
        """The description's checksums, once it is known to be ours."""
        try:
            found = json.loads(self._description())
            checksums = found.pop("checksums")
            right = found == self._about() and self._plausible(checksums)
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            right = False
        if not right:
            raise GramFileError(
                f"expected the description of these kernels in "
                f"{str(self.description_path)!r}, got something else or nothing; "
                "delete both files or choose another folder."
            )
        return list(checksums)

    def _description(self) -> bytes:
        """The text of the description; a longer one cannot be ours."""
        with regular_file(self.description_path) as stream:
            return stream.read(
                DESCRIPTION_BYTES + BAND_BYTES * len(bands(self.shape[0]))
            )

    def _plausible(self, checksums: Any) -> bool:
        return len(checksums) == len(bands(self.shape[0])) and all(
            type(checksum) is int for checksum in checksums
        )

    def _about(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "kernels": self.identity,
            "shape": list(self.shape),
            "dtype": self.dtype.name,
            "band": BAND,
        }

    def _missing(self, checksums: list[int]) -> list[int]:
        """Bands without a checksum, and those that it does not fit."""
        known = np.flatnonzero(np.array(checksums) != UNKNOWN)

        def work(start: int, stop: int) -> list[int]:
            picked = known[start:stop].tolist()
            return [band for band in picked if self._crc(band) != checksums[band]]

        size = len(known) * BAND * self.row_bytes
        damaged = sum(in_slices(len(known), size, work), [])
        if len(known):
            logger.info("found %d bands in %s", len(known) - len(damaged), self.path)
        for band in damaged:
            logger.warning(
                "band %d of %s is damaged: computing it anew", band, self.path
            )
        never = set(range(len(checksums))) - set(known.tolist())
        return sorted(never | set(damaged))

    def _crc(self, band: int) -> int:
        rows = bands(self.shape[0])[band]
        left = (rows.stop - rows.start) * self.row_bytes
        checksum, buffer = 0, memoryview(bytearray(min(CHUNK_BYTES, left)))
        with self._open("rb") as stream:
            stream.seek(rows.start * self.row_bytes)
            while left and (count := stream.readinto(buffer[:left])):
                checksum = zlib.crc32(buffer[:count], checksum)
                left -= count
        return checksum

    def _create(self, checksums: list[int]) -> None:
        self._describe(checksums)
        with self._writing(), self._open("r+b") as stream:
            stream.truncate(self.disk_bytes)

    def _write(self, rows: slice, values: Values) -> None:
        left = _bytes_of(values)
        with self._writing(), self._open("r+b") as stream:
            stream.seek(rows.start * self.row_bytes)
            while left:
                left = left[stream.write(left) :]
            if self.identity:  # its checksum must not reach the disk before it does
                os.fsync(stream.fileno())

    def _describe(self, checksums: list[int]) -> None:
        """Replace the description of a file that may be found again."""
        if not self.identity:
            return
        text = json.dumps({**self._about(), "checksums": checksums})
        with replacing(self.description_path) as stream:
            stream.write(text.encode())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(
                f"kernel values must be written to {str(self.path)!r}, got "
                f"{error.strerror!r}; choose another folder or free some space."
            ) from error

    def _read(self, stream: FileIO, offset: int, out: Values) -> None:
        stream.seek(offset)
        left = _bytes_of(out)
        while left:
            count = stream.readinto(left)
            if not count:
                raise GramFileError(
                    f"expected {self.disk_bytes} bytes of kernel values in "
                    f"{str(self.path)!r}, got fewer; fit again without changing it."
                )
            left = left[count:]

    def _open(self, mode: str) -> FileIO:
        return FileIO(self.path, mode)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time complete the file, where the system has locks.

        A finished file may be read-only.
        """
        with self._writing():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                self.path.touch()
        if not self.path.is_file():
            raise GramFileError(
                f"expected a file of kernel values, got {str(self.path)!r}, which is a "
                "folder or a device; delete it or choose another folder."
            )
        with self._open("rb") as stream:
            with suppress(ImportError, OSError):
                import fcntl

                fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def stored_file(
    kernels: KernelSet, dtype: Any = None, folder: str | os.PathLike[str] | None = None
) -> GramFile:
    """The Gram stack of these kernels in a file.

    Parameters
    ----------
    kernels : KernelSet
    dtype : dtype, optional
        Of the stored values; by default the kernels' own.
    folder : path, optional
        Where a finished file is found again by the fingerprint of its kernels; by
        default a temporary folder that goes when the file is no longer used.

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> file = stored_file(KernelSet.fit([RBF(0.5)], [[0.0], [1.0]]))
    >>> file[np.array([1])].round(3).tolist()
    [[[0.607, 1.0]]]
    """
    dtype = kernels.dtype if dtype is None else np.dtype(dtype)
    if dtype == FLOAT16:
        require_half_range(kernels)
    n_rows = kernels.n_reference
    shape = (n_rows, kernels.n_kernels, n_rows)
    what = f"storing {kernels.n_kernels} kernels of {n_rows} x {n_rows} values"
    if folder is not None:
        identity = fingerprint(kernels)
        name = f"gram-{identity}-{dtype.name}.bin"
        file = GramFile(Path(folder) / name, shape, dtype, identity)
        require_disk(file.disk_bytes, file.path, what)
    else:
        require_disk(shape[0] * shape[1] * shape[2] * dtype.itemsize, None, what)
        own = Path(tempfile.mkdtemp(prefix="manykernels-"))
        file = GramFile(own / "gram.bin", shape, dtype)
        weakref.finalize(file, shutil.rmtree, own, ignore_errors=True)
    file.complete(kernels)
    return file


def _bytes_of(array: Values) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data
