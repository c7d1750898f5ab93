"""A bank: kernels on the same rows, known through their products.

Everything a solver may ask has an answer here that needs kernel rows only. A bank that
knows better (values in memory, thin features, another device) overrides it; no solver
asks what kind of bank it has. The plainest of them has every value in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices
from manykernels.hot import stack as hot

if TYPE_CHECKING:
    from manykernels.banks.device.kernels import DeviceKernels

BLOCK_BYTES = 128 << 20  # of kernel rows at a time
SCORE_BLOCK = 256  # rows combined at a time when scores are formed in float64,
SCORE_VALUES = 1 << 22  # or as many as have these values
ROUNDING = 1e-4  # negative squares up to this share of the largest are rounding


class Bank(ABC):
    """Symmetric kernels K_f on the same rows.

    A subclass must say where kernel rows come from: `diagonals`, `rows` and `subset`.
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
    kind : str
        What a checkpoint knows it by.
    nugget : Nugget or None
        What was taken from the diagonals of the kernels, see `NuggetBank`.

    Examples
    --------
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
        # A block that were most of the stack would leave nothing to be saved.
        self.block_rows = max(1, min(BLOCK_BYTES // row_bytes, n_rows // 8))
        self.nbytes: int = self.block_rows * row_bytes  # held at a time
        self._combined: tuple[Array, Index, Values] | None = None

    @abstractmethod
    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""

    @abstractmethod
    def rows(self, index: Index) -> Values:
        """K_f(i, j) for i in index, all f and j: shape (len(index), blocks, rows)."""

    @abstractmethod
    def subset(self, index: Index) -> Bank:
        """The same kernels on a subset of the rows."""

    @property
    def ordinary(self) -> Bank:
        """The kernels as they were, where a nugget was made of their parts."""
        return self

    def at_new_rows(self, weights: Array) -> Array:
        """Weights of the kernels as they were, which give scores of new rows."""
        return weights

    def brief_subset(self, index: Index) -> Bank:
        """The same for a few products, where storing values may not pay."""
        return self.subset(index)

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
        """The same kernels as arrays of another device, if they live on one."""
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
        for part, block in self._row_blocks(rows):
            out[part] = np.einsum("f,bfn->bn", weights.astype(out.dtype), block)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64, shape (rows, outputs)."""
        support, step = support_of(coef), self._score_rows
        scores = np.zeros((coef.shape[1], self.n_rows))
        for start in range(0, len(support), step):
            block = support[start : start + step]
            out = np.empty((len(block), self.n_rows))  # float64 whatever is stored
            self._combined = (weights.copy(), block, self.combine(weights, block, out))
            scores += coef[block].T @ out
        if len(support) > step:
            self._combined = None  # all or nothing
        return scores.T

    @property
    def _score_rows(self) -> int:
        """Rows that are combined at a time for scores."""
        return max(SCORE_BLOCK, SCORE_VALUES // self.n_rows)

    def combine_precisely(self, weights: Array, rows: Index) -> Array:
        """`combine` in float64; at no cost where the last `scores` needed the same."""
        if self._combined is not None:
            same, known, out = self._combined
            if np.array_equal(same, weights) and np.array_equal(known, rows):
                return out
        return self.combine(weights, rows, np.empty((len(rows), self.n_rows)))

    def combine_between(self, weights: Array, rows: Index, columns: Index) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and j in columns."""
        found = np.empty((len(rows), len(columns)), self.dtype)
        held = np.empty((min(SCORE_BLOCK, len(rows)), self.n_rows), self.dtype)
        for start in range(0, len(rows), SCORE_BLOCK):
            part = rows[start : start + SCORE_BLOCK]
            whole = self.combine(weights, part, held[: len(part)])
            found[start : start + SCORE_BLOCK] = whole[:, columns]
        return found

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`, shape (len(rows), outputs)."""
        if self.product_work < np.inf or len(rows) >= len(support_of(coef)):
            return self.scores(coef, weights)[rows]
        step = self._score_rows
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        out = np.empty((min(step, len(rows)), self.n_rows))  # float64, too
        found = [self.combine(weights, part, out[: len(part)]) @ coef for part in parts]
        return np.concatenate([np.empty((0, coef.shape[1])), *found])

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
        return squares

    def _new_rows(self, rows: Index) -> Values:
        """Where `combine` puts its result unless it is told."""
        return np.empty((len(rows), self.n_rows), self.dtype)

    def _row_blocks(self, index: Index) -> Iterator[tuple[slice, Values]]:
        """Kernel rows a block at a time."""
        for start in range(0, len(index), self.block_rows):
            part = slice(start, min(start + self.block_rows, len(index)))
            yield part, self.rows(index[part])


class GramBank(Bank):
    """K_f(i, j) = stack[i, f, j]: all kernels of a row side by side.

    Parameters
    ----------
    stack : array of shape (rows, blocks, rows)
        float32 or float64, symmetric in the two row axes; not copied where it is
        C-contiguous, or a view of matrices that lie one after the other.
    names : sequence of str, optional
    noise : float
        Size of the rounding in the values, where it is larger than the dtype's.
    dtype : dtype, optional
        Of the rows that are handed out, where it is not the stack's.

    Examples
    --------
    >>> bank = GramBank(np.stack([np.eye(3), np.ones((3, 3))], axis=1))
    >>> bank.combine(np.array([2.0, 1.0]), np.array([0])).tolist()
    [[3.0, 1.0, 1.0]]
    """

    stores_values = True

    def __init__(
        self,
        stack: Values,
        names: Sequence[str] | None = None,
        noise: float = 0.0,
        dtype: Any = None,
    ) -> None:
        if stack.ndim != 3 or stack.shape[0] != stack.shape[2]:
            raise ValueError(
                "A Gram stack has shape (rows, blocks, rows), got "
                f"{stack.shape}; move the kernel axis to the middle."
            )
        n_rows, n_blocks = stack.shape[:2]
        names = names or [f"kernel {f}" for f in range(n_blocks)]
        super().__init__(n_rows, names, stack.dtype if dtype is None else dtype)
        matrices = stack.transpose(1, 0, 2)
        self.stack = stack
        self.steps = (1, n_rows)
        if not matrices.flags.c_contiguous:
            self.stack = matrices = np.ascontiguousarray(stack)
            self.steps = (n_blocks, 1)
        self.values = matrices.reshape(-1, n_rows)  # a kernel row each
        self.nbytes = stack.nbytes
        self.noise = noise

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        every = np.arange(self.n_rows)
        return self.stack[every, :, every].astype(np.float64)

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        return np.asarray(self.stack[index], self.dtype, order="C")

    def stored_rows(self) -> Values:
        """The stack itself, or a copy made for solvers that need all rows so."""
        return self._rows

    @cached_property
    def _rows(self) -> Values:
        return np.ascontiguousarray(self.stack, self.dtype)

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        out = self._new_rows(rows) if out is None else out
        weights = weights.astype(np.result_type(self.stack.dtype, out.dtype))
        work = partial(hot.combine_rows, self.values, self.steps, weights, rows, out)
        in_slices(len(rows), len(rows) * self.stack[0].nbytes, work)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64, shape (rows, outputs)."""
        support = support_of(coef)
        if len(support) <= self._score_rows:  # whose combined rows may be kept
            return super().scores(coef, weights)
        self._combined = None
        kernel_rows = (self.values, self.steps, weights.astype(np.float64))
        work = partial(hot.combined_scores, *kernel_rows, coef, support)
        traffic = len(support) * self.stack[0].nbytes
        return np.asarray(sum(in_slices(len(support), traffic, work))).T

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        support = support_of(coef)
        active = coef[support].T.astype(self.dtype)
        if len(support) == self.n_rows:  # one product with the rows side by side
            flat = self._rows.reshape(self.n_rows, -1)
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
        kernel_rows = (self.values, self.steps, self.n_blocks)
        work = partial(hot.quadratic_forms, *kernel_rows, by_output, support)
        traffic = len(support) * self.stack[0].nbytes
        squares: Array = np.sum(in_slices(len(support), traffic, work), axis=0)
        return without_noise(squares, coef, self.noise) if self.noise else squares

    def subset(self, index: Index) -> GramBank:
        """The same kernels on the rows `index`, copied together."""
        out = np.empty((len(index), self.n_blocks, len(index)), self.dtype)
        work = partial(hot.gather_block, self.values, self.steps, index, out)
        in_slices(len(index), out.nbytes, work)
        return GramBank(out, self.names, self.noise)


def without_noise(squares: Array, coef: Array, noise: float) -> Array:
    """Zero in place of squares that rounded values made slightly negative.

    Errors of size `noise` in K_f, of random sign, change trace(coef' K_f coef) by
    about noise * ||coef||^2.
    """
    floor = -noise * float(np.sum(coef**2))
    return np.where((squares < 0.0) & (squares >= floor), 0.0, squares)


def block_norms(bank: Bank, coef: Array) -> Array:
    """||theta_f|| of every block; a clearly negative square unmasks the kernel."""
    return norms_of_squares(bank, coef, bank.square_norms(coef))


def norms_of_squares(bank: Bank, coef: Array, squares: Array) -> Array:
    """Roots of what `square_norms` gave; tiny negative numbers are rounding."""
    worst = int(np.argmin(squares))
    largest = np.max(np.abs(squares), initial=0.0)
    if squares[worst] < -ROUNDING * largest and not _is_noise(bank, coef, squares):
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
    return bool(np.all(squares >= -4.0 * np.finfo(bank.dtype).eps * terms))


def support_of(coef: Array) -> Index:
    """Rows with a coefficient that is not zero."""
    # Sums of sizes: several times as fast as a search along short rows.
    return np.flatnonzero(np.abs(coef) @ np.ones(coef.shape[1]) != 0.0)
