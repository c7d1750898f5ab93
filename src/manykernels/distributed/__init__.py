"""More rows than one machine holds: estimators on Dask collections."""

from manykernels.distributed.cluster import connected, read_files
from manykernels.distributed.fitting import fit
from manykernels.distributed.lazy import lazily
from manykernels.distributed.plan import SAMPLE_ROWS
from manykernels.distributed.searching import on_workers

__all__ = [
    "SAMPLE_ROWS",
    "connected",
    "fit",
    "lazily",
    "on_workers",
    "read_files",
]
