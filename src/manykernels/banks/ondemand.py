"""Kernel values computed when they are asked for, and forgotten after use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from manykernels.banks.base import Bank, support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import available_threads, one_blas_thread
from manykernels.kernels import KernelSet
from manykernels.kernels.pairwise import symmetric_tiles

# Inner products of a tile are matrix-matrix, and fast where both sides are long; larger
# tiles leave the caches.
TILE_ROWS = 512
TILE_COLUMNS = 1024
FEW_COLUMNS = 512  # not worth a second thread

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
        """K_f(i, i), shape (rows, blocks)."""
        return np.asarray(self.kernels.diagonals().T)

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        out = np.empty((len(index), self.n_blocks, self.n_rows), self.dtype)

        def work(columns: slice) -> None:
            for part in _slices(len(index), TILE_ROWS):
                for f, tile in self.kernels.tile(index[part], columns):
                    out[part, f, columns] = tile

        self._per_column_slice(work)
        return out

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        out = self._new_rows(rows) if out is None else out
        used = self._used(weights)

        def work(columns: slice) -> None:
            for part in _slices(len(rows), TILE_ROWS):
                out[part, columns] = used.combined_tile(weights, rows[part], columns)

        self._per_column_slice(work)
        return out

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64."""
        return self.scores_at(np.arange(self.n_rows), coef, weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`, from their own kernel values only."""
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
        """K_f coef for every f, shape (outputs, blocks, rows)."""
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
        """||theta_f||^2 for every f in float64, from the tiles above the diagonal."""
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

        parts = _in_threads(work, symmetric_tiles(len(support)))
        return np.asarray(np.sum([np.zeros(self.n_blocks), *parts], axis=0))

    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows, stored if they fit."""
        return self.bank_of(self.kernels.take(index))

    def brief_subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows, computed on demand as well.

        Storing a stack takes as long as computing its values about three times.
        """
        return OnDemandBank(self.kernels.take(index), self.bank_of)

    def _used(self, weights: Array) -> KernelSet:
        """The kernels that have a weight."""
        return self.kernels.only(np.flatnonzero(weights))

    def _per_column_slice(self, work: Callable[[slice], None]) -> None:
        _in_threads(work, _shares(self.n_rows))


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _shares(n: int) -> list[slice]:
    """Slices of at most TILE_COLUMNS, as many for every thread.

    >>> _shares(512), len(_shares(1200)) % available_threads()
    ([slice(0, 512, None)], 0)
    """
    if n <= FEW_COLUMNS:
        return _slices(n, FEW_COLUMNS)
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
