"""More rows than one machine holds: estimators on Dask collections."""

from manykernels.distributed.cluster import connected, read_files
from manykernels.distributed.lazy import lazily
from manykernels.distributed.partitioned_fit import KERNEL_SAMPLE_ROWS, fit
from manykernels.distributed.searching import on_workers

__all__ = [
    "KERNEL_SAMPLE_ROWS",
    "connected",
    "fit",
    "lazily",
    "on_workers",
    "read_files",
]
