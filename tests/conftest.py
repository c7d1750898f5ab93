"""What all tests share."""

import os
import sys
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numba.core.dispatcher import Dispatcher
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from manykernels.datasets.download import data_root
from tests.browser import open_browser

# The first call of a compiled function takes seconds: no deadline for one example.
settings.register_profile(
    "manykernels",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("manykernels")


ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def tidy_repository() -> Iterator[None]:
    """No test leaves a file behind: what it writes belongs to tmp_path."""
    before = _names(ROOT)
    yield
    left = _names(ROOT) - before
    assert not left, f"left behind in {ROOT}: {', '.join(sorted(left))}"


def _names(folder: Path) -> set[str]:
    """What lies in a folder, apart from what tools keep under hidden names."""
    return {name for name in os.listdir(folder) if not name.startswith(".")}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the benchmarks, for imports."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the data files; skips the test when there is none."""
    folder = data_root()
    if not folder.is_dir():
        pytest.skip(f"no data folder {folder}; name one with MANYKERNELS_DATA")
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser; skips the test when there is none."""
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread, for timings and for results that must repeat to the bit."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def split(X, y, **options):
    A, B, a, b = train_test_split(X, y, random_state=0, stratify=y, **options)
    return SimpleNamespace(X=A, y=a, X_new=B, y_new=b)


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return split(X / 16.0, y, train_size=400, test_size=600)


@pytest.fixture(scope="session")
def iris():
    return split(*load_iris(return_X_y=True), train_size=90)


@pytest.fixture(scope="session")
def pair():
    """Two overlapping classes."""
    X, y = load_iris(return_X_y=True)
    return split(X[y > 0], y[y > 0], train_size=60)


@pytest.fixture(scope="session")
def stack(iris):
    """A kernel per column: (n, n, F) for training, (m, n, F) for new rows."""

    def kernels(A, B):
        columns = range(A.shape[1])
        return np.stack([rbf_kernel(A[:, [j]], B[:, [j]]) for j in columns], axis=-1)

    return SimpleNamespace(
        X=kernels(iris.X, iris.X),
        X_new=kernels(iris.X_new, iris.X),
        y=iris.y,
        y_new=iris.y_new,
    )


def _untraced(compile_one):
    """Compilation is other people's code: counting its lines would cost minutes."""

    @wraps(compile_one)
    def run(*args, **options):
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return compile_one(*args, **options)
        finally:
            sys.settrace(tracer)

    return run


Dispatcher.compile = _untraced(Dispatcher.compile)
