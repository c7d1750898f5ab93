"""From fitted kernels to a bank of their values on the training rows."""

from __future__ import annotations

import logging

import numpy as np

from manykernels.banks.base import Bank
from manykernels.banks.blocks import BlockBank, FeatureBlock, SparseGramBlock
from manykernels.banks.gram import GramBank
from manykernels.banks.memory import allowed_bytes, require_memory
from manykernels.banks.ondemand import OnDemandBank
from manykernels.hot.threads import available_threads, one_blas_thread
from manykernels.kernels import KernelSet

STORAGES = ("auto", "gram", "features", "sparse", "on_demand")

logger = logging.getLogger(__name__)


def build_bank(
    kernels: KernelSet,
    storage: str = "auto",
    memory_limit: int | float | str | None = None,
) -> Bank:
    """Store the kernels on their reference rows.

    Parameters
    ----------
    kernels : KernelSet
    storage : {"auto", "gram", "features", "sparse", "on_demand"}
        "gram" holds every value; "features" holds explicit features (linear kernels);
        "sparse" holds the values that are not zero (compact kernels); "on_demand"
        computes values when they are needed. "auto" takes sparse matrices where all
        kernels are compact, and values otherwise; where these would not fit,
        features if all kernels are linear, else on demand.
    memory_limit : int, float or str, optional
        Bytes or text such as "4GB"; by default most of the free memory.

    Examples
    --------
    >>> from manykernels.kernels import RBF, KernelSet
    >>> build_bank(KernelSet.fit([RBF(0.5)], [[0.0], [1.0]])).n_blocks
    1
    """
    if storage not in STORAGES:
        raise ValueError(
            f"storage must be one of {', '.join(STORAGES)}, got {storage!r}; choose "
            "'auto' if in doubt."
        )
    if storage == "auto":
        storage = _choose(kernels, memory_limit)
    logger.info("storing %d kernels as %s", kernels.n_kernels, storage)
    if storage == "sparse":
        blocks = [SparseGramBlock(matrix) for matrix in kernels.sparse_stack()]
        return BlockBank(blocks, kernels.names, kernels.dtype)
    if storage == "features":
        return _feature_bank(kernels)
    if storage == "on_demand":
        return _on_demand_bank(kernels, memory_limit)
    return _gram_bank(kernels, memory_limit)


def gram_bytes(kernels: KernelSet) -> int:
    """Bytes of a stored stack and of what the solver adds at most.

    Dual ascent copies up to half of the stack for a working set, and combines the
    kernels into one matrix and a part of it.
    """
    square = kernels.n_reference**2 * kernels.dtype.itemsize
    return int(square * (1.5 * kernels.n_kernels + 2))


def on_demand_bytes(kernels: KernelSet) -> int:
    """Bytes of the solver's combined kernel and of the rows computed at a time."""
    square = kernels.n_reference**2 * kernels.dtype.itemsize
    return 2 * square + 3 * OnDemandBank(kernels).nbytes


def _choose(kernels: KernelSet, memory_limit: int | float | str | None) -> str:
    if kernels.is_sparse:
        return "sparse"
    if gram_bytes(kernels) <= allowed_bytes(memory_limit):
        return "gram"
    return "features" if kernels.is_explicit else "on_demand"


def _feature_bank(kernels: KernelSet) -> BlockBank:
    features = kernels.features()
    if features is None:
        raise ValueError(
            "storage='features' needs linear, cosine or constant kernels only, got "
            f"{', '.join(kernels.names)}; use storage='gram'."
        )
    blocks = [FeatureBlock(block) for block in features]
    return BlockBank(blocks, kernels.names, kernels.dtype)


def _on_demand_bank(
    kernels: KernelSet, memory_limit: int | float | str | None
) -> OnDemandBank:
    """Rows on demand; working sets are stored where the rest of the memory allows."""
    needed = on_demand_bytes(kernels)
    n_rows = kernels.n_reference
    what = f"computing {kernels.n_kernels} kernels of {n_rows} rows on demand"
    require_memory(needed, memory_limit, what)
    left = allowed_bytes(memory_limit) - needed

    def bank_of(part: KernelSet) -> Bank:
        if gram_bytes(part) <= left:
            return _gram_bank(part, left)
        return OnDemandBank(part, bank_of)

    return OnDemandBank(kernels, bank_of)


def _gram_bank(kernels: KernelSet, memory_limit: int | float | str | None) -> GramBank:
    n_rows, n_kernels = kernels.n_reference, kernels.n_kernels
    require_memory(
        gram_bytes(kernels),
        memory_limit,
        f"storing {n_kernels} kernels of {n_rows} x {n_rows} values",
    )
    stack = np.empty((n_rows, n_kernels, n_rows), kernels.dtype)
    # Tiles in threads of our own: BLAS threads on small products wait for each other.
    with one_blas_thread():
        kernels.stack(stack.transpose(1, 0, 2), n_threads=available_threads())
    return GramBank(stack, kernels.names)
