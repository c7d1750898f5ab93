"""How kernel values are to be held, and the bank that holds them so."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from manykernels.banks.bands import BAND, half_stack
from manykernels.banks.base import Bank, GramBank
from manykernels.banks.blocks import BlockBank, FeatureBlock, SparseGramBlock
from manykernels.banks.cost import (
    WRITE_NS,
    all_pairs_seconds,
    reading_pays,
    waiting_pays,
)
from manykernels.banks.deferred import DeferredBank
from manykernels.banks.device.build import build_device_bank
from manykernels.banks.given import given_bank
from manykernels.banks.gramfile import stored_file
from manykernels.banks.ondemand import OnDemandBank
from manykernels.banks.stored import StoredBank
from manykernels.base.machine import (
    allowed_bytes,
    available_threads,
    free_disk_bytes,
    is_memory_disk,
    one_blas_thread,
    require_memory,
    stack_bytes,
)
from manykernels.base.quoted import quoted
from manykernels.base.stored import TEXT, storable
from manykernels.device import Device
from manykernels.kernels import KernelSet

KINDS = ("auto", "gram", "features", "sparse", "memmap", "on_demand")
DTYPES = ("float16", "float32", "float64")
MemoryLimit: TypeAlias = int | float | str | None
FEWEST_COMBINED = 2000  # rows of a working set that on-demand fits have room for
LARGE_BYTES = 10**9  # of a Gram stack, above which explicit features are preferred
WAITING_BYTES = 256 << 20  # of a Gram stack, below which it is stored at once
FEW_ROWS = 1000  # whose combined kernel can always be held

logger = logging.getLogger(__name__)


@storable(kind=TEXT, dtype=TEXT)
@dataclass(frozen=True)
class Storage:
    """Where kernel values live, how precisely, and in which folder.

    Parameters
    ----------
    kind : {"auto", "gram", "features", "sparse", "memmap", "on_demand"}
        "gram" holds every value in memory, a given stack where it lies; "features"
        holds explicit features (linear and approximate kernels); "sparse" holds the
        values that are not zero (compact kernels); "memmap" writes every value to a
        file and reads it in blocks;
        "on_demand" computes values when they are needed. "auto" takes sparse matrices
        where all kernels are compact, and values otherwise; where these would be large
        or not fit, features if all kernels have them, a file if there is room on the
        disk and reading is clearly faster than computing, else on demand.
    dtype : {"float16", "float32", "float64"}
        Precision of kernel values. "float16" rounds values where they are stored, in
        memory or in a file; they are computed and handed out in float32.
    folder : path, optional
        For "memmap": where finished files are kept and found again; by default a
        temporary one.

    Examples
    --------
    >>> Storage.of("gram:float16")
    Storage(kind='gram', dtype='float16', folder=None)
    >>> Storage.of("float64").kind, Storage.of("on_demand").dtype
    ('auto', 'float32')
    """

    kind: str = "auto"
    dtype: Any = "float32"
    folder: str | os.PathLike[str] | None = None
    # Whether stored values are rounded to half precision, and what then computes.
    is_half: bool = field(init=False, repr=False, compare=False)
    working_dtype: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate; any name of a precision becomes its text."""
        try:
            name = "" if self.dtype is None else np.dtype(self.dtype).name
        except TypeError:
            name = ""
        if name not in DTYPES:
            got = getattr(self.dtype, "__name__", self.dtype)
            raise ValueError(
                f"dtype must be float32, float64 or float16, got {quoted(got)}; choose "
                "one of these."
            )
        object.__setattr__(self, "dtype", name)
        object.__setattr__(self, "is_half", name == "float16")
        object.__setattr__(self, "working_dtype", "float32" if self.is_half else name)
        if self.kind not in KINDS:
            raise ValueError(
                f"storage must be one of {', '.join(KINDS)}, got {quoted(self.kind)}; "
                "choose 'auto' if in doubt."
            )
        if self.is_half and self.kind not in ("auto", "gram", "memmap"):
            raise ValueError(
                "float16 rounds kernel values that are stored, got "
                f"storage={self.kind!r}, which stores none; use float32, or "
                "storage='gram:float16' or 'memmap:float16'."
            )
        if self.folder is None:
            return
        if not isinstance(self.folder, str | os.PathLike):
            raise TypeError(
                f"folder of a storage must be a path, got {quoted(self.folder)}; "
                "pass its name as a text."
            )
        if self.kind not in ("auto", "memmap"):
            raise ValueError(
                "folder keeps files of kernel values, got one with "
                f"storage={self.kind!r}, which writes none; use kind='memmap' or leave "
                "folder out."
            )

    @classmethod
    def of(cls, value: Storage | str, dtype: str = "float32") -> Storage:
        """A storage from itself or a text: a kind, a dtype, or "kind:dtype".

        A kind alone comes in the precision `dtype`.
        """
        if isinstance(value, Storage):
            return value
        if not isinstance(value, str):
            raise TypeError(
                "storage must be a Storage or a text such as 'gram', got "
                f"{quoted(value)}; choose 'auto' if in doubt."
            )
        kind, colon, named = value.partition(":")
        if not colon and kind in DTYPES:
            return cls(dtype=kind)
        return cls(kind, named if colon else dtype)

    def to_stored(self) -> dict[str, Any]:
        """A file holds no path of this machine."""
        return {"kind": self.kind, "dtype": self.dtype}

    @classmethod
    def from_stored(cls, kind: str, dtype: str) -> Storage:
        """A storage without a folder: no file decides where files are written."""
        return cls(kind, dtype)


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
    >>> from manykernels.kernels import RBF, KernelSet
    >>> build_bank(KernelSet.fit([RBF(0.5)], [[0.0], [1.0]])).n_blocks
    1
    """
    storage = Storage.of(storage)
    if device is not None:
        return build_device_bank(kernels, storage, device, memory_limit)
    half = storage.is_half
    kind = storage.kind
    if kind == "auto":
        kind = _choose(kernels, storage, memory_limit)
    if logger.isEnabledFor(logging.INFO):
        _announce(kernels, kind, half, allowed_bytes(memory_limit))
    if kind == "sparse":
        blocks = [SparseGramBlock(matrix) for matrix in kernels.sparse_stack()]
        return BlockBank(blocks, kernels.names, kernels.dtype)
    if kind == "features":
        return _feature_bank(kernels, memory_limit)
    if kind == "memmap":
        return _file_bank(kernels, storage, memory_limit)
    if kind == "on_demand":
        return _on_demand_bank(kernels, memory_limit)
    if half:
        return _half_bank(kernels, memory_limit)
    if storage.kind == "gram":  # else it was chosen because it fits
        shape = f"{kernels.n_reference} x {kernels.n_reference}"
        what = f"storing {kernels.n_kernels} kernels of {shape} values"
        require_memory(gram_bytes(kernels), memory_limit, what)
        return _gram_bank(kernels)
    return _deferred_bank(kernels) if defer else _gram_bank(kernels)


def gram_bytes(kernels: KernelSet) -> int:
    """Bytes of a stored stack and of what the solver adds at most."""
    return stack_bytes(kernels.n_reference, kernels.n_kernels, kernels.dtype.itemsize)


def half_bytes(kernels: KernelSet) -> int:
    """Bytes of a stack in half precision and of rows converted at a time."""
    return file_bytes(kernels, half=True) + on_demand_bytes(kernels)


def memmap_bytes(kernels: KernelSet, half: bool = False) -> int:
    """Bytes in memory to write the file, a band at a time, or to read its rows."""
    share = min(1.0, BAND / kernels.n_reference)
    band = int(share * file_bytes(kernels, half))
    return max(2 * band, on_demand_bytes(kernels))


def file_bytes(kernels: KernelSet, half: bool = False) -> int:
    """Bytes of all the values."""
    itemsize = 2 if half else kernels.dtype.itemsize
    return int(kernels.n_reference**2 * kernels.n_kernels * itemsize)


def on_demand_bytes(kernels: KernelSet) -> int:
    """Bytes of the rows computed at a time and of a small working set's kernel."""
    few = min(kernels.n_reference, FEWEST_COMBINED)
    return combined_bytes(few, kernels.dtype) + 3 * OnDemandBank(kernels).nbytes


def _kept_on_demand(kernels: KernelSet, allowed: int) -> int:
    """Bytes that a fit may take: all rows as a working set, where that is allowed."""
    whole = combined_bytes(kernels.n_reference, kernels.dtype)
    least = on_demand_bytes(kernels)
    return max(least, min(allowed, least + whole))


def combined_bytes(n_rows: int, dtype: np.dtype[Any]) -> int:
    """Bytes of a solver's combined kernel on a working set, and of a part of it."""
    return 2 * n_rows**2 * dtype.itemsize


def rows_that_combine_in(n_bytes: float, dtype: np.dtype[Any]) -> int:
    """Rows of the largest working set whose combined kernel takes these bytes."""
    return int(np.sqrt(n_bytes / combined_bytes(1, dtype)))


def _choose(kernels: KernelSet, storage: Storage, memory_limit: MemoryLimit) -> str:
    half = storage.is_half
    if kernels.is_sparse:
        return "sparse"
    if kernels.is_explicit and not half and _features_save(kernels):
        return "features"
    allowed = allowed_bytes(memory_limit)
    if (half_bytes if half else gram_bytes)(kernels) <= allowed:
        return "gram"
    if kernels.is_explicit:
        return "features"
    itemsize = 2 if half else kernels.dtype.itemsize
    folder = None if storage.folder is None else Path(storage.folder)
    if (
        reading_pays(kernels, itemsize)
        and memmap_bytes(kernels, half) <= allowed
        and file_bytes(kernels, half) <= free_disk_bytes(folder)
        and not is_memory_disk(folder)
    ):
        return "memmap"
    return "on_demand"


def _announce(kernels: KernelSet, storage: str, half: bool, allowed: int) -> None:
    """Log what will be held where, and how long it takes, before it starts."""
    seconds = all_pairs_seconds(kernels)
    values = file_bytes(kernels, half)
    gram = half_bytes if half else gram_bytes
    facts = {
        "gram": lambda: (
            f": about {gram(kernels) / 1e9:.2g} GB of memory, {seconds / 2:.2g} s to "
            "compute"
        ),
        "memmap": lambda: (
            f": about {memmap_bytes(kernels, half) / 1e9:.2g} GB of memory, "
            f"{values / 1e9:.2g} GB of disk, "
            f"{seconds / 2 + 1e-9 * WRITE_NS * values:.2g} s to compute and write"
        ),
        "on_demand": lambda: (
            f": about {_kept_on_demand(kernels, allowed) / 1e9:.2g} GB of memory, "
            f"{seconds:.2g} s to compute all values once"
        ),
    }
    text = facts[storage]() if storage in facts else ""
    stored = " in half precision" if half and storage in ("gram", "memmap") else ""
    logger.info(
        "storing %d kernels as %s%s%s", kernels.n_kernels, storage, stored, text
    )


def _features_save(kernels: KernelSet) -> bool:
    """Whether features are smaller than a Gram stack that is large.

    A small stack is faster: its values are read many times and multiplied out once.
    """
    fewer = sum(kernels.n_feature_columns()) < kernels.n_reference
    return fewer and gram_bytes(kernels) > LARGE_BYTES


def _feature_bank(kernels: KernelSet, memory_limit: MemoryLimit) -> BlockBank:
    """Features; working sets are stored where the rest of the memory allows."""
    features = kernels.features()
    if features is None:
        raise ValueError(
            "storage='features' needs linear, cosine, constant or approximate kernels "
            f"only, got {', '.join(kernels.names)}; use storage='gram'."
        )
    blocks = [FeatureBlock(block) for block in features]
    room = max(0, allowed_bytes(memory_limit) - sum(b.nbytes for b in blocks))
    # Two combined kernels of that many rows fit, with as much again to spare.
    max_combined_rows = max(FEW_ROWS, int((room / (4 * kernels.dtype.itemsize)) ** 0.5))
    return BlockBank(blocks, kernels.names, kernels.dtype, room // 2, max_combined_rows)


def _on_demand_bank(kernels: KernelSet, memory_limit: MemoryLimit) -> OnDemandBank:
    """Rows on demand; working sets are stored where the rest of the memory allows."""
    n_rows = kernels.n_reference
    what = f"computing {kernels.n_kernels} kernels of {n_rows} rows on demand"
    require_memory(on_demand_bytes(kernels), memory_limit, what)
    left = allowed_bytes(memory_limit) - 3 * OnDemandBank(kernels).nbytes
    max_combined_rows = rows_that_combine_in(left, kernels.dtype)

    def bank_of(part: KernelSet) -> Bank:
        if gram_bytes(part) <= left:
            return _gram_bank(part)
        return OnDemandBank(part, bank_of, max_combined_rows)

    return OnDemandBank(kernels, bank_of, max_combined_rows, int(left))


def _deferred_bank(kernels: KernelSet) -> Bank:
    """A stack that is stored at once only where it is small or dear to compute."""
    if file_bytes(kernels) < WAITING_BYTES or not waiting_pays(kernels):
        return _gram_bank(kernels)
    return DeferredBank(kernels, _gram_bank)


def _gram_bank(kernels: KernelSet) -> Bank:
    """Every value, where it lies or copied; there is room for them."""
    given = kernels.stack_as_given()
    if given is not None:
        return given_bank(*given, kernels.names, kernels.dtype)
    n_rows, n_kernels = kernels.n_reference, kernels.n_kernels
    stack = np.empty((n_rows, n_kernels, n_rows), kernels.dtype)
    # Tiles in threads of our own: BLAS threads on small products wait for each other.
    with one_blas_thread():
        kernels.stack(stack.transpose(1, 0, 2), n_threads=available_threads())
    return GramBank(stack, kernels.names)


def _half_bank(kernels: KernelSet, memory_limit: MemoryLimit) -> StoredBank:
    n_rows, n_kernels = kernels.n_reference, kernels.n_kernels
    what = f"storing {n_kernels} kernels of {n_rows} x {n_rows} values in float16"
    require_memory(half_bytes(kernels), memory_limit, what)
    left = allowed_bytes(memory_limit) - file_bytes(kernels, half=True)
    return _stored_bank(half_stack(kernels), kernels, left)


def _file_bank(
    kernels: KernelSet, storage: Storage, memory_limit: MemoryLimit
) -> StoredBank:
    """Rows from a file; working sets are stored where the rest of the memory allows."""
    n_rows = kernels.n_reference
    what = f"reading {kernels.n_kernels} kernels of {n_rows} rows from disk in blocks"
    require_memory(memmap_bytes(kernels, storage.is_half), memory_limit, what)
    dtype = np.float16 if storage.is_half else None
    file = stored_file(kernels, dtype, storage.folder)
    return _stored_bank(file, kernels, allowed_bytes(memory_limit))


def _stored_bank(store: Any, kernels: KernelSet, allowed: int) -> StoredBank:
    """Rows from a store; `allowed` bytes are left for all that is not stored."""
    left = allowed - 3 * OnDemandBank(kernels).nbytes
    max_combined_rows = rows_that_combine_in(left, kernels.dtype)
    diagonals = kernels.diagonals().T
    return StoredBank(store, diagonals, kernels.names, left, max_combined_rows)
