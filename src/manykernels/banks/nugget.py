"""One nugget for all kernels: what each has of the identity, moved into one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manykernels.banks.base import Bank
from manykernels.banks.device.kernels import DeviceKernels
from manykernels.banks.device.nugget import NuggetKernels
from manykernels.banks.identity import copies_of_rows, identity_parts
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import Floats, storable
from manykernels.kernels.base import unique_names

NAME = "nugget"
MOST = 100.0  # times: what is less than a hundredth of a kernel is not blown up


@storable(parts=Floats("kernels", low=0.0), scales=Floats("kernels", low=0.0))
@dataclass(frozen=True)
class Nugget:
    """K_f' = scales_f (K_f - parts_f I) for every kernel, and I for all of them.

    At new rows there is no identity, and K_f' is scales_f K_f.

    Attributes
    ----------
    parts : array of shape (n_kernels,)
        What the diagonals lose.
    scales : array of shape (n_kernels,)
        What brings the mean diagonals back to where they were.
    """

    parts: Array
    scales: Array

    @classmethod
    def of(cls, bank: Bank, distinct: Array, row_weight: Array) -> Nugget:
        """As much as the kernels have, and no more.

        `distinct` has the rows that count for every kernel, (rows, blocks).
        """
        parts = identity_parts(bank, distinct)
        diagonals = bank.diagonals()
        seen = row_weight[:, None] * (diagonals > 0.0)
        totals = np.maximum(seen.sum(axis=0), np.finfo(float).tiny)
        means = (seen * diagonals).sum(axis=0) / totals
        left = np.maximum(means - parts, means / MOST)
        return cls(parts, np.where(parts > 0.0, means / np.where(left > 0, left, 1), 1))

    def at_new_rows(self, weights: Array) -> Array:
        """Weights of the kernels as they were, from those of the kernels and I."""
        found: Array = weights[..., :-1] * self.scales
        return found


def shared_nugget(bank: Bank, row_weight: Array) -> NuggetBank:
    """The kernels of a bank without their identity parts, and the identity.

    The identity is one between a row and its copies, too, so that a row of weight k is
    as good as k copies of it.

    Parameters
    ----------
    bank : Bank
    row_weight : array of shape (rows,)

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> ones = np.ones((2, 2))
    >>> noise = 0.5 * ones + 0.5 * np.eye(2)
    >>> bank = GramBank(np.stack([ones, noise], axis=1), ["ones", "noise"])
    >>> found = shared_nugget(bank, np.ones(2))
    >>> found.names, found.nugget.parts.round(6).tolist()
    (['ones', 'noise', 'nugget'], [0.0, 0.5])
    >>> found.rows(np.array([0])).round(6).tolist()
    [[[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]]
    """
    with one_blas_thread():  # products with a vector do not share their work
        same = copies_of_rows(bank)
        first = same.indices[same.indptr[:-1]] == np.arange(bank.n_rows)
        seen = bank.diagonals() > 0.0  # not by rows that lack a view
        nugget = Nugget.of(bank, seen & first[:, None], row_weight)
    return NuggetBank(bank, nugget, nugget.parts * seen, same)


class NuggetBank(Bank):
    """scales_f (K_f - diag(shifts_f) E) for the kernels of a bank, and E behind them.

    Parameters
    ----------
    bank : Bank
    nugget : Nugget
    shifts : array of shape (rows, blocks)
        What is taken from the diagonals; the same for copies of a row.
    same : sparse array of shape (rows, rows)
        E: one for a row with itself and with its copies.
    """

    def __init__(
        self, bank: Bank, nugget: Nugget, shifts: Array, same: sp.csr_array
    ) -> None:
        names = unique_names([*bank.names, NAME])
        super().__init__(bank.n_rows, names, bank.dtype, bank.max_combined_rows)
        self.bank, self.nugget, self.same = bank, nugget, same
        self.taken = shifts * nugget.scales  # (rows, blocks)
        self.shifts = shifts
        self.kind = f"{bank.kind} with a nugget"
        self.nbytes = bank.nbytes
        self.stores_values = bank.stores_values
        self.computes_anew = bank.computes_anew
        self.cache_bytes = bank.cache_bytes
        self.product_work = bank.product_work + 2.0 * bank.n_rows

    @property
    def ordinary(self) -> Bank:
        """The kernels as they were."""
        return self.bank

    def at_new_rows(self, weights: Array) -> Array:
        """Weights of the kernels as they were: new rows have no nugget."""
        found: Array = self.nugget.at_new_rows(weights)
        return found

    def on_device(self) -> DeviceKernels | None:
        """The same on the device of the kernels, if they are on one."""
        there = self.bank.on_device()
        if there is None:
            return None
        return NuggetKernels(there, self.nugget.scales, self.shifts, self.same)

    def diagonals(self) -> Array:
        """K_f'(i, i), shape (rows, blocks + 1)."""
        own = self.nugget.scales * self.bank.diagonals() - self.taken
        return np.column_stack([own, np.ones(self.n_rows)])

    def rows(self, index: Index) -> Values:
        """Rows of every kernel, shape (len(index), blocks + 1, rows)."""
        out = np.zeros((len(index), self.n_blocks, self.n_rows), self.dtype)
        scales = self.nugget.scales[:, None].astype(self.dtype)
        np.multiply(self.bank.rows(index), scales, out=out[:, :-1])
        at, columns = self._copies(index)
        out[at, :-1, columns] -= self.taken[index[at]].astype(self.dtype)
        out[at, -1, columns] = 1.0
        return out

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        """sum_f weights_f K_f'(i, j) for i in rows and all j."""
        return self._with_own(
            weights, rows, self.bank.combine(self.at_new_rows(weights), rows, out)
        )

    def combine_precisely(self, weights: Array, rows: Index) -> Array:
        """`combine` in float64."""
        known = self.bank.combine_precisely(self.at_new_rows(weights), rows)
        return self._with_own(weights, rows, known.copy())

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f' coef in float64."""
        own: Array = self._own(weights)[:, None] * (self.same @ coef)
        return self.bank.scores(coef, self.at_new_rows(weights)) + own

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        """Some rows of `scores`."""
        own: Array = self._own(weights)[rows, None] * (self.same[rows] @ coef)
        return self.bank.scores_at(rows, coef, self.at_new_rows(weights)) + own

    def block_scores(self, coef: Array) -> Values:
        """K_f' coef for every f, shape (outputs, blocks + 1, rows)."""
        own = (self.same @ coef).T[:, None, :]  # (outputs, 1, rows)
        parts = self.nugget.scales[:, None] * self.bank.block_scores(coef)
        parts -= self.taken.T * own
        return np.concatenate([parts, own], axis=1).astype(self.dtype)

    def block_products(self, coefs: Array) -> Array:
        """K_f' coefs_f for every f: (blocks + 1, outputs, rows) in and out."""
        own: Array = np.stack([(self.same @ coef.T).T for coef in coefs])
        parts = self.nugget.scales[:, None, None] * self.bank.block_products(coefs[:-1])
        own[:-1] = parts - self.taken.T[:, None, :] * own[:-1]
        return own

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 for every f, in float64."""
        own = np.einsum("ik,ik->i", coef, self.same @ coef)
        parts = self.nugget.scales * self.bank.square_norms(coef) - own @ self.taken
        return np.append(parts, own.sum())

    def subset(self, index: Index) -> Bank:
        """The same kernels on fewer rows."""
        return self._on(self.bank.subset(index), index)

    def brief_subset(self, index: Index) -> Bank:
        """The same for a few products."""
        return self._on(self.bank.brief_subset(index), index)

    def _on(self, part: Bank, index: Index) -> NuggetBank:
        same: sp.csr_array = self.same[index][:, index]
        return NuggetBank(part, self.nugget, self.shifts[index], same)

    def _own(self, weights: Array) -> Array:
        """What a row has with itself, beside the kernels as they were; (rows,)."""
        return np.asarray(weights[-1] - self.taken @ weights[:-1])

    def _with_own(self, weights: Array, rows: Index, out: Values) -> Values:
        at, columns = self._copies(rows)
        out[at, columns] += self._own(weights)[rows[at]].astype(out.dtype)
        return out

    def _copies(self, rows: Index) -> tuple[Index, Index]:
        """Places in `rows`, and the rows that are copies of the row there."""
        part = self.same[rows]
        return np.repeat(np.arange(len(rows)), np.diff(part.indptr)), part.indices
