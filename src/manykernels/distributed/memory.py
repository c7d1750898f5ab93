"""Memory of a worker: kept for the length of a task, given back after it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

TRIM_VARIABLE = "MALLOC_TRIM_THRESHOLD_"  # which Dask sets for its workers
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names of mallopt for the sizes below
# Free bytes at the end of a heap that stay within a task: with Dask's setting a pass
# over mapped rows takes three times as long.
TASK_FREE_BYTES = 256 << 20
TASK_MMAP_BYTES = 32 << 20  # larger arrays go back at once; the highest that it takes
USUAL_MMAP_BYTES = 128 << 10  # outside of a task


@contextmanager
def reused_memory() -> Iterator[None]:
    """Freed arrays are used again, in processes that give each back to the system.

    Dask starts its workers so. Rows are read and mapped in blocks: for every block the
    system would hand out the same pages again, which takes longer than the work.
    """
    trim_bytes = os.environ.get(TRIM_VARIABLE, "")
    library = _library() if trim_bytes.isdigit() else None
    if library is None:
        yield
        return
    library.mallopt(M_TRIM_THRESHOLD, TASK_FREE_BYTES)
    library.mallopt(M_MMAP_THRESHOLD, TASK_MMAP_BYTES)
    try:
        yield
    finally:
        library.mallopt(M_TRIM_THRESHOLD, int(trim_bytes))
        library.mallopt(M_MMAP_THRESHOLD, USUAL_MMAP_BYTES)


@cache
def _library() -> Any:
    """The C library where it has the two calls (Linux), else None."""
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "mallopt") else None
    except (OSError, TypeError):
        return None
