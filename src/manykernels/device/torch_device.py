"""A device of PyTorch's: the only place that imports it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch
from numpy.typing import NDArray

from manykernels.base.machine import SAFE_SHARE, allowed_bytes
from manykernels.device.base import Device, DeviceArray


class TorchDevice(Device):
    """Tensors on one of PyTorch's devices."""

    def __init__(self, name: str) -> None:
        super().__init__(name, xp)
        _require_available(name)
        self.place = torch.device(name)
        self.is_host = self.place.type == "cpu"
        self.is_cuda = self.place.type == "cuda"
        if self.place.type == "mps":
            self.precise = xp.float32  # there is nothing longer

    def put(self, values: Any, dtype: Any = None) -> DeviceArray:
        """An array of NumPy's, or a tensor of any device, there."""
        if not isinstance(values, torch.Tensor):
            values = np.ascontiguousarray(values, dtype)
            writeable = values if values.flags.writeable else values.copy()
            values = torch.from_numpy(writeable)
        wanted = None if dtype is None else self.dtype(dtype)
        return values.to(self.place, wanted)

    def get(self, values: DeviceArray) -> NDArray[Any]:
        """A tensor as an array of NumPy's."""
        return np.asarray(values.detach().cpu().numpy())

    def allowed_bytes(self, limit: int | float | str | None) -> int:
        """The user's limit, or most of what is free on the device."""
        if limit is not None or not self.is_cuda:
            return allowed_bytes(limit)
        free, _ = torch.cuda.mem_get_info(self.place)
        # What PyTorch keeps for later arrays is free as well.
        kept = torch.cuda.memory_reserved(self.place)
        return int(SAFE_SHARE * (free + kept - torch.cuda.memory_allocated(self.place)))

    @contextmanager
    def said_when_full(self) -> Iterator[None]:
        """A MemoryError of one sentence in place of PyTorch's."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            held = 0
            if self.is_cuda:
                held = torch.cuda.memory_allocated(self.place)
                torch.cuda.empty_cache()
            raise MemoryError(
                f"device={self.name!r} ran out of memory with {held / 1e9:.2g} GB of "
                "arrays there; set memory_limit to less than is free on it, for "
                f"instance memory_limit='{max(1, held // 2 // 10**9)}GB', or free what "
                "other programs hold."
            ) from error

    def synchronize(self) -> None:
        """Wait until everything that was asked for is computed."""
        if self.is_cuda:
            torch.cuda.synchronize(self.place)


def _require_available(name: str) -> None:
    """Raise unless PyTorch sees the device."""
    kind, _, number = name.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(number or 0) >= count:
            raise ValueError(
                f"device={name!r} needs a GPU that PyTorch {torch.__version__} sees, "
                f"got {count} of them; check the driver and that PyTorch is built for "
                "it, or use device=None."
            )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ValueError(
            f"device='mps' needs an Apple GPU that PyTorch {torch.__version__} sees, "
            "got none; use device=None."
        )
