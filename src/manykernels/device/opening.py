"""From the name of a device to the device."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from manykernels.base.extras import require_library
from manykernels.base.quoted import quoted
from manykernels.device.base import Device

KNOWN = r"cpu|cuda(:\d+)?|mps"


def read_device(name: Any) -> str:
    """The name of a device as it may be written.

    Examples
    --------
    >>> read_device("cuda:1")
    'cuda:1'
    >>> read_device("gpu")
    Traceback (most recent call last):
    ValueError: device must be 'cuda', 'cuda:1' (the second GPU), 'mps', 'cpu' or None,
    got 'gpu'; choose one of these.
    """
    text = str(name) if type(name).__name__ == "device" else name  # PyTorch's own
    if not isinstance(text, str) or not re.fullmatch(KNOWN, text):
        raise ValueError(
            "device must be 'cuda', 'cuda:1' (the second GPU), 'mps', 'cpu' or None, "
            f"got {quoted(name)}; choose one of these."
        )
    return text


def open_device(name: Any) -> Device:
    """The device of that name; one sentence where there is none.

    It needs PyTorch, which comes with the extra ``manykernels[torch]``.
    """
    return _opened(read_device(name))


@cache
def _opened(name: str) -> Device:
    for library in ("torch", "array_api_compat"):
        require_library(library, "torch")
    from manykernels.device.torch_device import TorchDevice

    return TorchDevice(name)
