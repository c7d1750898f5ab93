"""The bank that holds fitted kernels on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from manykernels.banks.bands import require_half_range
from manykernels.banks.device.bank import DeviceBank
from manykernels.banks.device.features import FeatureKernels
from manykernels.banks.device.host import HostKernels
from manykernels.banks.device.kernels import DeviceKernels
from manykernels.banks.device.rows import RowKernels, on_rows
from manykernels.banks.device.stack import StackKernels
from manykernels.banks.stored import HALF_NOISE
from manykernels.device import Device
from manykernels.kernels import Kernel, KernelSet
from manykernels.kernels.base import DEFAULT_RANK

if TYPE_CHECKING:
    from manykernels.banks.build import MemoryLimit, Storage

LEAST_ROOM = 1 << 26  # bytes for products, beside what is stored
COMBINED_ROWS = 2000  # of a working set that always has room
ROOM_FOR_FEATURES = 0.5  # of the memory, while the last ones are put together


def build_device_bank(
    kernels: KernelSet, storage: Storage, device: Device, limit: MemoryLimit
) -> DeviceBank:
    """Rows, matrices or features on the device, whatever the kernels are made of.

    Parameters
    ----------
    kernels : KernelSet
    storage : Storage
        "auto" computes from rows what the device can, holds explicit features and
        given matrices, and stores what only the processor computes where it fits.
    device : Device
    limit : int, str or None
        Bytes of the device's memory; by default most of what is free there.
    """
    allowed = device.allowed_bytes(limit)
    kind = storage.kind
    if kind == "auto":
        kind = _choose(kernels, storage, allowed)
    if kind not in BUILDERS:
        raise ValueError(
            f"storage={kind!r} keeps kernel values with the processor, got "
            f"device={device.name!r}; use storage='auto', or device=None."
        )
    half = storage.is_half and kind == "gram"
    needed = _least_bytes(kernels, kind, half)
    if needed > allowed:
        raise MemoryError(
            f"{kernels.n_kernels} kernels of {kernels.n_reference} rows as {kind} need "
            f"about {needed / 1e9:.3g} GB of device={device.name!r}, more than the "
            f"{allowed / 1e9:.3g} GB allowed; raise memory_limit, or use "
            "storage='on_demand', approximate='nystroem' or fewer rows."
        )
    with device.said_when_full():
        there = BUILDERS[kind](device, kernels, half, allowed)
    rounded = half or any(group.rounding for group in kernels.groups)
    noise = HALF_NOISE * float(there.diagonals.max()) if rounded else 0.0
    return DeviceBank(there, kernels.names, noise)


def where_features_fit(
    device: Device | None,
    specs: Sequence[Kernel],
    n_rows: int,
    storage: Storage,
    limit: MemoryLimit,
) -> Device | None:
    """The device, if it is to hold features of approximate kernels, and they fit.

    Features that are multiplied by a factor are there twice for a while.
    """
    if device is None or storage.is_half or device.precise != device.xp.float64:
        return None
    ranks = [kernel.rank or DEFAULT_RANK for kernel in specs if kernel.approximate]
    if len(ranks) < len(specs) or storage.kind not in ("auto", "features"):
        return None
    copies = 1 if all(kernel.normalize == "diagonal" for kernel in specs) else 2
    bytes_needed = (
        copies * n_rows * sum(ranks) * np.dtype(storage.working_dtype).itemsize
    )
    room = device.allowed_bytes(limit) - LEAST_ROOM
    return device if bytes_needed <= ROOM_FOR_FEATURES * room else None


def _choose(kernels: KernelSet, storage: Storage, allowed: int) -> str:
    if kernels.are_given:
        return "gram"
    if kernels.is_explicit and not storage.is_half:
        return "features"
    if on_rows(kernels) and not storage.is_half:
        return "on_demand"
    fits = _least_bytes(kernels, "gram", storage.is_half) <= allowed
    return "gram" if fits else "on_demand"


def _least_bytes(kernels: KernelSet, kind: str, half: bool) -> int:
    """Bytes of what is stored, and of the smallest products and working sets."""
    n_rows, itemsize = kernels.n_reference, kernels.dtype.itemsize
    stored = n_rows * sum(group.rows.values.shape[1] for group in kernels.groups)
    if kind == "features":
        stored = n_rows * sum(kernels.n_feature_columns())
    elif kind == "gram":
        stored = n_rows**2 * kernels.n_kernels
        itemsize = 2 if half else itemsize
    few = min(n_rows, COMBINED_ROWS)
    return int(stored * itemsize + 2 * few**2 * kernels.dtype.itemsize + LEAST_ROOM)


def _rows(device: Device, kernels: KernelSet, half: bool, allowed: int) -> Any:
    if not on_rows(kernels):
        return HostKernels(device, kernels, allowed)
    return RowKernels.of(
        device, kernels, allowed - _least_bytes(kernels, "on_demand", half)
    )


def _features(device: Device, kernels: KernelSet, half: bool, allowed: int) -> Any:
    features = kernels.features()
    if features is None:
        raise ValueError(
            "storage='features' needs linear, cosine, constant or approximate kernels "
            f"only, got {', '.join(kernels.names)}; use storage='auto'."
        )
    dense = [phi.toarray() if sp.issparse(phi) else phi for phi in features]
    there = [device.put(phi, kernels.dtype) for phi in dense]
    room = max(LEAST_ROOM, allowed - sum(phi.nbytes for phi in dense))
    diagonals = np.asarray(kernels.diagonals().T)
    return FeatureKernels(device, there, diagonals, kernels.dtype, room)


def _stack(device: Device, kernels: KernelSet, half: bool, allowed: int) -> Any:
    room = max(LEAST_ROOM, allowed - _least_bytes(kernels, "gram", half))
    diagonals = np.asarray(kernels.diagonals().T)
    given = kernels.matrices_as_given()
    if given is not None:
        matrices, factors = given
        there = [device.put(matrix) for matrix in matrices]
    else:
        there, factors = _computed(device, kernels, half), np.ones(kernels.n_kernels)
    return StackKernels(device, there, factors, diagonals, kernels.dtype, room)


def _computed(device: Device, kernels: KernelSet, half: bool) -> list[Any]:
    """Every matrix, a band of rows at a time: computed there, or here and sent."""
    if half:
        require_half_range(kernels)
    dtype = np.dtype(np.float16) if half else kernels.dtype
    n_rows, xp = kernels.n_reference, device.xp
    source: DeviceKernels
    if on_rows(kernels):
        source = RowKernels.of(device, kernels, LEAST_ROOM)
    else:
        source = HostKernels(device, kernels, LEAST_ROOM)
    found: list[list[Any]] = [[] for _ in kernels.names]
    for part in source.parts(slice(0, n_rows)):
        for f, tile in source.tiles(part, slice(0, n_rows)):
            found[f].append(xp.astype(tile, device.dtype(dtype), copy=False))
    return [xp.concat(pieces) for pieces in found]


BUILDERS = {"on_demand": _rows, "features": _features, "gram": _stack}
