"""Say beforehand that a fit will be long."""

from __future__ import annotations

import logging
import warnings

from manykernels.banks.build import gram_bytes
from manykernels.kernels import KernelSet

# Orders of magnitude on one core: values computed, and values read by the solver
# (about thirty times each), per second.
BUILD_RATE = 3e8
READ_RATE = 2e9
READS = 30
LONG_SECONDS = 600.0

logger = logging.getLogger(__name__)


def estimated_seconds(n_rows: int, n_kernels: int) -> float:
    """A rough estimate of the time to build and solve, to the order of magnitude.

    Examples
    --------
    >>> estimated_seconds(1_000, 10) < 1.0 < estimated_seconds(20_000, 10)
    True
    """
    values = float(n_rows) ** 2 * n_kernels
    return values / BUILD_RATE + READS * values / READ_RATE


def warn_if_long(kernels: KernelSet) -> None:
    """Log the estimates of time and memory; warn when a fit may take very long."""
    n_rows, n_kernels = kernels.n_reference, kernels.n_kernels
    seconds = estimated_seconds(n_rows, n_kernels)
    logger.info(
        "%d rows, %d kernels: about %.2g GB if stored, about %.2g s",
        n_rows,
        n_kernels,
        gram_bytes(kernels) / 1e9,
        seconds,
    )
    if seconds > LONG_SECONDS:
        warnings.warn(
            f"Fitting {n_rows} rows with {n_kernels} kernels may take about "
            f"{seconds / 60:.0f} minutes; try fewer rows or kernels first, or "
            "solver='obscure' with a small max_iter.",
            UserWarning,
            stacklevel=4,
        )
