"""A table on a device answers as its NumPy twin does."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.device.host_views import DeviceTable
from tests.device.devices import every_device


@pytest.fixture(params=every_device())
def table(request):
    device = request.param()
    twin = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    return DeviceTable(device, device.put(twin)), twin


@pytest.mark.parametrize("index", [slice(1, 5), np.array([6, 0, 0]), np.arange(7) > 4])
def test_rows(table, index):
    found, twin = table
    np.testing.assert_array_equal(np.asarray(found[index]), twin[index])
    assert isinstance(found[index], DeviceTable)


def test_arithmetic_stays_and_products_come_back(table):
    found, twin = table
    column, right = np.arange(7.0)[:, None], np.ones((3, 2))
    np.testing.assert_allclose(np.asarray(found * 2.0), twin * 2.0, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(found * column), twin * column, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(found - twin[0]), twin - twin[0], atol=1e-6)
    np.testing.assert_allclose(found @ right, twin @ right, rtol=1e-5)
    np.testing.assert_allclose(found.T @ column, twin.T @ column, rtol=1e-5)
    np.testing.assert_allclose(found @ found.T, twin @ twin.T, rtol=1e-5, atol=1e-6)
    assert type(found @ right) is np.ndarray
    assert found.astype(np.float64).dtype == np.float64 and found.nbytes == twin.nbytes
