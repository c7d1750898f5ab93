"""What must not happen while calls to a card are recorded."""

import gc
from importlib import import_module

import pytest

from tests.device.devices import require_torch


def test_no_garbage_is_collected_and_later_it_is_again():
    require_torch()
    no_collection = import_module("manykernels.device.cuda").no_collection
    assert gc.isenabled()
    with pytest.raises(ValueError, match="inside"), no_collection():
        assert not gc.isenabled()
        raise ValueError("inside")
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
