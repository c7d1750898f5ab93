"""What the machine offers, threads, memory and disk; a refusal before these run out."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from manykernels.base.quoted import quoted

Result = TypeVar("Result")

# Bytes of traffic that are worth a thread: a core reads them in half a millisecond, a
# tenth of which it takes to hand them over.
WORTHWHILE_BYTES = 4 << 20
SCATTERED = 8.0  # times as long: reading values that lie here and there in memory
# Finding the libraries takes milliseconds, so it happens once, when they are loaded.
_blas_controller = cache(ThreadpoolController)
_this_thread = threading.local()
PREFIXES = ["", "K", "M", "G", "T"]
MEMORY_SIZE = r"\s*([\d.]+)\s*(?:([KMGT])(i?))?B?\s*"  # number, prefix, "i" of 1024
SAFE_SHARE = 0.8  # of the free memory, when the user sets no limit


def one_blas_thread() -> AbstractContextManager[object]:
    """One BLAS thread, where those of BLAS would wait for each other or for loops.

    Examples
    --------
    >>> with one_blas_thread():
    ...     product = np.ones((2, 2)) @ np.ones((2, 2))
    """
    return _blas_controller().limit(limits=1, user_api="blas")


@cache
def available_threads() -> int:
    """Threads that this process may use; joblib sets a variable for its workers.

    Examples
    --------
    >>> available_threads() >= 1
    True
    """
    return int(os.environ.get("NUMBA_NUM_THREADS") or joblib.cpu_count())


def in_slices(
    n_rows: int, n_bytes: float, work: Callable[[int, int], Result]
) -> list[Result]:
    """Return [work(start, stop), ...] over consecutive slices of range(n_rows).

    Examples
    --------
    >>> in_slices(4, 0, lambda start, stop: stop - start)
    [4]
    """
    worthwhile = n_bytes / max(WORTHWHILE_BYTES, 1)
    n_threads = int(min(available_threads(), n_rows, worthwhile))
    # A worker that waited for others could wait for itself.
    if n_threads <= 1 or getattr(_this_thread, "is_worker", False):
        return [work(0, n_rows)]
    edges = np.linspace(0, n_rows, n_threads + 1).astype(int).tolist()
    pool = _workers(n_threads - 1)
    others = [pool.submit(work, *edge) for edge in itertools.pairwise(edges[1:])]
    try:
        first = work(0, edges[1])
    finally:  # they write where the caller will read, or will not expect it any more
        wait(others)
    return [first, *(other.result() for other in others)]


@cache
def _workers(n_threads: int) -> ThreadPoolExecutor:
    """Threads that stay: to start one takes longer than many a slice of work."""

    def mark() -> None:
        _this_thread.is_worker = True

    return ThreadPoolExecutor(n_threads, "manykernels", mark)


@contextmanager
def no_more_threads() -> Iterator[None]:
    """One of many threads that work side by side, which starts no others."""
    before = getattr(_this_thread, "is_worker", False)
    _this_thread.is_worker = True
    try:
        yield
    finally:
        _this_thread.is_worker = before


if hasattr(os, "register_at_fork"):  # threads stay behind in the parent
    os.register_at_fork(after_in_child=_workers.cache_clear)


def parse_bytes(limit: int | float | str) -> int:
    """Bytes from a number or from text such as "4GB" (powers of 1000) or "4GiB".

    Examples
    --------
    >>> parse_bytes("4GB")
    4000000000
    >>> parse_bytes("1KiB")
    1024
    """
    if isinstance(limit, (int, float)) and not isinstance(limit, bool):
        if 0 < limit < np.inf:
            return int(limit)
    match = re.fullmatch(MEMORY_SIZE, str(limit), re.IGNORECASE)
    try:
        if match is not None and float(match[1]) > 0:
            base = 1024 if match[3] else 1000
            power = PREFIXES.index((match[2] or "").upper())
            return int(float(match[1]) * base**power)
    except (ValueError, OverflowError):
        pass
    raise ValueError(
        f"memory_limit must be a positive number of bytes or text such as '4GB', got "
        f"{quoted(limit)}; write for instance '4GB', or None for what is free."
    )


def free_bytes() -> int:
    """Memory that is free now; all memory where the system does not report it."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 * 10**9


def allowed_bytes(limit: int | float | str | None) -> int:
    """The user's limit, or most of what is free."""
    return int(SAFE_SHARE * free_bytes()) if limit is None else parse_bytes(limit)


def require_memory(needed: int, limit: int | float | str | None, what: str) -> None:
    """Raise MemoryError when `needed` bytes exceed the limit, or what is free."""
    allowed = allowed_bytes(limit)
    if needed > allowed:
        raise MemoryError(
            f"{what} needs about {needed / 1e9:.3g} GB, more than the "
            f"{allowed / 1e9:.3g} GB allowed; use fewer kernels or rows, or raise "
            "memory_limit."
        )


def stack_bytes(n_rows: int, n_blocks: int, itemsize: int) -> int:
    """Bytes of a stored stack and of what the solver adds at most.

    Dual ascent copies up to half of the stack for a working set, and combines the
    kernels into one matrix and a part of it.

    Examples
    --------
    >>> stack_bytes(1000, 10, 4)
    68000000
    """
    return int(n_rows**2 * itemsize * (1.5 * n_blocks + 2))


def free_disk_bytes(path: Path | None) -> int:
    """Free bytes where `path` is or will be, with those it already takes.

    None stands for the folder of temporary files.
    """
    place = Path(tempfile.gettempdir()) if path is None else path.absolute()
    taken = 512 * getattr(place.stat(), "st_blocks", 0) if place.is_file() else 0
    while not place.is_dir():
        place = place.parent
    return shutil.disk_usage(place).free + taken


def is_memory_disk(path: Path | None) -> bool:
    """Whether a folder lives in memory, as temporary folders do on some systems."""
    place = Path(tempfile.gettempdir()) if path is None else path.absolute()
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return False
    kinds = {line.split()[1]: line.split()[2] for line in mounts}
    inside = [str(p) for p in [place, *place.parents] if str(p) in kinds]
    return bool(inside) and kinds[inside[0]] in ("tmpfs", "ramfs")


def require_disk(needed: int, path: Path | None, what: str) -> None:
    """Raise OSError when `needed` bytes exceed what is free where `path` will be."""
    free = free_disk_bytes(path)
    if needed > free:
        place = tempfile.gettempdir() if path is None else str(path.parent)
        raise OSError(
            f"{what} on disk needs about {needed / 1e9:.3g} GB, more than the "
            f"{free / 1e9:.3g} GB free in {place!r}; choose another folder, "
            "storage='memmap:float16' or storage='on_demand'."
        )
