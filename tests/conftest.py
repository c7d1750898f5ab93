"""What all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from manykernels.datasets._files import data_root

# The first call of a compiled function takes seconds: no deadline for one example.
settings.register_profile(
    "manykernels",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("manykernels")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the data files; skips the test when there is none."""
    folder = data_root()
    if not folder.is_dir():
        pytest.skip(f"no data folder {folder}; name one with MANYKERNELS_DATA")
    return folder


@pytest.fixture
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread, for timings and for results that must repeat to the bit."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield
