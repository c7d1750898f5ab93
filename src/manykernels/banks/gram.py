"""Every kernel value stored in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from manykernels.banks.base import Bank, support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.threads import in_slices
from manykernels.hot import stack as hot

# Rows combined at a time when scores are formed in float64.
SCORE_BLOCK = 256


class GramBank(Bank):
    """K_f(i, j) = stack[i, f, j]: all kernels of a row side by side.

    Parameters
    ----------
    stack : array of shape (rows, blocks, rows)
        float32 or float64, C-contiguous; symmetric in the two row axes.
    names : sequence of str, optional
    noise : float
        Size of the rounding in the values, where it is larger than the dtype's.

    Examples
    --------
    >>> bank = GramBank(np.stack([np.eye(3), np.ones((3, 3))], axis=1))
    >>> bank.combine(np.array([2.0, 1.0]), np.array([0])).tolist()
    [[3.0, 1.0, 1.0]]
    """

    stores_values = True

    def __init__(
        self, stack: Values, names: Sequence[str] | None = None, noise: float = 0.0
    ) -> None:
        if stack.ndim != 3 or stack.shape[0] != stack.shape[2]:
            raise ValueError(
                "A Gram stack has shape (rows, blocks, rows), got "
                f"{stack.shape}; move the kernel axis to the middle."
            )
        n_rows, n_blocks = stack.shape[:2]
        names = names or [f"kernel {f}" for f in range(n_blocks)]
        super().__init__(n_rows, names, stack.dtype)
        self.stack = np.ascontiguousarray(stack)
        self.nbytes = stack.nbytes
        self.noise = noise

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        every = np.arange(self.n_rows)
        return self.stack[every, :, every].astype(np.float64)

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        return np.asarray(self.stack[index])

    def stored_rows(self) -> Values:
        """The stack itself."""
        return self.stack

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        if out is None:
            out = np.empty((len(rows), self.n_rows), self.dtype)
        weights = weights.astype(out.dtype)
        traffic = len(rows) * self.n_blocks * self.n_rows * self.dtype.itemsize
        work = partial(hot.combine_rows, self.stack, weights, rows, out)
        in_slices(len(rows), traffic, work)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64, read from the support rows only."""
        support = support_of(coef)
        scores = np.zeros((coef.shape[1], self.n_rows))
        for start in range(0, len(support), SCORE_BLOCK):
            block = support[start : start + SCORE_BLOCK]
            out = np.empty((len(block), self.n_rows))  # float64 whatever is stored
            scores += coef[block].T @ self.combine(weights, block, out)
        return scores.T

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        support = support_of(coef)
        active = coef[support].T.astype(self.dtype)
        if len(support) == self.n_rows:  # one product with the stack as it lies
            flat = self.stack.reshape(self.n_rows, -1)
            return np.asarray(active @ flat).reshape(-1, self.n_blocks, self.n_rows)
        out = np.empty((coef.shape[1], self.n_blocks, self.n_rows), self.dtype)
        for f in range(self.n_blocks):
            out[:, f, :] = active @ self.stack[support, f, :]
        return out

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, accumulated in float64."""
        # Every other row in turn: slices then have as much left of the diagonal.
        support = support_of(coef)
        support = np.concatenate([support[::2], support[1::2]])
        by_output = np.ascontiguousarray(coef.T)
        traffic = len(support) * self.n_blocks * self.n_rows * self.dtype.itemsize

        def work(start: int, stop: int) -> Array:
            out = np.zeros(self.n_blocks)
            hot.quadratic_forms(self.stack, by_output, support, out, start, stop)
            return out

        squares = np.sum(in_slices(len(support), traffic, work), axis=0)
        return without_noise(np.asarray(squares), coef, self.noise)

    def subset(self, index: Index) -> GramBank:
        """The same kernels on the rows `index`, copied together."""
        out = np.empty((len(index), self.n_blocks, len(index)), self.dtype)
        in_slices(
            len(index), out.nbytes, partial(hot.gather_block, self.stack, index, out)
        )
        return GramBank(out, self.names, self.noise)


def without_noise(squares: Array, coef: Array, noise: float) -> Array:
    """Zero in place of squares that rounded values made slightly negative.

    Errors of size `noise` in K_f, of random sign, change trace(coef' K_f coef) by
    about noise * ||coef||^2.
    """
    floor = -noise * float(np.sum(coef**2))
    return np.where((squares < 0.0) & (squares >= floor), 0.0, squares)
