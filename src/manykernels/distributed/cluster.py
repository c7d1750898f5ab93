"""Workers and files, for those who have neither started nor opened them."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from manykernels.base.imports import require_library

CONNECT = "20s"  # that a scheduler may take to answer
READERS = {"parquet": "read_parquet", "csv": "read_csv"}


@contextmanager
def connected(
    scheduler: str | None = None,
    workers: int | None = None,
    memory_limit: str | None = None,
) -> Iterator[Any]:
    """A client of a running scheduler, or of workers started here for the time.

    Parameters
    ----------
    scheduler : str, optional
        Address of a running one.
    workers : int, optional
        Processes to start in its absence; as many as there are cores by default.
    memory_limit : str, optional
        Of each of these.
    """
    distributed = require_library("distributed", "dask")
    if scheduler is not None:
        with _client_of(distributed, scheduler) as client:
            yield client
        return
    settings = {"n_workers": workers, "memory_limit": memory_limit}
    given = {name: value for name, value in settings.items() if value is not None}
    with (
        distributed.LocalCluster(
            threads_per_worker=1, dashboard_address=":0", **given
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _client_of(distributed: Any, scheduler: str) -> Any:
    try:
        return distributed.Client(scheduler, timeout=CONNECT)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"expected the address of a running scheduler, got {scheduler!r}, where "
            "none answers; start one with 'dask scheduler'."
        ) from error


def read_files(pattern: str, format: str) -> Any:
    """A lazy data frame of all files that a pattern names, CSV or Parquet."""
    if format not in READERS:
        raise ValueError(
            f"expected files in one of the formats {', '.join(READERS)} for a fit on "
            f"partitions, got {format}; convert them, or leave the engine out."
        )
    if "://" not in pattern and not glob.glob(pattern):
        raise ValueError(
            f"expected files, got none that match {pattern!r}; check the pattern, and "
            "put it in quotes."
        )
    frames = require_library("dask.dataframe", "dask")
    return getattr(frames, READERS[format])(pattern)
