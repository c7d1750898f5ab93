"""Calls of Dask: hold results where they are computed, add them up, name errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import dask

from manykernels.base.machine import (
    available_threads,
    free_bytes,
    no_more_threads,
    one_blas_thread,
)
from manykernels.base.quoted import quoted_error
from manykernels.distributed.memory import reused_memory

WORKER_MEMORY_SHARE = 0.4  # that rows and features may take
# What a client sees when its scheduler is gone; some of it only by name.
LOST_ERRORS = (
    *("CommClosedError", "CancelledError", "FutureCancelledError", "TimeoutError"),
)


class LostClusterError(ConnectionError):
    """The scheduler does not answer any more."""


class WorkerMemoryError(MemoryError):
    """Workers died again and again at the same task."""


class Engine:
    """A running client of Dask, or threads of this process where there is none.

    Examples
    --------
    >>> engine = Engine()
    >>> parts = [engine.task(abs, -n) for n in range(1, 12)]
    >>> engine.total(parts, sum)
    66
    """

    def __init__(self) -> None:
        self.client = running_client()
        self.address = None if self.client is None else self.client.scheduler.address

    def task(self, work: Callable[..., Any], *inputs: Any) -> Any:
        """A call that is made later, in a thread that starts no others."""
        return dask.delayed(SingleThreadedTask(work), pure=False)(*inputs)

    def shared(self, value: Any) -> Any:
        """A value that many tasks take: it travels once."""
        return dask.delayed(value, pure=False, traverse=False)

    def held(self, tasks: Sequence[Any]) -> list[Any]:
        """The same tasks, begun, with results that stay where they are computed."""
        with self._translate_errors():
            return list(dask.persist(*tasks))

    def results(self, tasks: Sequence[Any]) -> list[Any]:
        """The results themselves, here."""
        with self._translate_errors():
            return list(dask.compute(*tasks))

    def total(self, tasks: Sequence[Any], add: Callable[[list[Any]], Any]) -> Any:
        """The results added up in a tree: what arrives here has the size of one."""
        level = list(tasks)
        while len(level) > 1:
            groups = [level[i : i + 8] for i in range(0, len(level), 8)]
            level = [self.task(add, group) for group in groups]
        return self.results(level)[0]

    def n_tasks(self) -> int:
        """Tasks that keep all workers busy, none of them for long at the end."""
        if self.client is None:
            return 4 * available_threads()
        with self._translate_errors():
            return 4 * max(1, sum(self.client.nthreads().values()))

    def memory(self) -> int:
        """Bytes that rows and features may take on all workers together."""
        if self.client is None:
            return int(WORKER_MEMORY_SHARE * free_bytes())
        with self._translate_errors():
            # Not what the client remembers: its own updates leave workers out.
            workers = self.client.sync(self.client.scheduler.identity)["workers"]
        limits = [worker["memory_limit"] or free_bytes() for worker in workers.values()]
        return int(WORKER_MEMORY_SHARE * sum(limits))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise one sentence for what goes wrong between machines."""
        # Threads of BLAS would fight with those of the scheduler.
        alone = one_blas_thread() if self.client is None else nullcontext()
        try:
            with alone:
                yield
        except Exception as error:
            kind = type(error).__name__
            if kind == "KilledWorker":
                raise WorkerMemoryError(
                    "expected workers that live through a partition, got several that "
                    "died at the same one, most likely for memory "
                    f"({quoted_error(error)}); use smaller partitions, a smaller "
                    "memory_limit of the estimator, or workers with more memory."
                ) from error
            if self._is_lost(kind):
                raise LostClusterError(
                    f"expected an answer of the scheduler {self.address}, got none "
                    f"({kind}); start it again, connect a Client and call fit again: "
                    "with a checkpoint the fit goes on where it was."
                ) from error
            raise

    def _is_lost(self, kind: str) -> bool:
        """Whether an error of this kind means that the scheduler is gone."""
        if self.client is None:
            return False
        return kind in LOST_ERRORS or self.client.status != "running"


class SingleThreadedTask:
    """A function whose task starts no threads, and reuses its memory."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work = work
        self.__name__ = getattr(work, "__name__", type(work).__name__)

    def __call__(self, *inputs: Any) -> Any:
        with no_more_threads(), reused_memory():
            return self.work(*inputs)


def running_client() -> Any:
    """The client that Dask would use; None without a connected one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client

    try:
        return Client.current()
    except ValueError:
        return None
