"""Kernels that all tests of combinations share, in the precision of the references."""

from types import SimpleNamespace

import numpy as np
import pytest

from manykernels.banks import GramBank
from tests.oracles.toys import blobs, kernel_stack


def toy(n_classes, n_rows=40, n_kernels=5, seed=0):
    """Kernels of rows to learn from, and of half as many new rows with these."""
    X, y = blobs(n_rows * 3 // 2, n_classes, seed)
    stack = np.moveaxis(kernel_stack(X, n_kernels, seed), 1, -1)  # (rows, rows, F)
    return SimpleNamespace(
        X=stack[:n_rows, :n_rows],
        y=y[:n_rows],
        X_new=stack[n_rows:, :n_rows],
        y_new=y[n_rows:],
        bank=GramBank(np.moveaxis(stack[:n_rows, :n_rows], -1, 1)),
    )


@pytest.fixture(scope="session")
def two():
    return toy(2)


@pytest.fixture(scope="session")
def three():
    return toy(3)


@pytest.fixture(params=["two", "three"])
def data(request):
    return request.getfixturevalue(request.param)


# What the references need: no rounding of kernels, and a gap close to zero.
@pytest.fixture(scope="session")
def exact():
    return {"storage": "float64", "tol": 1e-10, "random_state": 0}
