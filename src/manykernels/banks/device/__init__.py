"""Banks whose kernel values live on another device."""

from manykernels.banks.device.bank import DeviceBank
from manykernels.banks.device.build import build_device_bank
from manykernels.banks.device.kernels import DeviceKernels

__all__ = ["DeviceBank", "DeviceKernels", "build_device_bank"]
