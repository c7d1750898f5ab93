"""Gram stacks that are built band by band: in half precision, or in a file.

A file holds the values, little-endian, without a header. A small JSON file beside it
describes them and counts the finished rows; it is replaced whole after every band, so
that a build that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.banks.fingerprint import fingerprint
from manykernels.base.arrays import Index, Values
from manykernels.base.disk import regular_file, replacing
from manykernels.base.machine import available_threads, one_blas_thread, require_disk
from manykernels.kernels.kernel_set import KernelSet
from manykernels.kernels.pairwise import KERNEL_TILE, make_symmetric

# The tiles of `KernelSet.stack`: products of other shapes differ in the last bit.
BAND_ROWS = KERNEL_TILE
# Largest k(x, x) that half precision holds without losing the other values.
HALF_RANGE = (1e-3, 6e4)
DESCRIPTION = {"format": "manykernels gram stack", "version": 2}
DESCRIPTION_BYTES = 1000  # more than its texts and numbers take

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

    Parameters
    ----------
    path : path
        The file with the values; its description has the suffix ".json".
    shape : tuple of int
        (rows, blocks, rows).
    dtype : dtype
        float16, float32 or float64.
    identity : str
        What the values were computed from, see `fingerprint`; none for a file that
        is not to be found again.
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
        """The file that describes the values."""
        return self.path.with_suffix(".json")

    def __getitem__(self, index: Index) -> Values:
        """Rows `index`, shape (len(index), blocks, rows)."""
        return np.asarray(self._mapped()[index])

    def _mapped(self) -> Values:
        """The values, mapped for one use only: pages count as memory of the process."""
        if not self.path.exists() or self.path.stat().st_size != self.disk_bytes:
            raise GramFileError(
                f"expected {self.disk_bytes} bytes of kernel values in "
                f"{str(self.path)!r}, got another size; fit again without changing it."
            )
        return np.memmap(self.path, self.dtype, "r", shape=self.shape)

    def complete(self, kernels: KernelSet) -> None:
        """Compute the bands that are not finished."""
        finished = self._start()
        if finished:
            logger.info("found %d rows in %s", finished, self.path)
        for rows in bands(self.shape[0]):
            if rows.start >= finished:
                self._write(rows, _band(kernels, rows, self.dtype, self._mapped))
                self._describe(rows.stop)

    def _start(self) -> int:
        """Rows that are finished; a file that does not exist yet is created."""
        with self._writing():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                self.path.touch()
        if not self.path.is_file():
            raise GramFileError(
                f"expected a file of kernel values, got {str(self.path)!r}, which is a "
                "folder or a device; delete it or choose another folder."
            )
        size = self.path.stat().st_size
        if size == 0:
            self._describe(0)
            with self._writing():
                os.truncate(self.path, self.disk_bytes)
            return 0
        if size != self.disk_bytes:
            raise GramFileError(
                f"expected {self.disk_bytes} bytes of kernel values in "
                f"{str(self.path)!r}, got {size}; delete the file or choose another "
                "folder."
            )
        return self._finished_rows()

    def _finished_rows(self) -> int:
        """Read and check the description."""
        possible = {0, *(rows.stop for rows in bands(self.shape[0]))}
        try:
            with regular_file(self.description_path) as stream:
                content = json.loads(stream.read(DESCRIPTION_BYTES))
            finished = content["finished_rows"]
            right = content == self._description(finished)
            right = right and type(finished) is int and finished in possible
        except (OSError, ValueError, KeyError, TypeError):
            right = False
        if not right:
            raise GramFileError(
                f"expected the description of these kernels in "
                f"{str(self.description_path)!r}, got something else or nothing; "
                "delete both files or choose another folder."
            )
        return int(finished)

    def _description(self, finished_rows: int) -> dict[str, Any]:
        return {
            **DESCRIPTION,
            "kernels": self.identity,
            "shape": list(self.shape),
            "dtype": self.dtype.name,
            "finished_rows": finished_rows,
        }

    def _describe(self, finished_rows: int) -> None:
        """Replace the description of a file that may be found again."""
        if self.identity:
            with replacing(self.description_path) as stream:
                stream.write(json.dumps(self._description(finished_rows)).encode())

    def _write(self, rows: slice, values: Values) -> None:
        with self._writing(), open(self.path, "r+b") as stream:
            stream.seek(rows.start * self.row_bytes)
            stream.write(values.view(np.uint8).data)
            stream.flush()
            if self.identity:  # before the description counts them as finished
                os.fsync(stream.fileno())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(
                f"kernel values must be written to {str(self.path)!r}, got "
                f"{error.strerror!r}; choose another folder or free some space."
            ) from error


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
    if dtype == np.float16:
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
        require_disk(n_rows * n_rows * shape[1] * dtype.itemsize, None, what)
        own_folder = Path(tempfile.mkdtemp(prefix="manykernels-"))
        file = GramFile(own_folder / "gram.bin", shape, dtype)
        weakref.finalize(file, shutil.rmtree, own_folder, ignore_errors=True)
    file.complete(kernels)
    return file


def half_stack(kernels: KernelSet) -> Values:
    """The stack of shape (rows, blocks, rows), rounded to half precision."""
    require_half_range(kernels)
    n_rows = kernels.n_reference
    stack = np.empty((n_rows, kernels.n_kernels, n_rows), np.float16)
    for rows in bands(n_rows):
        stack[rows] = _band(kernels, rows, stack.dtype, lambda: stack)
    return stack


def require_half_range(kernels: KernelSet) -> None:
    """Raise where half precision would lose a kernel to its range."""
    largest = kernels.diagonals().max(axis=1)
    for name, value in zip(kernels.names, largest, strict=True):
        if not HALF_RANGE[0] <= value <= HALF_RANGE[1]:
            raise ValueError(
                f"float16 needs kernels with a largest k(x, x) between "
                f"{HALF_RANGE[0]:g} and {HALF_RANGE[1]:g}, got {value:.3g} for "
                f"{name!r}; normalize it or use float32."
            )


def bands(n_rows: int) -> list[slice]:
    """Consecutive bands of rows.

    Examples
    --------
    >>> bands(500)
    [slice(0, 384, None), slice(384, 500, None)]
    """
    size = BAND_ROWS
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def _band(
    kernels: KernelSet, rows: slice, dtype: Any, stack: Callable[[], Values]
) -> Values:
    """stack[rows], each value computed once: those left of it are mirrored."""
    n_rows = kernels.n_reference
    out = np.empty((rows.stop - rows.start, kernels.n_kernels, n_rows), dtype)
    fill_right(kernels, rows, out)
    for left in bands(rows.start):
        out[:, :, left] = stack()[left, :, rows].transpose(2, 1, 0)
    return out


def fill_right(kernels: KernelSet, rows: slice, out: Values) -> None:
    """out[i, f, j] = K_f(rows[i], j) for j >= rows.start, exactly as in `stack`."""
    diagonals = kernels.diagonals()[:, rows]

    def fill(columns: slice) -> None:
        for f, block in kernels.between(rows, columns):
            if columns == rows:
                make_symmetric(block, diagonals[f])
            with np.errstate(over="raise"):
                out[:, f, columns] = block

    columns = [part for part in bands(kernels.n_reference) if part.start >= rows.start]
    try:
        with one_blas_thread(), ThreadPoolExecutor(available_threads()) as pool:
            list(pool.map(fill, columns))
    except FloatingPointError:
        raise ValueError(
            f"{out.dtype} holds values up to {np.finfo(out.dtype).max:.3g}, got larger "
            "kernel values; normalize the kernels or use float32."
        ) from None
