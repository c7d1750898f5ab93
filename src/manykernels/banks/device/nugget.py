"""Kernels on a device without their identity parts, and the identity behind them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import DeviceArray
from manykernels.device.base import Chosen


class NuggetKernels(DeviceKernels):
    """scales_f (K_f - diag(shifts_f) E) for some kernels, and E behind them.

    Parameters
    ----------
    kernels : DeviceKernels
    scales : array of shape (blocks,)
    shifts : array of shape (rows, blocks)
        The same for copies of a row.
    same : sparse array of shape (rows, rows)
        E: one for a row with itself and with its copies.
    """

    def __init__(
        self, kernels: DeviceKernels, scales: Array, shifts: Array, same: sp.csr_array
    ) -> None:
        taken = shifts * scales
        own = scales * kernels.diagonals - taken
        diagonals = np.column_stack([own, np.ones(kernels.n_rows)])
        super().__init__(kernels.device, diagonals, kernels.dtype, kernels.room)
        same.sort_indices()
        self.kernels, self.same = kernels, same
        self.scales, self.shifts, self.taken = scales, shifts, taken
        self.alone = same.nnz == kernels.n_rows
        self.product_work = kernels.product_work + 2.0 * kernels.n_rows
        # Copies have the first of them in common.
        self.first = self.device.put(same.indices[same.indptr[:-1]].astype(np.int64))

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        """Yield (f, K_f between some rows and others) for every kernel."""
        own = self._same(rows, columns)
        for f, tile in self.kernels.tiles(rows, columns):
            lost = self._column(self.taken[:, f], rows)
            yield f, tile * float(self.scales[f]) - lost * own
        yield self.n_blocks - 1, own

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        """sum_f weights_f K_f between some rows and others."""
        known = self.kernels.combined(weights[:-1] * self.scales, rows, columns)
        return known + self._column(self._own(weights), rows) * self._same(
            rows, columns
        )

    def scores(
        self,
        coef: DeviceArray,
        weights: Array,
        rows: Chosen = EVERY,
        columns: Chosen = EVERY,
    ) -> DeviceArray:
        """sum_f weights_f K_f(rows, columns) coef, in the precision of coef."""
        everywhere = all(isinstance(c, slice) and c == EVERY for c in (rows, columns))
        if not everywhere:
            return super().scores(coef, weights, rows, columns)
        known = self.kernels.scores(coef, weights[:-1] * self.scales)
        own = self.device.put(self._own(weights)[:, None])
        found = known + own * self.device.precisely(self._summed(coef))
        return self.device.xp.astype(found, coef.dtype, copy=False)

    def block_scores(self, coef: DeviceArray) -> DeviceArray:
        """K_f coef for every f, shape (blocks + 1, rows, outputs)."""
        device, own = self.device, self._summed(coef)
        dtype = device.numpy_dtype(coef)
        scales = device.put(self.scales[:, None, None], dtype)
        taken = device.put(self.taken.T[:, :, None], dtype)
        parts = self.kernels.block_scores(coef) * scales - taken * own[None, ...]
        return device.xp.concat([parts, own[None, ...]])

    def column_squares(self, coef: DeviceArray, rows: Index | None = None) -> Array:
        """a' K_f a for every f and every column a, shape (blocks + 1, columns)."""
        if rows is not None:
            return self.take(rows).column_squares(coef)
        own = np.asarray(self.device.get(coef * self._summed(coef)), np.float64)
        known = self.scales[:, None] * self.kernels.column_squares(coef)
        return np.vstack([known - self.taken.T @ own, own.sum(axis=0)])

    def take(self, index: Index) -> DeviceKernels:
        """The same kernels on some of the rows."""
        same: sp.csr_array = self.same[index][:, index]
        part = self.kernels.take(index)
        return NuggetKernels(part, self.scales, self.shifts[index], same)

    def _own(self, weights: Array) -> Array:
        """What a row has with itself, beside the kernels as they were."""
        return np.asarray(weights[-1] - self.taken @ weights[:-1])

    def _summed(self, coef: DeviceArray) -> DeviceArray:
        """E coef."""
        if self.alone:
            return coef
        return self.device.put(self.same @ self.device.get(coef))

    def _same(self, rows: Chosen, columns: Chosen) -> DeviceArray:
        """E between some rows and others."""
        pick, xp = self.device.pick, self.device.xp
        left, right = pick(self.first, rows), pick(self.first, columns)
        equal = left[:, None] == right[None, :]
        return xp.astype(equal, self.device.dtype(self.dtype))

    def _column(self, values: Array, rows: Chosen) -> DeviceArray:
        there = self.device.put(values, self.dtype)
        return self.device.pick(there, rows)[:, None]
