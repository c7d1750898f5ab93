"""Products with K = sum_f d_f K_f, many times for the same weights d."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manykernels.banks.base import Bank
from manykernels.banks.blocks import BlockBank, FeatureBlock, SparseGramBlock
from manykernels.banks.gram import GramBank
from manykernels.banks.stored import StoredBank
from manykernels.base.arrays import Array, Values
from manykernels.base.threads import in_slices

COMBINED_ROWS = 1024  # at a time
# Kernels of up to as many rows are held in float64: twice the bytes of float32, and no
# more passes over the bank for exact products.
PRECISE_ROWS = 8192
SAVING = 0.5  # share of the work of a stored kernel below which blocks are better


class FrozenKernel:
    """K coef for one combined kernel.

    The kernels are combined once and held, unless memory does not allow it or the
    blocks' own products (thin features, sparse matrices) are cheaper.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> bank = GramBank(np.stack([np.eye(2), np.ones((2, 2))], axis=1))
    >>> kernel = FrozenKernel(bank, np.array([2.0, 1.0]))
    >>> kernel.times(np.array([[1.0], [0.0]])).tolist()
    [[3.0], [1.0]]
    """

    def __init__(self, bank: Bank, weights: Array) -> None:
        self.bank = bank
        self.weights = weights
        self.held: Values | None = None
        if bank.n_rows <= bank.max_combined_rows and not blocks_are_thin(bank):
            self.held = combined(bank, weights)

    @property
    def exact(self) -> bool:
        """Whether products carry no rounding but that of float64."""
        return self.held is None or self.held.dtype == np.float64

    def times(self, coef: Array) -> Array:
        """K coef, in float64; multiplied in the precision of a held kernel."""
        if self.held is None:
            return self.bank.scores(coef, self.weights)
        held, by_output = self.held, np.ascontiguousarray(coef.T, self.held.dtype)

        def work(start: int, stop: int) -> Values:
            return np.asarray(by_output @ held[:, start:stop])  # K is symmetric

        parts = in_slices(len(held), held.nbytes, work)
        return np.ascontiguousarray(np.concatenate(parts, axis=1).T, np.float64)

    def exact_times(self, coef: Array) -> Array:
        """K coef without the rounding of a kernel held in single precision."""
        if self.exact:
            return self.times(coef)
        return self.bank.scores(coef, self.weights)

    def diagonal(self) -> Array:
        """K(i, i)."""
        return np.asarray(self.bank.diagonals() @ self.weights)


def combined(bank: Bank, weights: Array) -> Values:
    """The whole combined kernel; in float64 where it is small and can be."""
    precise = isinstance(bank, GramBank | StoredBank) and bank.n_rows <= PRECISE_ROWS
    options = {"dtype": np.float64} if precise else {}
    held = np.empty((bank.n_rows, bank.n_rows), options.get("dtype", bank.dtype))
    for start in range(0, bank.n_rows, COMBINED_ROWS):
        rows = np.arange(start, min(start + COMBINED_ROWS, bank.n_rows))
        held[rows] = bank.combine(weights, rows, **options)
    return held


def blocks_are_thin(bank: Bank) -> bool:
    """Whether products block by block take less work than with a full matrix.

    Examples
    --------
    >>> blocks_are_thin(BlockBank([FeatureBlock(np.ones((9, 2)))]))
    True
    """
    if not isinstance(bank, BlockBank):
        return False
    work = sum(_work(block) for block in bank.blocks)
    return bool(work < SAVING * bank.n_rows**2)


def _work(block: object) -> float:
    """Multiplications of a product with one vector."""
    if isinstance(block, SparseGramBlock):
        return float(block.matrix.nnz)
    if isinstance(block, FeatureBlock):
        features = block.features
        return 2.0 * float(features.nnz if sp.issparse(features) else features.size)
    return np.inf
