"""Products with K = sum_f d_f K_f, many times for the same weights d."""

from __future__ import annotations

import numpy as np

from manykernels.banks.base import Bank, block_norms
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices
from manykernels.device import NUMPY
from manykernels.solvers.problem import Problem
from manykernels.solvers.smooth.losses import RowLosses

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

    xp = NUMPY  # the namespace of the arrays it takes

    def __init__(self, bank: Bank, weights: Array) -> None:
        self.bank = bank
        self.weights = weights
        self.held: Values | None = None
        if holds_combined(bank):
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

    def damped(self) -> None:
        """No cheap map of r to K (I + level K)^-1 r, as a device may have."""
        return None

    def times_each(self, moves: Array) -> Array:
        """K move for all moves of shape (moves, rows, outputs), in one product."""
        n_moves, n_rows, n_outputs = moves.shape
        columns = moves.transpose(1, 0, 2).reshape(n_rows, -1)
        product = self.times(columns).reshape(n_rows, n_moves, n_outputs)
        return np.asarray(product.transpose(1, 0, 2))

    def block_products(self, coef: Array, blocks: Index) -> Array:
        """K_f coef for some f, shape (blocks, rows, outputs)."""
        parts = self.bank.block_scores(coef)[:, blocks]
        return np.ascontiguousarray(parts.transpose(1, 2, 0), np.float64)

    def block_norms(self, coefs: list[Array]) -> list[Array]:
        """||theta_f|| for each of some coefficients."""
        return [block_norms(self.bank, coef) for coef in coefs]

    def put(self, coef: Array) -> Array:
        """What products take: here an array itself."""
        return coef

    def get(self, coef: Array) -> Array:
        """An array of NumPy's."""
        return coef

    def dot(self, a: Array, b: Array) -> float:
        """The sum of the products of two arrays."""
        return float(np.vdot(a, b))

    def losses(self, problem: Problem) -> RowLosses:
        """The problem's losses for scores in this memory."""
        return RowLosses(problem.loss, problem.target, problem.bound, self.dot)

    def diagonal(self) -> Array:
        """K(i, i)."""
        return np.asarray(self.bank.diagonals() @ self.weights)


def holds_combined(bank: Bank) -> bool:
    """Whether one combined kernel fits, and serves better than the blocks' products.

    Examples
    --------
    >>> from manykernels.banks import BlockBank, FeatureBlock
    >>> holds_combined(BlockBank([FeatureBlock(np.ones((9, 2)))]))
    False
    """
    thin = bank.product_work < SAVING * bank.n_rows**2
    return bank.n_rows <= bank.max_combined_rows and not thin


def combined(bank: Bank, weights: Array) -> Values:
    """The whole combined kernel; in float64 where it is small and can be."""
    precise = bank.stores_values and bank.n_rows <= PRECISE_ROWS
    dtype = np.float64 if precise else bank.dtype
    held = np.empty((bank.n_rows, bank.n_rows), dtype)
    return bank.combine(weights, np.arange(bank.n_rows), held)
