"""Memory of a worker: kept for the length of a task, given back after it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

THRESHOLD = "MALLOC_TRIM_THRESHOLD_"  # which Dask sets for its workers
TRIM, MMAP = -1, -3  # what mallopt calls the two sizes below
KEPT = 256 << 20  # free bytes at the end of a heap that stay within a task
LARGE = 32 << 20  # arrays from here on are given back at once; the most there is
USUAL = 128 << 10  # the same outside of a task


@contextmanager
def reused_memory() -> Iterator[None]:
    """Freed arrays are used again, in processes that give each back to the system.

    Dask starts its workers so. Rows are read and mapped in blocks: for every block the
    system would hand out the same pages again, which takes longer than the work.
    """
    told = os.environ.get(THRESHOLD, "")
    library = _library() if told.isdigit() else None
    if library is None:
        yield
        return
    library.mallopt(TRIM, KEPT)
    library.mallopt(MMAP, LARGE)
    try:
        yield
    finally:
        library.mallopt(TRIM, int(told))
        library.mallopt(MMAP, USUAL)


@cache
def _library() -> Any:
    """The C library where it has the two calls (Linux), else None."""
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "mallopt") else None
    except (OSError, TypeError):
        return None
