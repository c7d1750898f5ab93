"""A bank whose kernel values live on a device, for solvers that ask in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.banks.base import Bank, support_of, without_noise
from manykernels.banks.device_kernels import DeviceKernels, HostKernels, StackKernels
from manykernels.banks.feature_kernels import FeatureKernels
from manykernels.banks.gram_bank import HALF_NOISE
from manykernels.banks.gramfile import require_half_range
from manykernels.banks.row_kernels import RowKernels, on_rows
from manykernels.banks.storage import WORKING_SET_ROWS, MemoryLimit, Storage
from manykernels.base.arrays import Array, Index, Values
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen
from manykernels.kernels import Kernel
from manykernels.kernels.base import DEFAULT_RANK
from manykernels.kernels.kernel_set import KernelSet

DEVICE_PRODUCT_BYTES = 1 << 26  # for products, beside what is stored


class DeviceBank(Bank):
    """All answers of a bank, computed on a device.

    Solvers that run on it themselves ask `on_device`; to all others it is a bank.

    Parameters
    ----------
    kernels : DeviceKernels
    names : list of str
        One per kernel.
    noise : float
        Size of the rounding in the values, where it is larger than the dtype's.

    Examples
    --------
    >>> from manykernels.device import HOST
    >>> from manykernels.kernels import Linear
    >>> kernels = KernelSet.fit([Linear()], [[1.0, 0.0], [1.0, 1.0]], dtype=np.float64)
    >>> bank = build_device_bank(kernels, Storage(), HOST, None)
    >>> bank.combine(np.array([2.0]), np.array([0])).round(3).tolist()
    [[2.0, 1.414]]
    """

    def __init__(
        self, kernels: DeviceKernels, names: list[str], noise: float = 0.0
    ) -> None:
        most = kernels.max_combined_rows
        super().__init__(kernels.n_rows, names, kernels.dtype, most)
        self.kernels = kernels
        self.device = kernels.device
        self.noise = noise
        self.product_work = kernels.product_work

    def on_device(self) -> DeviceKernels:
        return self.kernels

    def diagonals(self) -> Array:
        return self.kernels.diagonals

    def rows(self, index: Index) -> Values:
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)
        start = 0
        for part in self.kernels.parts(self.device.put(index)):
            stop = start + part.shape[0]
            for f, tile in self.kernels.tiles(part, slice(None)):
                out[start:stop, f] = self.device.get(tile)
            start = stop
        return out

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        out = self._new_rows(rows) if out is None else out
        start = 0
        for part in self.kernels.parts(self.device.put(rows)):
            stop = start + part.shape[0]
            out[start:stop] = self.device.get(self.kernels.combined(weights, part))
            start = stop
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        return self._scores(slice(0, self.n_rows), coef, weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        return self._scores(self.device.put(rows), coef, weights)

    def _scores(self, rows: Chosen, coef: Array, weights: Array) -> Array:
        """From the kernel values of the support alone."""
        device, support = self.device, support_of(coef)
        if not len(support):
            n_rows = self.n_rows if isinstance(rows, slice) else rows.shape[0]
            return np.zeros((n_rows, coef.shape[1]))
        active = device.precisely(device.put(coef[support]))
        scores = self.kernels.scores(active, weights, rows, device.put(support))
        return np.asarray(device.get(scores), np.float64)

    def block_scores(self, coef: Array) -> Values:
        products = self.kernels.block_scores(self.device.put(coef, self.dtype))
        return np.ascontiguousarray(self.device.get(products).transpose(2, 0, 1))

    def block_products(self, coefs: Array) -> Array:
        device, out = self.device, np.zeros_like(coefs)
        columns = [device.precisely(device.put(block.T)) for block in coefs]
        for part in self.kernels.parts(slice(None)):
            for f, tile in self.kernels.tiles(part, slice(None)):
                products = device.get(device.precisely(tile) @ columns[f])
                out[f, :, part] = products.T
        return out

    def square_norms(self, coef: Array) -> Array:
        support = support_of(coef)
        if not len(support):
            return np.zeros(self.n_blocks)
        active = self.device.precisely(self.device.put(coef[support]))
        rows = support if len(support) < self.n_rows else None
        squares = self.kernels.square_norms(active, rows)
        return without_noise(squares, coef, self.noise) if self.noise else squares

    def take(self, index: Index, brief: bool = False) -> DeviceBank:
        return DeviceBank(self.kernels.take(index), self.names, self.noise)


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
        Bytes of the device's memory; by default most of what is free on it.
    """
    allowed, kind = device.allowed_bytes(limit), storage.kind
    if kind == "auto":
        kind = _choose(kernels, storage, allowed)
    if kind not in ("on_demand", "features", "gram"):
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
    on_device: DeviceKernels
    with device.out_of_memory_error():
        if kind == "features":
            on_device = _features(device, kernels, allowed)
        elif kind == "gram":
            on_device = _stack(device, kernels, half, allowed - needed)
        else:
            on_device = _computed(device, kernels, allowed - needed)
    rounded = half or any(group.rounding for group in kernels.groups)
    noise = HALF_NOISE * float(on_device.diagonals.max()) if rounded else 0.0
    return DeviceBank(on_device, kernels.names, noise)


def where_features_fit(
    device: Device,
    specs: Sequence[Kernel],
    n_rows: int,
    storage: Storage,
    limit: MemoryLimit,
) -> Device | None:
    """The device, if it is to hold features of approximate kernels, and they fit.

    Features that are multiplied by a factor exist twice for a while.
    """
    if storage.is_half or device.precise != device.xp.float64:
        return None
    ranks = [kernel.rank or DEFAULT_RANK for kernel in specs if kernel.approximate]
    if len(ranks) < len(specs) or storage.kind not in ("auto", "features"):
        return None
    copies = 1 if all(kernel.normalize == "diagonal" for kernel in specs) else 2
    itemsize = np.dtype(storage.working_dtype).itemsize
    bytes_free = device.allowed_bytes(limit) - DEVICE_PRODUCT_BYTES
    # Pieces and the whole exist side by side while the pieces are concatenated.
    fit = 2 * copies * n_rows * sum(ranks) * itemsize <= bytes_free
    return device if fit else None


def _choose(kernels: KernelSet, storage: Storage, allowed: int) -> str:
    if kernels.are_given:
        return "gram"
    if kernels.is_explicit and not storage.is_half:
        return "features"
    # Values from rows take no memory, and a device computes them fast.
    if on_rows(kernels) and not storage.is_half:
        return "on_demand"
    fits = _least_bytes(kernels, "gram", storage.is_half) <= allowed
    return "gram" if fits else "on_demand"


def _least_bytes(kernels: KernelSet, kind: str, half: bool) -> int:
    """Bytes of what is stored, and of the smallest products and working sets."""
    n_rows, itemsize = kernels.n_reference, kernels.dtype.itemsize
    if kind == "features":
        stored = n_rows * sum(kernels.n_feature_columns())
    elif kind == "gram":
        stored = n_rows**2 * kernels.n_kernels
        itemsize = 2 if half else itemsize
    else:
        stored = n_rows * sum(group.rows.values.shape[1] for group in kernels.groups)
    few = min(n_rows, WORKING_SET_ROWS)
    return int(
        stored * itemsize + 2 * few**2 * kernels.dtype.itemsize + DEVICE_PRODUCT_BYTES
    )


def _computed(device: Device, kernels: KernelSet, bytes_free: int) -> DeviceKernels:
    """Values from rows on the device, or from the processor."""
    made = RowKernels.of if on_rows(kernels) else HostKernels
    return made(device, kernels, bytes_free)


def _features(device: Device, kernels: KernelSet, allowed: int) -> FeatureKernels:
    features = kernels.features()
    if features is None:
        raise ValueError(
            "storage='features' needs linear, cosine, constant or approximate kernels "
            f"only, got {', '.join(kernels.names)}; use storage='auto'."
        )
    dense = [phi.toarray() if sp.issparse(phi) else phi for phi in features]
    on_device = [device.put(phi, kernels.dtype) for phi in dense]
    bytes_free = max(DEVICE_PRODUCT_BYTES, allowed - sum(phi.nbytes for phi in dense))
    diagonals = np.asarray(kernels.diagonals().T)
    return FeatureKernels(device, on_device, diagonals, kernels.dtype, bytes_free)


def _stack(
    device: Device, kernels: KernelSet, half: bool, bytes_free: int
) -> StackKernels:
    given = kernels.matrices_as_given()
    if given is None:
        matrices = _computed_matrices(device, kernels, half)
        factors = np.ones(kernels.n_kernels)
    else:
        matrices, factors = [device.put(matrix) for matrix in given[0]], given[1]
    diagonals = np.asarray(kernels.diagonals().T)
    bytes_free = max(DEVICE_PRODUCT_BYTES, bytes_free)
    return StackKernels(device, matrices, factors, diagonals, kernels.dtype, bytes_free)


def _computed_matrices(
    device: Device, kernels: KernelSet, half: bool
) -> list[DeviceArray]:
    """Every matrix, computed a band of rows at a time."""
    if half:
        require_half_range(kernels)
    dtype = device.dtype(np.float16 if half else kernels.dtype)
    n_rows, xp = kernels.n_reference, device.xp
    source = _computed(device, kernels, DEVICE_PRODUCT_BYTES)
    pieces: list[list[Any]] = [[] for _ in kernels.names]
    for part in source.parts(slice(0, n_rows)):
        for f, tile in source.tiles(part, slice(0, n_rows)):
            pieces[f].append(xp.astype(tile, dtype, copy=False))
    return [xp.concat(of_kernel) for of_kernel in pieces]
