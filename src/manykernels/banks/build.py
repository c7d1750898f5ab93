"""From fitted kernels to a bank of their values on the training rows."""

from __future__ import annotations

import logging

import numpy as np

from manykernels.banks.base import Bank
from manykernels.banks.blocks import BlockBank, FeatureBlock, SparseGramBlock
from manykernels.banks.gram import GramBank
from manykernels.banks.memory import require_memory
from manykernels.hot.threads import available_threads, one_blas_thread
from manykernels.kernels import KernelSet

STORAGES = ("auto", "gram", "features", "sparse")

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
    storage : {"auto", "gram", "features", "sparse"}
        "gram" holds every value; "features" holds explicit features (linear kernels);
        "sparse" holds the values that are not zero (compact kernels). "auto" takes
        sparse matrices where all kernels are compact, features where the values
        would not fit and the kernels are linear, and values otherwise.
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
            f"storage must be one of {', '.join(STORAGES)}, got {storage!r}."
        )
    if storage == "auto":
        storage = _choose(kernels, memory_limit)
    logger.info("storing %d kernels as %s", kernels.n_kernels, storage)
    if storage == "sparse":
        blocks = [SparseGramBlock(matrix) for matrix in kernels.sparse_stack()]
        return BlockBank(blocks, kernels.names, kernels.dtype)
    if storage == "features":
        return _feature_bank(kernels)
    return _gram_bank(kernels, memory_limit)


def gram_bytes(kernels: KernelSet) -> int:
    """Bytes of a stored stack and of what the solver adds at most.

    Dual ascent copies up to half of the stack for a working set, and combines the
    kernels into one matrix and a part of it.
    """
    square = kernels.n_reference**2 * kernels.dtype.itemsize
    return int(square * (1.5 * kernels.n_kernels + 2))


def _choose(kernels: KernelSet, memory_limit: int | float | str | None) -> str:
    if kernels.is_sparse:
        return "sparse"
    if kernels.is_explicit:
        try:
            require_memory(gram_bytes(kernels), memory_limit, "the kernel stack")
        except MemoryError:
            return "features"
    return "gram"


def _feature_bank(kernels: KernelSet) -> BlockBank:
    features = kernels.features()
    if features is None:
        raise ValueError(
            "storage='features' needs linear, cosine or constant kernels only, got "
            f"{', '.join(kernels.names)}; use storage='gram'."
        )
    blocks = [FeatureBlock(block) for block in features]
    return BlockBank(blocks, kernels.names, kernels.dtype)


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
