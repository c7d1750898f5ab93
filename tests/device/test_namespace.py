"""The same lines run on every library."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.device import HOST, namespace, to_namespace_of, to_numpy
from tests.device.devices import every_device


@pytest.mark.parametrize("opened", every_device())
def test_values_travel_and_functions_are_those_of_the_array(opened):
    device = opened()
    array = device.put(np.arange(6.0).reshape(2, 3), np.float32)
    xp = namespace(array)
    more = to_namespace_of(array, np.broadcast_to(2.0, (2, 3)))
    total = xp.sum(xp.astype(array * more, xp.float64), axis=1)
    places = to_namespace_of(array, [1, 0], xp.int64)
    picked = to_numpy(xp.take(total, places, axis=0))
    assert picked.tolist() == [24.0, 6.0] and picked.dtype == np.float64
    assert more.dtype == array.dtype


def test_arrays_of_numpy_are_not_copied():
    array = np.ones(3)
    assert to_numpy(array) is array
    assert HOST.get(HOST.put(array)) is array
    assert namespace(array) is HOST.xp
