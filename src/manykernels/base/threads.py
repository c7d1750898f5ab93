"""Run a compiled function on slices of the rows, one thread per core."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

# Below this many bytes of traffic, starting threads costs more than it saves.
WORTHWHILE_BYTES = 64 << 20


@cache
def _controller() -> ThreadpoolController:
    """Finding the libraries takes milliseconds, so it happens once."""
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """One BLAS thread, where threads of BLAS would wait for each other or for ours.

    Examples
    --------
    >>> with one_blas_thread():
    ...     product = np.ones((2, 2)) @ np.ones((2, 2))
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def available_threads() -> int:
    """Threads that this process may use; joblib tells its workers by a variable.

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
    n_threads = min(available_threads(), n_rows)
    if n_threads <= 1 or n_bytes < WORTHWHILE_BYTES:
        return [work(0, n_rows)]
    edges = np.linspace(0, n_rows, n_threads + 1).astype(int)
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, edges[:-1].tolist(), edges[1:].tolist()))
