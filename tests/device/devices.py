"""The devices that this machine has, for tests that run on every one of them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from manykernels.device import Device, open_device

MISSING = "{} is not installed: make test-torch has it"


def strict() -> Device:
    """NumPy behind an interface that has nothing but the standard."""
    return Device("strict", import_module("array_api_strict"))


def cuda() -> Device:
    """The first GPU."""
    torch = import_module("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return open_device("cuda")


DEVICES = {
    "numpy": lambda: Device("NumPy", np),
    "strict": strict,
    "torch": lambda: open_device("cpu"),
    "cuda": cuda,
}
TORCH = ("torch", "array_api_compat")  # what the extra [torch] brings
NEEDS = {"strict": ("array_api_strict",), "torch": TORCH, "cuda": TORCH}


def every_device() -> list[object]:
    """A parameter per device; those that are missing skip with a reason."""
    return [
        pytest.param(opened, id=name, marks=_skipped(name))
        for name, opened in DEVICES.items()
    ]


def _skipped(name: str) -> pytest.MarkDecorator:
    missing = [library for library in NEEDS.get(name, ()) if not find_spec(library)]
    return pytest.mark.skipif(bool(missing), reason=MISSING.format(missing))


def require_torch() -> object:
    """PyTorch, or a test that is skipped."""
    for library in TORCH:
        pytest.importorskip(library, reason="make test-torch has it")
    return import_module("torch")
