"""Other devices than the processor: where their arrays live and what computes there.

Code is written against the Python array API standard, so that the same lines run on
NumPy, PyTorch and whatever else follows it; PyTorch is imported in `torch_device` only,
and only when a device is asked for.
"""

from manykernels.device.base import HOST, Device, open_device, read_device
from manykernels.device.namespace import (
    NUMPY,
    DeviceArray,
    namespace,
    quotient,
    to_namespace_of,
    to_numpy,
)

__all__ = [
    "HOST",
    "NUMPY",
    "Device",
    "DeviceArray",
    "namespace",
    "open_device",
    "quotient",
    "read_device",
    "to_namespace_of",
    "to_numpy",
]
