"""Devices of PyTorch; this module and `cuda` alone import it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch
from numpy.typing import NDArray

from manykernels.base.machine import SAFE_SHARE, allowed_bytes
from manykernels.device.base import (
    Curve,
    Device,
    DeviceArray,
    HingeBlocks,
    Terms,
)
from manykernels.device.cuda import CudaHinge, cuda_kernel

CURVE_THREADS, CURVE_BLOCKS = 256, 132 * 64  # of a pass over a tile
# From whole fits of 10,000 to 60,000 rows with 12 kernels on an H200: 4e-11 with the
# hinge loss, 2e-10 with the log loss.
CUDA_SECONDS_PER_VALUE = 1e-10


class TorchDevice(Device):
    """Tensors on one of PyTorch's devices."""

    def __init__(self, name: str) -> None:
        super().__init__(name, xp)
        _require_available(name)
        self.place = torch.device(name)
        self.numbered_place = torch.empty(0, device=self.place).device
        self.is_cuda = self.place.type == "cuda"
        if self.is_cuda:
            self.seconds_per_value = CUDA_SECONDS_PER_VALUE
        if self.place.type == "mps":
            self.precise = xp.float32  # the longest that it has

    def put(self, values: Any, dtype: Any = None) -> DeviceArray:
        values = getattr(values, "device_array", values)
        if not isinstance(values, torch.Tensor):
            values = np.ascontiguousarray(values, dtype)
            writeable = values if values.flags.writeable else values.copy()
            values = torch.from_numpy(writeable)
        wanted = None if dtype is None else self.dtype(dtype)
        return values.to(self.place, wanted)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        return torch.empty(shape, dtype=self.dtype(dtype), device=self.place)

    def has(self, values: Any) -> bool:
        where = getattr(values, "__dlpack_device__", None)
        return (
            where is not None
            and torch.from_dlpack(values).device == self.numbered_place
        )

    def shared(self, values: Any) -> DeviceArray:
        return values if isinstance(values, torch.Tensor) else torch.from_dlpack(values)

    def get(self, values: DeviceArray) -> NDArray[Any]:
        return np.asarray(values.detach().cpu().numpy())

    def allowed_bytes(self, limit: int | float | str | None) -> int:
        if limit is not None or not self.is_cuda:
            return allowed_bytes(limit)
        free, _ = torch.cuda.mem_get_info(self.place)
        # What PyTorch keeps for later arrays is free as well.
        kept = torch.cuda.memory_reserved(self.place)
        return int(SAFE_SHARE * (free + kept - torch.cuda.memory_allocated(self.place)))

    @contextmanager
    def out_of_memory_error(self) -> Iterator[None]:
        before = self._array_bytes()
        try:
            yield
        except torch.OutOfMemoryError as error:
            in_use, free = self._array_bytes(), 0
            if self.is_cuda:
                torch.cuda.empty_cache()
                free, _ = torch.cuda.mem_get_info(self.place)
            # Arrays of the work that failed will be freed.
            usable = free + max(0, in_use - before)
            raise MemoryError(
                f"device={self.name!r} ran out of memory with {in_use / 1e9:.3g} GB of "
                "arrays on it; set memory_limit to less than is free, for "
                f"instance memory_limit='{max(1, usable // 2 // 10**6)}MB', or free "
                "what else is on it."
            ) from error

    def _array_bytes(self) -> int:
        """Bytes of arrays on the device, where that is known."""
        return torch.cuda.memory_allocated(self.place) if self.is_cuda else 0

    def add_curves(
        self,
        out: DeviceArray,
        dot: DeviceArray,
        curves: Sequence[Curve],
        left: Sequence[Terms],
        right: Sequence[Terms],
    ) -> DeviceArray:
        single = out.dtype == dot.dtype == torch.float32
        if self.is_cuda and single and out.is_contiguous() and dot.is_contiguous():
            kernel = cuda_kernel("curves.cu", "add_curves", self.place)
            if kernel is not None:
                return _add_at_once(kernel, out, dot, curves, left, right)
        return super().add_curves(out, dot, curves, left, right)

    def hinge_blocks(
        self, matrix: DeviceArray, target: Any, bound: Any, n_outputs: int
    ) -> HingeBlocks | None:
        """Compiled for CUDA and single precision."""
        if not self.is_cuda:
            return None
        return CudaHinge.of(matrix, target, bound, n_outputs)

    def largest(self, values: DeviceArray, count: int) -> DeviceArray:
        """Without sorting all the others."""
        return torch.topk(values, count).indices

    def positive_solve(
        self, matrix: DeviceArray, sides: DeviceArray
    ) -> DeviceArray | None:
        # Two triangular solves: the standard knows no such function, and its `solve`
        # would factorize each triangle again.
        factor, failed = torch.linalg.cholesky_ex(matrix)
        return None if failed else torch.cholesky_solve(sides, factor)


def _add_at_once(
    kernel: Any,
    out: DeviceArray,
    dot: DeviceArray,
    curves: Sequence[Curve],
    left: Sequence[Terms],
    right: Sequence[Terms],
) -> DeviceArray:
    """One pass over the tile for all the curves."""
    slopes, degrees = _constants(tuple(curves), out.device)
    sides = [
        torch.stack([terms[part] for terms in side])
        for side in (left, right)
        for part in (0, 1)
    ]
    with torch.cuda.device(out.device):
        kernel(
            grid=(min(-(-out.numel() // CURVE_THREADS), CURVE_BLOCKS), 1, 1),
            block=(CURVE_THREADS, 1, 1),
            args=[
                *(out, dot, *out.shape, len(curves)),
                *(slopes, degrees, *sides),
            ],
        )
    return out


@lru_cache(maxsize=1024)
def _constants(curves: tuple[Curve, ...], place: Any) -> tuple[Any, Any]:
    """Slopes and degrees, sent once."""
    slopes = torch.tensor([c.slope for c in curves], dtype=torch.float32)
    degrees = torch.tensor([c.degree for c in curves], dtype=torch.int32)
    return slopes.to(place), degrees.to(place)


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
