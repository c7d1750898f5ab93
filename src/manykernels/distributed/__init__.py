"""More rows than one machine holds: estimators on Dask collections."""

from manykernels.distributed.fitting import fit
from manykernels.distributed.lazy import lazily
from manykernels.distributed.plan import SAMPLE_ROWS

__all__ = [
    "SAMPLE_ROWS",
    "fit",
    "lazily",
]
