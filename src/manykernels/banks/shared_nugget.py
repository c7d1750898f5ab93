"""One nugget for all kernels: what each has of the identity, moved into one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manykernels.banks.base import Bank
from manykernels.banks.device_kernels import EVERY, DeviceKernels
from manykernels.banks.identity import (
    NEGLIGIBLE_SHARE,
    copies_of_rows,
    identity_parts,
)
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import Floats, storable
from manykernels.device import DeviceArray, namespace, to_namespace_of
from manykernels.device.base import Chosen
from manykernels.kernels.base import unique_names

NUGGET_NAME = "nugget"


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
        weight = row_weight[:, None] * (diagonals > 0.0)
        totals = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
        means = (weight * diagonals).sum(axis=0) / totals
        # A kernel that is nearly the identity is not blown up: its rest is rounding.
        rest = np.maximum(means - parts, NEGLIGIBLE_SHARE * means)
        scales = means / np.where(rest > 0.0, rest, 1.0)
        return cls(parts, np.where(parts > 0.0, scales, 1.0))

    def at_new_rows(self, weights: Array) -> Array:
        """Return weights of the kernels without nugget, from those with it."""
        return np.asarray(weights[..., :-1] * self.scales)


@dataclass
class IdentitySplit:
    """K_f' = scales_f (K_f - diag(shifts_f) E) for some rows, and E behind them.

    Its formulas are those of every bank and device: arrays keep their library.

    Attributes
    ----------
    nugget : Nugget
    shifts : array of shape (rows, blocks)
        What is taken from the diagonals; the same for copies of a row.
    copies : sparse array of shape (rows, rows)
        E: one for a row with itself and with its copies.
    """

    nugget: Nugget
    shifts: Array
    copies: sp.csr_array

    def __post_init__(self) -> None:
        self.taken = self.shifts * self.nugget.scales  # (rows, blocks)

    def take(self, index: Index) -> IdentitySplit:
        """Return the same of some of the rows."""
        copies: sp.csr_array = self.copies[index][:, index]
        copies.sort_indices()
        return IdentitySplit(self.nugget, self.shifts[index], copies)

    def diagonals(self, diagonals: Array) -> Array:
        """K_f'(i, i), shape (rows, blocks + 1), from those of the kernels."""
        parts = self.nugget.scales * diagonals - self.taken
        return np.column_stack([parts, np.ones(len(parts))])

    def diagonal_of(self, weights: Array) -> Array:
        """The share of E in sum_f weights_f K_f', for every row."""
        return np.asarray(weights[-1] - self.taken @ weights[:-1])

    def products(self, products: DeviceArray, summed: DeviceArray) -> DeviceArray:
        """K_f' coef for every f, shape (blocks + 1, rows, outputs).

        From K_f coef and E coef, the latter of shape (rows, outputs).
        """
        scales = to_namespace_of(products, self.nugget.scales[:, None, None])
        taken = to_namespace_of(products, self.taken.T[:, :, None])
        parts = products * scales - taken * summed[None, ...]
        return namespace(products).concat([parts, summed[None, ...]])

    def squares(self, squares: Array, identity: Array) -> Array:
        """||theta_f'||^2, from those of the kernels and coef * (E coef) of every row.

        Shapes are (blocks,) and (rows,), or (blocks, columns) and (rows, columns).
        """
        parts = squares.T * self.nugget.scales - identity.T @ self.taken
        return np.concatenate([parts, identity.sum(axis=0)[..., None]], axis=-1).T


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
    >>> split = shared_nugget(bank, np.ones(2))
    >>> split.names, split.nugget.parts.round(6).tolist()
    (['ones', 'noise', 'nugget'], [0.0, 0.5])
    >>> split.rows(np.array([0])).round(6).tolist()
    [[[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]]
    """
    with one_blas_thread():  # products with a vector do not share their work
        copies = copies_of_rows(bank)
        is_first = copies.indices[copies.indptr[:-1]] == np.arange(bank.n_rows)
        present = bank.diagonals() > 0.0  # a row that lacks the view has zeros
        nugget = Nugget.of(bank, present & is_first[:, None], row_weight)
    return NuggetBank(bank, IdentitySplit(nugget, nugget.parts * present, copies))


class NuggetBank(Bank):
    """The kernels of a bank without their identity parts, and E behind them.

    Parameters
    ----------
    bank : Bank
    split : IdentitySplit
    """

    def __init__(self, bank: Bank, split: IdentitySplit) -> None:
        names = unique_names([*bank.names, NUGGET_NAME])
        super().__init__(bank.n_rows, names, bank.dtype, bank.max_combined_rows)
        self.bank, self.split, self.nugget = bank, split, split.nugget
        self.kind = f"{bank.kind} with a nugget"
        self.nbytes = bank.nbytes
        self.stores_values = bank.stores_values
        self.computes_anew = bank.computes_anew
        self.cache_bytes = bank.cache_bytes
        self.product_work = bank.product_work + 2.0 * bank.n_rows

    @property
    def without_nugget(self) -> Bank:
        return self.bank

    def at_new_rows(self, weights: Array) -> Array:
        return np.asarray(self.nugget.at_new_rows(weights))

    def on_device(self) -> DeviceKernels | None:
        kernels = self.bank.on_device()
        return None if kernels is None else NuggetKernels(kernels, self.split)

    def diagonals(self) -> Array:
        return self.split.diagonals(self.bank.diagonals())

    def rows(self, index: Index) -> Values:
        out = np.zeros((len(index), self.n_blocks, self.n_rows), self.dtype)
        scales = self.nugget.scales[:, None].astype(self.dtype)
        np.multiply(self.bank.rows(index), scales, out=out[:, :-1])
        at, columns = self._copies(index)
        out[at, :-1, columns] -= self.split.taken[index[at]].astype(self.dtype)
        out[at, -1, columns] = 1.0
        return out

    def combine(self, weights: Array, rows: Index, out: Values | None = None) -> Values:
        out = self.bank.combine(self.at_new_rows(weights), rows, out)
        return self._add_identity(weights, rows, out)

    def combine_precisely(self, weights: Array, rows: Index) -> Array:
        out = self.bank.combine_precisely(self.at_new_rows(weights), rows)
        return self._add_identity(weights, rows, out.copy())

    def _add_identity(self, weights: Array, rows: Index, out: Values) -> Values:
        at, columns = self._copies(rows)
        out[at, columns] += self.split.diagonal_of(weights)[rows[at]].astype(out.dtype)
        return out

    def _copies(self, rows: Index) -> tuple[Index, Index]:
        """Places in `rows`, and the rows that are copies of the row at that place."""
        part = self.split.copies[rows]
        return np.repeat(np.arange(len(rows)), np.diff(part.indptr)), part.indices

    def scores(self, coef: Array, weights: Array) -> Array:
        scores = self.bank.scores(coef, self.at_new_rows(weights))
        summed: Array = self.split.copies @ coef
        return scores + self.split.diagonal_of(weights)[:, None] * summed

    def scores_at(self, rows: Index, coef: Array, weights: Array) -> Array:
        scores = self.bank.scores_at(rows, coef, self.at_new_rows(weights))
        summed: Array = self.split.copies[rows] @ coef
        return scores + self.split.diagonal_of(weights)[rows, None] * summed

    def block_scores(self, coef: Array) -> Values:
        scores = self.bank.block_scores(coef).astype(np.float64)
        products = np.moveaxis(scores, 0, 2)  # (blocks, rows, outputs)
        products = self.split.products(products, self.split.copies @ coef)
        return np.ascontiguousarray(np.moveaxis(products, 2, 0), self.dtype)

    def block_products(self, coefs: Array) -> Array:
        out: Array = np.stack([(self.split.copies @ coef.T).T for coef in coefs])
        parts = self.bank.block_products(coefs[:-1])
        parts = self.nugget.scales[:, None, None] * parts
        out[:-1] = parts - self.split.taken.T[:, None, :] * out[:-1]
        return out

    def square_norms(self, coef: Array) -> Array:
        identity = np.einsum("ik,ik->i", coef, self.split.copies @ coef)
        return self.split.squares(self.bank.square_norms(coef), identity)

    def take(self, index: Index, brief: bool = False) -> Bank:
        return NuggetBank(self.bank.take(index, brief), self.split.take(index))


class NuggetKernels(DeviceKernels):
    """Kernels on a device without their identity parts, and E behind them.

    Parameters
    ----------
    kernels : DeviceKernels
    split : IdentitySplit
    """

    def __init__(self, kernels: DeviceKernels, split: IdentitySplit) -> None:
        diagonals = split.diagonals(kernels.diagonals)
        super().__init__(kernels.device, diagonals, kernels.dtype, kernels.bytes_free)
        self.kernels, self.split = kernels, split
        self.product_work = kernels.product_work + 2.0 * kernels.n_rows
        # E(i, j) = 1 where rows i and j have the first of their copies in common.
        first = split.copies.indices[split.copies.indptr[:-1]]
        self.first = self.device.put(first.astype(np.int64))
        self.has_copies = split.copies.nnz > kernels.n_rows

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        identity = self._identity(rows, columns)
        for f, tile in self.kernels.tiles(rows, columns):
            taken = self._column(self.split.taken[:, f], rows)
            yield f, tile * float(self.split.nugget.scales[f]) - taken * identity
        yield self.n_blocks - 1, identity

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        kernel_weights = self.split.nugget.at_new_rows(weights)
        tile = self.kernels.combined(kernel_weights, rows, columns)
        diagonal = self._column(self.split.diagonal_of(weights), rows)
        return tile + diagonal * self._identity(rows, columns)

    def scores(
        self,
        coef: DeviceArray,
        weights: Array,
        rows: Chosen = EVERY,
        columns: Chosen = EVERY,
    ) -> DeviceArray:
        everywhere = all(isinstance(c, slice) and c == EVERY for c in (rows, columns))
        if not everywhere:
            return super().scores(coef, weights, rows, columns)
        scores = self.kernels.scores(coef, self.split.nugget.at_new_rows(weights))
        diagonal = self.device.put(self.split.diagonal_of(weights)[:, None])
        scores = scores + diagonal * self.device.precisely(self._summed(coef))
        return self.device.xp.astype(scores, coef.dtype, copy=False)

    def block_scores(self, coef: DeviceArray) -> DeviceArray:
        return self.split.products(self.kernels.block_scores(coef), self._summed(coef))

    def column_squares(self, coef: DeviceArray, rows: Index | None = None) -> Array:
        if rows is not None:
            return self.take(rows).column_squares(coef)
        identity = np.asarray(self.device.get(coef * self._summed(coef)), np.float64)
        return self.split.squares(self.kernels.column_squares(coef), identity)

    def take(self, index: Index) -> DeviceKernels:
        return NuggetKernels(self.kernels.take(index), self.split.take(index))

    def _summed(self, coef: DeviceArray) -> DeviceArray:
        """E coef."""
        if not self.has_copies:
            return coef
        return self.device.put(self.split.copies @ self.device.get(coef))

    def _identity(self, rows: Chosen, columns: Chosen) -> DeviceArray:
        """E between some rows and others."""
        pick, xp = self.device.pick, self.device.xp
        left, right = pick(self.first, rows), pick(self.first, columns)
        equal = left[:, None] == right[None, :]
        return xp.astype(equal, self.device.dtype(self.dtype))

    def _column(self, values: Array, rows: Chosen) -> DeviceArray:
        column = self.device.put(values, self.dtype)
        return self.device.pick(column, rows)[:, None]
