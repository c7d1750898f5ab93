"""A Gram stack that is stored once its values have been asked for often."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from manykernels.banks.base import Bank, support_of
from manykernels.banks.ondemand import OnDemandBank
from manykernels.base.arrays import Array, Index, Values
from manykernels.kernels import KernelSet

# Shares of all pairs of rows. To store the values takes as long as to compute them
# once; fits whose models rest on a part of the rows ask for most values never.
WHOLE = 0.5  # asked for at a time: as good as all
PATIENCE = 1.5  # asked for one after the other, until the values are stored


class DeferredBank(Bank):
    """K_f(i, j), computed when asked for, and stored when that has happened often.

    Parameters
    ----------
    kernels : KernelSet
    store : callable
        The bank of some kernels that holds their values.

    Attributes
    ----------
    asked : float
        Pairs of rows that were computed so far, as a share of all.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.banks import GramBank
    >>> from manykernels.kernels import RBF, KernelSet
    >>> def store(kernels):
    ...     return GramBank(np.moveaxis(kernels.stack(), 0, 1), kernels.names)
    >>> bank = DeferredBank(KernelSet.fit([RBF(0.5)], [[0.0], [1.0], [2.0]]), store)
    >>> bank.rows(np.array([0])).round(3).tolist()
    [[[1.0, 0.6069999933242798, 0.13500000536441803]]]
    >>> bank.computes_anew, bank.stored_rows().shape, bank.computes_anew
    (True, (3, 1, 3), False)
    """

    stores_values = True  # for who asks for all of them

    def __init__(self, kernels: KernelSet, store: Callable[[KernelSet], Bank]) -> None:
        super().__init__(kernels.n_reference, kernels.names, kernels.dtype)
        self.near = OnDemandBank(kernels, store)
        self.store = store
        self.asked = 0.0
        self.computes_anew = True

    @cached_property
    def stored(self) -> Bank:
        """Every value; from here on, all answers come from it."""
        self.computes_anew = False
        return self.store(self.near.kernels)

    def _source(self, n_rows: int, n_columns: int | None = None) -> Bank:
        """Where values between so many rows come from."""
        n_columns = self.n_rows if n_columns is None else n_columns
        share = n_rows * n_columns / self.n_rows**2
        if self.computes_anew and share <= WHOLE and self.asked <= PATIENCE:
            self.asked += share
            return self.near
        return self.stored

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""
        return self.near.diagonals()

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks, rows)."""
        return self._source(len(index)).rows(index)

    def stored_rows(self) -> Values | None:
        """All kernel rows, (rows, blocks, rows)."""
        return self.stored.stored_rows()

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""
        return self._source(len(rows)).combine(weights, rows, out)

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef in float64, shape (rows, outputs)."""
        return self._source(len(support_of(coef))).scores(coef, weights)

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`."""
        source = self._source(len(support_of(coef)), len(rows))
        return source.scores_at(rows, coef, weights)

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""
        return self._source(len(support_of(coef))).block_scores(coef)

    def block_products(self, coefs: Array) -> Array:
        """K_f coefs_f for every f, in float64: (blocks, outputs, rows) in and out."""
        return self.stored.block_products(coefs)

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, in float64."""
        n_support = len(support_of(coef))
        return self._source(n_support, n_support // 2).square_norms(coef)

    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows, stored."""
        return self._source(len(index), len(index)).subset(index)

    def brief_subset(self, index: Index) -> Bank:
        """The same for a few products."""
        return self._source(len(index), len(index)).brief_subset(index)
