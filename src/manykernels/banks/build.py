"""The bank that holds fitted kernels, as a storage asks for, or as pays."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.banks.base import Bank
from manykernels.banks.blocks import BlockBank, FeatureBlock, SparseGramBlock
from manykernels.banks.device_bank import build_device_bank
from manykernels.banks.gram_bank import GramBank, StoredBank
from manykernels.banks.gramfile import BAND_ROWS, half_stack, stored_file
from manykernels.banks.ondemand import DeferredBank, OnDemandBank
from manykernels.banks.storage import WORKING_SET_ROWS, MemoryLimit, Storage
from manykernels.base.machine import (
    allowed_bytes,
    available_threads,
    free_disk_bytes,
    is_memory_disk,
    one_blas_thread,
    require_memory,
    stack_bytes,
)
from manykernels.device import Device
from manykernels.kernels.feature_group import FeatureGroup
from manykernels.kernels.kernel_set import Group, KernelSet
from manykernels.kernels.matrices import GivenGroup

# Of a Gram stack, above which explicit features are preferred, and values that are
# cheap to compute are stored only where they are asked for often. With 3,000 MNIST
# images and twelve kernels (0.7 GB) waiting takes 1.7 times as long, with 4,000 half.
LARGE_BYTES = 10**9

# What a kernel value costs in nanoseconds on one core, measured with 3,000 rows: orders
# of magnitude that choose between ways of storing. They are constants, so that the same
# data make the same choice whatever else the machine does. Per column of the rows:
COLUMN_NS = {
    "dot": 0.03,  # float32; twice that in float64
    "manhattan": 0.45,
    "intersection": 0.45,
    "chi_squared": 1.3,  # and functions that were not measured
    "constant": 0.0,
}
VALUE_NS = 1.5  # transform, scaling and copying of one kernel's value
STORE_NS = 0.4  # a byte of memory that was not touched yet
DISK_NS = 1.0  # a byte from a disk that reads 1 GB per second, and writes half of that

logger = logging.getLogger(__name__)


def build_bank(
    kernels: KernelSet,
    storage: Storage | str = "auto",
    memory_limit: MemoryLimit = None,
    device: Device | None = None,
    defer: bool = True,
) -> Bank:
    """Store the kernels on their reference rows.

    Parameters
    ----------
    kernels : KernelSet
        Values keep its precision, unless the storage rounds them to float16.
    storage : Storage or str
        Where values live, see :class:`manykernels.Storage`.
    memory_limit : int, float or str, optional
        Bytes or text such as "4GB"; by default most of the free memory.
    device : Device, optional
        Where values live and products are computed; the processor by default.
    defer : bool
        Whether "auto" may store values only once they have been asked for often. When
        that is decides about last digits: a search that must end with the same bits,
        however often it was interrupted, stores them first.

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> build_bank(KernelSet.fit([RBF(0.5)], [[0.0], [1.0]])).n_blocks
    1
    """
    storage = Storage.of(storage)
    if device is not None:
        return build_device_bank(kernels, storage, device, memory_limit)
    kind, half = storage.kind, storage.is_half
    if kind == "auto":
        kind = _choose(kernels, storage, memory_limit)
    if logger.isEnabledFor(logging.INFO):
        _announce(kernels, kind, half, allowed_bytes(memory_limit))
    if kind == "sparse":
        blocks = [SparseGramBlock(matrix) for matrix in kernels.sparse_stack()]
        return BlockBank(blocks, kernels.names, kernels.dtype)
    if kind == "features":
        return _feature_bank(kernels, memory_limit)
    if kind == "on_demand":
        return _on_demand_bank(kernels, memory_limit)
    if kind == "memmap" or half:
        return _stored_bank(kernels, storage, memory_limit, in_file=kind == "memmap")
    if storage.kind == "gram":  # else it was chosen because it fits
        shape = f"{kernels.n_reference} x {kernels.n_reference}"
        what = f"storing {kernels.n_kernels} kernels of {shape} values"
        require_memory(gram_bytes(kernels), memory_limit, what)
    elif defer and waiting_pays(kernels):
        return DeferredBank(kernels, _gram_bank)
    return _gram_bank(kernels)


# --- bytes of a way of storing, with those that the solver adds -----------------------


def gram_bytes(kernels: KernelSet) -> int:
    """Bytes of a stored stack."""
    return stack_bytes(kernels.n_reference, kernels.n_kernels, kernels.dtype.itemsize)


def half_bytes(kernels: KernelSet) -> int:
    """Bytes of a stack in half precision and of rows converted at a time."""
    return file_bytes(kernels, half=True) + on_demand_bytes(kernels)


def memmap_bytes(kernels: KernelSet, half: bool = False) -> int:
    """Bytes in memory to write the file, a band at a time, or to read its rows."""
    share = min(1.0, BAND_ROWS / kernels.n_reference)
    band = int(share * file_bytes(kernels, half))
    return max(2 * band, on_demand_bytes(kernels))


def file_bytes(kernels: KernelSet, half: bool = False) -> int:
    """Bytes of all the values."""
    itemsize = 2 if half else kernels.dtype.itemsize
    return int(kernels.n_reference**2 * kernels.n_kernels * itemsize)


def on_demand_bytes(kernels: KernelSet) -> int:
    """Bytes of the rows computed at a time and of a small working set's kernel."""
    few = min(kernels.n_reference, WORKING_SET_ROWS)
    return combined_bytes(few, kernels.dtype) + 3 * OnDemandBank(kernels).nbytes


def combined_bytes(n_rows: int, dtype: np.dtype[Any]) -> int:
    """Bytes of a solver's combined kernel on a working set, and of a part of it."""
    return 2 * n_rows**2 * dtype.itemsize


def rows_that_combine_in(n_bytes: float, dtype: np.dtype[Any]) -> int:
    """Rows of the largest working set whose combined kernel takes these bytes."""
    return int(np.sqrt(n_bytes / combined_bytes(1, dtype)))


# --- what pays ------------------------------------------------------------------------


def _choose(kernels: KernelSet, storage: Storage, memory_limit: MemoryLimit) -> str:
    half = storage.is_half
    if kernels.is_sparse:
        return "sparse"
    n_rows = kernels.n_reference
    # A small stack is faster: it is read many times, and multiplied out once.
    if kernels.is_explicit and not half and gram_bytes(kernels) > LARGE_BYTES:
        if sum(kernels.n_feature_columns()) < n_rows:
            return "features"
    # Each way that follows is slower, and takes less memory, than the one before.
    allowed = allowed_bytes(memory_limit)
    if (half_bytes if half else gram_bytes)(kernels) <= allowed:
        return "gram"
    if kernels.is_explicit:
        return "features"
    folder = None if storage.folder is None else Path(storage.folder)
    if (
        reading_pays(kernels, 2 if half else kernels.dtype.itemsize)
        and memmap_bytes(kernels, half) <= allowed
        and file_bytes(kernels, half) <= free_disk_bytes(folder)
        and not is_memory_disk(folder)
    ):
        return "memmap"
    return "on_demand"


def reading_pays(kernels: KernelSet, itemsize: int) -> bool:
    """Whether values are read from disk clearly faster than they are computed.

    Given matrices are always worth it: in the layout in which they come, a row of all
    kernels is spread over the whole stack.
    """
    if any(isinstance(group, GivenGroup) for group in kernels.groups):
        return True
    return pair_ns(kernels) > 2.0 * read_ns(kernels, itemsize)


def waiting_pays(kernels: KernelSet) -> bool:
    """Whether to store a large stack takes about as long as to compute it once.

    With symmetry values are computed in half the time, so that to store them must take
    most of the other half. Only kernels that are combined in one pass are that cheap.
    """
    if gram_bytes(kernels) <= LARGE_BYTES:
        return False
    stored = STORE_NS * kernels.n_kernels * kernels.dtype.itemsize
    cheap = stored > 0.4 * pair_ns(kernels)
    return cheap and all(map(kernels.is_fused, kernels.groups))


def pair_ns(kernels: KernelSet) -> float:
    """Nanoseconds to compute every kernel for one pair of rows.

    Examples
    --------
    >>> from manykernels.kernels import RBF, ChiSquared
    >>> X = [[1.0] * 100, [2.0] * 100]
    >>> cheap, dear = (KernelSet.fit([k], X) for k in (RBF(), ChiSquared()))
    >>> pair_ns(cheap) < 10.0 < pair_ns(dear)
    True
    """
    shared = sum(_shared_ns(group) for group in kernels.groups if group.members)
    clips = [s.clip for s in kernels.scalings if s.clip is not None]
    ranks = sum(clip.features.shape[1] for clip in clips)
    products = 2.0 * COLUMN_NS["dot"] * float(ranks)
    return float(shared + VALUE_NS * kernels.n_kernels + products)


def _shared_ns(group: Group) -> float:
    """Of the quantity that the kernels of a group share."""
    if isinstance(group, GivenGroup):
        return 0.0
    values = group.rows.values
    if sp.issparse(values):
        columns = 10.0 * values.nnz / max(1, values.shape[0])  # products of sparse rows
    else:
        columns = float(values.shape[1])
    family = group.family if isinstance(group, FeatureGroup) else "dot"
    scale = float(values.dtype.itemsize) / 4 if family == "dot" else 1.0
    return float(scale * COLUMN_NS.get(family, COLUMN_NS["chi_squared"]) * columns)


def read_ns(kernels: KernelSet, itemsize: int) -> float:
    """Nanoseconds to read every kernel's value for one pair of rows from disk."""
    # The conversion of half precision takes as long as reading two more bytes.
    return kernels.n_kernels * DISK_NS * max(itemsize, 4)


def _announce(kernels: KernelSet, kind: str, half: bool, allowed: int) -> None:
    """Log the way of storing, its memory and its time, before it starts."""
    pairs = float(kernels.n_reference) ** 2
    all_pairs = 1e-9 * pairs * pair_ns(kernels) / available_threads()
    memory, disk, text = 0, 0, f"{all_pairs / 2:.2g} s to compute"
    if kind == "gram":
        memory = (half_bytes if half else gram_bytes)(kernels)
    elif kind == "memmap":
        memory, disk = memmap_bytes(kernels, half), file_bytes(kernels, half)
        seconds = all_pairs / 2 + 2e-9 * DISK_NS * disk
        text = f"{disk / 1e9:.2g} GB of disk, {seconds:.2g} s to compute and write"
    elif kind == "on_demand":
        whole = combined_bytes(kernels.n_reference, kernels.dtype)
        least = on_demand_bytes(kernels)
        memory = max(least, min(allowed, least + whole))
        text = f"{all_pairs:.2g} s to compute all values once"
    text = f": about {memory / 1e9:.2g} GB of memory, {text}" if memory else ""
    rounded = " in half precision" if half and kind in ("gram", "memmap") else ""
    logger.info("storing %d kernels as %s%s%s", kernels.n_kernels, kind, rounded, text)


# --- the banks ------------------------------------------------------------------------


def _gram_bank(kernels: KernelSet) -> GramBank:
    """Every value, where it lies or copied; there is memory for them."""
    given = kernels.stack_as_given() if kernels.are_given else None
    if given is not None:
        stack, factors = given
        stack = stack.transpose(0, 2, 1)
        return GramBank(stack, kernels.names, dtype=kernels.dtype, factors=factors)
    n_rows, n_kernels = kernels.n_reference, kernels.n_kernels
    stack = np.empty((n_rows, n_kernels, n_rows), kernels.dtype)
    # Threads take tiles: threads of BLAS wait for each other on small products.
    with one_blas_thread():
        kernels.stack(stack.transpose(1, 0, 2), n_threads=available_threads())
    return GramBank(stack, kernels.names)


def _feature_bank(kernels: KernelSet, memory_limit: MemoryLimit) -> BlockBank:
    """Features; working sets are stored where the rest of the memory allows."""
    features = kernels.features()
    if features is None:
        raise ValueError(
            "storage='features' needs linear, cosine, constant or approximate kernels "
            f"only, got {', '.join(kernels.names)}; use storage='gram'."
        )
    blocks = [FeatureBlock(block) for block in features]
    bytes_free = max(0, allowed_bytes(memory_limit) - sum(b.nbytes for b in blocks))
    # Two combined kernels of that many rows fit, with as much again to spare.
    rows = max(WORKING_SET_ROWS, rows_that_combine_in(bytes_free / 2, kernels.dtype))
    return BlockBank(blocks, kernels.names, kernels.dtype, bytes_free // 2, rows)


def _on_demand_bank(kernels: KernelSet, memory_limit: MemoryLimit) -> OnDemandBank:
    """Rows on demand; working sets are stored where the rest of the memory allows."""
    n_rows = kernels.n_reference
    what = f"computing {kernels.n_kernels} kernels of {n_rows} rows on demand"
    require_memory(on_demand_bytes(kernels), memory_limit, what)
    bytes_free = allowed_bytes(memory_limit) - 3 * OnDemandBank(kernels).nbytes
    max_combined_rows = rows_that_combine_in(bytes_free, kernels.dtype)

    def bank_of(part: KernelSet) -> Bank:
        if gram_bytes(part) <= bytes_free:
            return _gram_bank(part)
        return OnDemandBank(part, bank_of, max_combined_rows)

    return OnDemandBank(kernels, bank_of, max_combined_rows, int(bytes_free))


def _stored_bank(
    kernels: KernelSet, storage: Storage, memory_limit: MemoryLimit, in_file: bool
) -> StoredBank:
    """Rows from a file or from half precision; what memory is left is for the rest."""
    half, n_rows = storage.is_half, kernels.n_reference
    allowed = allowed_bytes(memory_limit)
    if in_file:
        what = (
            f"reading {kernels.n_kernels} kernels of {n_rows} rows from disk in blocks"
        )
        require_memory(memmap_bytes(kernels, half), memory_limit, what)
        store: Any = stored_file(kernels, np.float16 if half else None, storage.folder)
    else:
        values = f"{kernels.n_kernels} kernels of {n_rows} x {n_rows} values"
        what = f"storing {values} in float16"
        require_memory(half_bytes(kernels), memory_limit, what)
        allowed -= file_bytes(kernels, half=True)
        store = half_stack(kernels)
    bytes_free = allowed - 3 * OnDemandBank(kernels).nbytes
    max_combined_rows = rows_that_combine_in(bytes_free, kernels.dtype)
    diagonals = kernels.diagonals().T
    return StoredBank(store, diagonals, kernels.names, bytes_free, max_combined_rows)
