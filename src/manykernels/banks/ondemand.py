"""Kernel values computed when they are asked for, and not stored, or only later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from manykernels.banks.base import Bank, support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import available_threads, one_blas_thread
from manykernels.kernels.kernel_set import KernelSet
from manykernels.kernels.kernel_values import symmetric_tiles

# Inner products of a tile are matrix-matrix, and fast where both sides are long; larger
# tiles leave the caches. As many columns as TILE_ROWS are not worth a second thread.
TILE_ROWS = 512
TILE_COLUMNS = 1024
# Values are stored once this share of all pairs has been computed. Fits of 4,000 to
# 6,000 MNIST images ask for 1.2 to 1.7 times all pairs, and take half to a third of the
# time of fits that store them first; those that ask for more need them many times.
PAIRS_BEFORE_STORING = 2.5

Item = TypeVar("Item")
Result = TypeVar("Result")


class OnDemandBank(Bank):
    """K_f(i, j) from the rows themselves: memory for a few kernel rows, not for all.

    Every product costs the kernel rows of the coefficients' support anew, tile by
    tile; kernels on the same columns share the inner products, and only products that
    ask for single kernels ever hold them apart.

    Parameters
    ----------
    kernels : KernelSet
    bank_of : callable, optional
        The bank for a subset of the rows, which may well be stored.
    max_combined_rows : int, optional
        Rows whose combined kernel a solver may hold; all by default.
    cache_bytes : int, optional
        Of kernel rows that a solver may keep for later.

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> bank = OnDemandBank(KernelSet.fit([RBF(0.5)], [[0.0], [1.0]]))
    >>> bank.rows(np.array([0])).round(3).tolist()
    [[[1.0, 0.607]]]
    """

    computes_anew = True

    def __init__(
        self,
        kernels: KernelSet,
        bank_of: Callable[[KernelSet], Bank] | None = None,
        max_combined_rows: int | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        names = list(kernels.names)
        super().__init__(kernels.n_reference, names, kernels.dtype, max_combined_rows)
        self.kernels = kernels
        self.bank_of = bank_of or OnDemandBank
        self.cache_bytes = cache_bytes

    def diagonals(self) -> Array:
        return np.asarray(self.kernels.diagonals().T)

    def rows(self, index: Index) -> Values:
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)

        def work(columns: slice) -> None:
            for part in _slices(len(index), TILE_ROWS):
                for f, tile in self.kernels.tile(index[part], columns):
                    out[part, f, columns] = tile

        self._per_column_slice(work)
        return out

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        out = self._new_rows(rows) if out is None else out
        used = self._used(weights)

        def work(columns: slice) -> None:
            for part in _slices(len(rows), TILE_ROWS):
                out[part, columns] = used.combined_tile(weights, rows[part], columns)

        self._per_column_slice(work)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        return self.scores_at(np.arange(self.n_rows), coef, weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        support = support_of(coef)
        out = np.zeros((len(rows), coef.shape[1]))
        used = self._used(weights)

        def work(part: slice) -> None:
            for others in _slices(len(support), TILE_ROWS):
                of = support[others]
                tile = used.combined_tile(weights, of, rows[part])
                out[part] += tile.T.astype(np.float64) @ coef[of]

        _in_threads(work, _shares(len(rows)))
        return out

    def block_scores(self, coef: Array) -> Values:
        support = support_of(coef)
        out = np.zeros((coef.shape[1], self.n_blocks, self.n_rows), self.dtype)
        active = coef[support].T.astype(self.dtype)

        def work(columns: slice) -> None:
            for part in _slices(len(support), TILE_ROWS):
                for f, tile in self.kernels.tile(support[part], columns):
                    out[:, f, columns] += active[:, part] @ tile

        self._per_column_slice(work)
        return out

    def square_norms(self, coef: Array) -> Array:
        support = support_of(coef)
        active = coef[support]
        among = self.kernels.take(support)

        def work(tile: tuple[slice, slice]) -> Array:
            rows, columns = tile
            products = active[rows] @ active[columns].T
            squares = np.zeros(self.n_blocks)
            for f, block in among.tile(rows, columns):
                squares[f] = np.vdot(block.astype(np.float64), products)
            return squares if rows == columns else 2.0 * squares

        # Tiles beside the diagonal count twice, which saves half of the values.
        parts = _in_threads(work, symmetric_tiles(len(support)))
        return np.asarray(np.sum([np.zeros(self.n_blocks), *parts], axis=0))

    def take(self, index: Index, brief: bool = False) -> Bank:
        """Return the kernels on some rows, stored where they fit.

        Not for a few products: storing a stack takes as long as computing its values
        about three times.
        """
        part = self.kernels.take(index)
        return OnDemandBank(part, self.bank_of) if brief else self.bank_of(part)

    def _used(self, weights: Array) -> KernelSet:
        """The kernels that have a weight."""
        return self.kernels.only(np.flatnonzero(weights))

    def _per_column_slice(self, work: Callable[[slice], None]) -> None:
        _in_threads(work, _shares(self.n_rows))


class DeferredBank(Bank):
    """K_f(i, j), computed when asked for, and stored when that has happened often.

    A fit whose model rests on a part of the rows never asks for most values, and a
    stack of a gigabyte takes longer to store than to compute.

    Parameters
    ----------
    kernels : KernelSet
    store : callable
        From some kernels to the bank that holds their values.

    Examples
    --------
    >>> from manykernels.banks.gram_bank import GramBank
    >>> from manykernels.kernels import RBF
    >>> def store(kernels):
    ...     return GramBank(np.moveaxis(kernels.stack(), 0, 1), kernels.names)
    >>> bank = DeferredBank(KernelSet.fit([RBF(0.5)], [[0.0], [1.0], [2.0]]), store)
    >>> bank.rows(np.array([0])).round(3).tolist()
    [[[1.0, 0.6069999933242798, 0.13500000536441803]]]
    >>> bank.computes_anew, bank.stored_rows().shape, bank.computes_anew
    (True, (3, 1, 3), False)
    """

    stores_values = True  # where all of them are asked for

    def __init__(self, kernels: KernelSet, store: Callable[[KernelSet], Bank]) -> None:
        super().__init__(kernels.n_reference, kernels.names, kernels.dtype)
        self.computing = OnDemandBank(kernels, store)
        self.stored: Bank | None = None
        self.store = store
        self.share_computed = 0.0  # of all pairs of rows, so far
        self.computes_anew = True

    def _source(self, n_rows: int, n_columns: int | None = None) -> Bank:
        """Where the values between so many rows come from."""
        n_columns = self.n_rows if n_columns is None else n_columns
        share = n_rows * n_columns / self.n_rows**2
        if self.stored is None:
            # More than half of the pairs at once is as good as all of them.
            if share <= 0.5 and self.share_computed <= PAIRS_BEFORE_STORING:
                self.share_computed += share
                return self.computing
            self.stored, self.computes_anew = self.store(self.computing.kernels), False
        return self.stored

    def diagonals(self) -> Array:
        return self.computing.diagonals()

    def rows(self, index: Index) -> Values:
        return self._source(len(index)).rows(index)

    def stored_rows(self) -> Values | None:
        return self._source(self.n_rows).stored_rows()

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        return self._source(len(rows)).combine(weights, rows, out)

    def scores(self, coef: Array, weights: Array) -> Array:
        return self._source(len(support_of(coef))).scores(coef, weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        source = self._source(len(support_of(coef)), len(rows))
        return source.scores_at(rows, coef, weights)

    def block_scores(self, coef: Array) -> Values:
        return self._source(len(support_of(coef))).block_scores(coef)

    def block_products(self, coefs: Array) -> Array:
        return self._source(self.n_rows).block_products(coefs)

    def square_norms(self, coef: Array) -> Array:
        n_support = len(support_of(coef))
        return self._source(n_support, n_support // 2).square_norms(coef)

    def take(self, index: Index, brief: bool = False) -> Bank:
        return self._source(len(index), len(index)).take(index, brief)


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _shares(n: int) -> list[slice]:
    """Slices of at most TILE_COLUMNS, as many for every thread.

    >>> _shares(512), len(_shares(1200)) % available_threads()
    ([slice(0, 512, None)], 0)
    """
    if n <= TILE_ROWS:
        return _slices(n, TILE_ROWS)
    threads = available_threads()
    count = -(-n // (threads * TILE_COLUMNS)) * threads
    return _slices(n, -(-n // count))


def _in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """[work(item), ...], a thread per core, with products on one BLAS thread each."""
    n_threads = min(available_threads(), len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))
