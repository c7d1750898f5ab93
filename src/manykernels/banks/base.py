"""A bank: kernels on the same rows, known through their products.

Everything a solver may ask has an answer here that needs kernel rows only. A bank that
knows better (values in memory, thin features, another device) overrides it; no solver
asks what kind of bank it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices
from manykernels.hot import stack as hot

if TYPE_CHECKING:
    from manykernels.banks.device_kernels import DeviceKernels

ROW_BLOCK_BYTES = 128 << 20  # of kernel rows at a time
FLOAT64_VALUES = 1 << 22  # of combined kernels or features at a time: 32 MB
# A square below minus this share of the largest is no rounding: the kernel is not
# positive semi-definite. Float32 sums of some thousand terms stay well below it.
NEGATIVE_SQUARE_RTOL = 1e-4


class Bank(ABC):
    """Symmetric kernels K_f on the same rows.

    A subclass must say where kernel rows come from: `diagonals`, `rows` and `take`.
    All else is derived from them, and needs the rows of the coefficients' support only.
    `coef` has one row per training row and one column per output. Results that a
    certificate rests on (scores, square_norms) are float64 whatever the storage.

    Parameters
    ----------
    n_rows : int
    names : sequence of str
        One per kernel.
    dtype : dtype
        Of the rows that are handed out, float32 or float64.
    max_combined_rows : int, optional
        Rows whose combined kernel a solver may hold; all by default.

    Attributes
    ----------
    stores_values : bool
        Whether a kernel value is the same number in every product, so that a kernel
        combined in float64 agrees with `scores` to the last digits.
    product_work : float
        Multiplications of `scores` for one output; infinite where they are no fewer
        than with a combined kernel.
    computes_anew : bool
        Whether every product computes its kernel values again, so that a solver had
        better use those that it holds.
    cache_bytes : int or None
        Of kernel rows that a solver may keep for later; None leaves it to the solver.
    noise : float
        Size of the rounding in the values, where it is larger than the dtype's.
    kind : str
        Name of the bank in a checkpoint.
    nugget : Nugget or None
        What was taken from the diagonals of the kernels, see `NuggetBank`.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> bank = GramBank(np.array([[[2.0, 1.0]], [[1.0, 2.0]]]), ["given"])
    >>> isinstance(bank, Bank), bank.n_rows, bank.n_blocks
    (True, 2, 1)
    >>> bank.scores(np.array([[1.0], [0.0]]), np.array([0.5])).tolist()
    [[1.0], [0.5]]
    """

    stores_values: bool = False
    product_work: float = np.inf
    computes_anew: bool = False
    cache_bytes: int | None = None
    noise: float = 0.0
    nugget: Any = None

    def __init__(
        self,
        n_rows: int,
        names: Sequence[str],
        dtype: Any,
        max_combined_rows: int | None = None,
    ) -> None:
        self.n_rows = n_rows
        self.n_blocks = len(names)
        self.names = list(names)
        self.kind = type(self).__name__
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.max_combined_rows = (
            n_rows if max_combined_rows is None else min(n_rows, max_combined_rows)
        )
        row_bytes = self.n_blocks * n_rows * self.dtype.itemsize
        # An eighth at most: with all rows in a block, no memory would be saved.
        self.block_rows = max(1, min(ROW_BLOCK_BYTES // row_bytes, n_rows // 8))
        self.nbytes: int = self.block_rows * row_bytes  # held at a time
        self.rows_at_a_time = max(1, FLOAT64_VALUES // n_rows)  # in float64
        self._combined: tuple[Array, Index, Values] | None = None

    @abstractmethod
    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""

    @abstractmethod
    def rows(self, index: Index) -> Values:
        """K_f(i, j) for i in index, all f and j: shape (len(index), blocks, rows)."""

    @abstractmethod
    def take(self, index: Index, brief: bool = False) -> Bank:
        """Return the same kernels on some of the rows.

        `brief` announces a few products only, for which storing may not pay.
        """

    @property
    def without_nugget(self) -> Bank:
        """The kernels with their identity parts, where a nugget was made of these."""
        return self

    def at_new_rows(self, weights: Array) -> Array:
        """Return weights of the kernels without nugget, which score new rows."""
        return weights

    def stored_rows(self) -> Values | None:
        """All kernel rows, (rows, blocks, rows), if they lie in memory; else None."""
        return None

    def features(self) -> list[Any] | None:
        """Phi_f with K_f = Phi_f Phi_f' for every block, dense or CSR; else None."""
        return None

    def sparse_matrices(self) -> list[Any] | None:
        """K_f of every block as a CSR matrix, if all are stored so; else None."""
        return None

    def on_device(self) -> DeviceKernels | None:
        """Return the same kernels as arrays of a device, if they live on one."""
        return None

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j.

        Parameters
        ----------
        weights : array of shape (blocks,)
        rows : array of int
        out : array of shape (len(rows), n_rows), optional
            Where to put it; the sum is formed in its precision.
        """
        out = self._new_rows(rows) if out is None else out
        weights = weights.astype(out.dtype)
        for part, block in self._row_blocks(rows):
            values = np.ascontiguousarray(block).reshape(-1, self.n_rows)
            every, steps = np.arange(len(block)), (self.n_blocks, 1)
            work = partial(hot.combine_rows, values, steps, weights, every, out[part])
            in_slices(len(block), block.nbytes, work)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64, shape (rows, outputs)."""
        support = support_of(coef)
        if len(support) > self.rows_at_a_time:
            self._combined = None
            return self._scores_in_parts(coef, weights, support)
        out = np.empty((len(support), self.n_rows))  # float64 whatever is stored
        # Kept, as a solver often needs the same rows next.
        self._combined = (weights.copy(), support, self.combine(weights, support, out))
        return np.asarray(coef[support].T @ out).T

    def _scores_in_parts(self, coef: Array, weights: Array, support: Index) -> Array:
        """`scores` where the combined rows of the support are too many to keep."""
        scores = np.zeros((coef.shape[1], self.n_rows))
        out = np.empty((self.rows_at_a_time, self.n_rows))
        for start in range(0, len(support), len(out)):
            part = support[start : start + len(out)]
            scores += coef[part].T @ self.combine(weights, part, out[: len(part)])
        return scores.T

    def combine_precisely(self, weights: Array, rows: Index) -> Array:
        """`combine` in float64; at no cost where the last `scores` needed the same."""
        if self._combined is not None:
            last_weights, last_rows, out = self._combined
            if np.array_equal(last_weights, weights) and np.array_equal(
                last_rows, rows
            ):
                return out
        return self.combine(weights, rows, np.empty((len(rows), self.n_rows)))

    def combine_between(self, weights: Array, rows: Index, columns: Index) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and j in columns."""
        out = np.empty((len(rows), len(columns)), self.dtype)
        step = self.rows_at_a_time
        whole = np.empty((min(step, len(rows)), self.n_rows), self.dtype)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            combined = self.combine(weights, part, whole[: len(part)])
            out[start : start + step] = combined[:, columns]
        return out

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`, shape (len(rows), outputs)."""
        if self.product_work < np.inf or len(rows) >= len(support_of(coef)):
            return self.scores(coef, weights)[rows]
        step = self.rows_at_a_time
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        out = np.empty((min(step, len(rows)), self.n_rows))  # float64, too
        scores = [
            self.combine(weights, part, out[: len(part)]) @ coef for part in parts
        ]
        return np.concatenate([np.empty((0, coef.shape[1])), *scores])

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        support = support_of(coef)
        out = np.zeros((coef.shape[1], self.n_blocks, self.n_rows), self.dtype)
        for part, block in self._row_blocks(support):
            active = coef[support[part]].T.astype(self.dtype)
            for f in range(self.n_blocks):
                out[:, f] += active @ block[:, f]
        return out

    def block_products(self, coefs: Array) -> Array:
        """K_f coefs_f for every f, in float64: (blocks, outputs, rows) in and out."""
        out = np.zeros_like(coefs)
        if not coefs.any():
            return out
        for part, block in self._row_blocks(np.arange(self.n_rows)):
            for f in range(self.n_blocks):
                out[f, :, part] = coefs[f] @ block[:, f].astype(np.float64).T
        return out

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 = trace(coef' K_f coef) for every f, in float64."""
        support = support_of(coef)
        squares = np.zeros(self.n_blocks)
        for part, block in self._row_blocks(support):
            products = coef[support[part]] @ coef.T
            for f in range(self.n_blocks):
                squares[f] += np.sum(block[:, f] * products)
        return without_noise(squares, coef, self.noise) if self.noise else squares

    def _new_rows(self, rows: Index) -> Values:
        """Where `combine` puts its result by default."""
        return np.empty((len(rows), self.n_rows), self.dtype)

    def _row_blocks(self, index: Index) -> Iterator[tuple[slice, Values]]:
        """Kernel rows a block at a time."""
        for start in range(0, len(index), self.block_rows):
            part = slice(start, min(start + self.block_rows, len(index)))
            yield part, self.rows(index[part])


def without_noise(squares: Array, coef: Array, noise: float) -> Array:
    """Zero in place of squares that rounded values made slightly negative.

    Errors of size `noise` in K_f, of random sign, change trace(coef' K_f coef) by
    about noise * ||coef||^2.
    """
    floor = -noise * float(np.sum(coef**2))
    return np.where((squares < 0.0) & (squares >= floor), 0.0, squares)


def block_norms(bank: Bank, coef: Array, squares: Array | None = None) -> Array:
    """Block norms ||theta_f||; raises where a kernel is not positive semi-definite.

    `squares` are those of `Bank.square_norms`, where they are known already. Tiny
    negative ones are rounding.
    """
    squares = bank.square_norms(coef) if squares is None else squares
    worst = int(np.argmin(squares))
    limit = -NEGATIVE_SQUARE_RTOL * np.max(np.abs(squares), initial=0.0)
    if squares[worst] < limit and not _is_noise(bank, coef, squares):
        raise ValueError(
            f"kernel {bank.names[worst]!r} must be positive semi-definite, got a "
            f"squared norm of {squares[worst]:.3g} while solving; pass psd='clip' to "
            "set its negative eigenvalues to zero."
        )
    return np.sqrt(np.maximum(squares, 0.0))


def _is_noise(bank: Bank, coef: Array, squares: Array) -> bool:
    """Whether rounded kernel values explain the negative squares.

    Coefficients that cancel leave a square far below the terms it is the sum of, and
    each term, at most ||coef_i|| ||coef_j|| sqrt(K_ii K_jj), is rounded.
    """
    lengths = np.linalg.norm(coef, axis=1)
    roots = np.sqrt(np.maximum(bank.diagonals(), 0.0))
    terms = np.square(lengths @ roots)
    # A kernel value is the result of some four rounded steps.
    return bool(np.all(squares >= -4.0 * np.finfo(bank.dtype).eps * terms))


def support_of(coef: Array) -> Index:
    """Rows with a coefficient that is not zero."""
    # Sums of sizes: several times as fast as a search along short rows.
    return np.flatnonzero(np.abs(coef) @ np.ones(coef.shape[1]) != 0.0)
