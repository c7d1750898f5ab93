"""Explicit features on a device: K_f = Phi_f Phi_f'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from manykernels.banks.device_kernels import EVERY, DeviceKernels, LinearMap
from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen

ROW_PIECES = 128  # of rows, whose products a device forms at the same time


class FeatureKernels(DeviceKernels):
    """K_f = Phi_f Phi_f': products take the features, never a matrix of rows by rows.

    Parameters
    ----------
    device : Device
    features : list of arrays of shape (rows, columns of f)
        On the device.
    diagonals : array of shape (rows, blocks)
    dtype : dtype
    bytes_free : int
    """

    def __init__(
        self,
        device: Device,
        features: Sequence[DeviceArray],
        diagonals: Array,
        dtype: Any,
        bytes_free: int,
    ) -> None:
        super().__init__(device, diagonals, dtype, bytes_free)
        self.features = list(features)
        sizes = (phi.shape[0] * phi.shape[1] for phi in self.features)
        self.products: dict[tuple[int, int], DeviceArray] = {}  # Phi_f' Phi_g
        self.product_work = 2.0 * float(sum(sizes))

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        for f, phi in enumerate(self.features):
            yield f, self.device.pick(phi, rows) @ self.device.pick(phi, columns).T

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        used = np.flatnonzero(weights).tolist() or [0]
        left = [self.device.pick(self.features[f], rows) for f in used]
        right = [
            self.device.pick(self.features[f], columns) * float(weights[f])
            for f in used
        ]
        concat = self.device.xp.concat
        return concat(left, axis=1) @ concat(right, axis=1).T

    def take(self, index: Index) -> DeviceKernels:
        chosen = self.device.put(index)
        features = [self.device.pick(phi, chosen) for phi in self.features]
        return FeatureKernels(
            self.device, features, self.diagonals[index], self.dtype, self.bytes_free
        )

    def scores(
        self,
        coef: DeviceArray,
        weights: Array,
        rows: Chosen = EVERY,
        columns: Chosen = EVERY,
    ) -> DeviceArray:
        total: Any = 0.0
        for f in np.flatnonzero(weights).tolist() or [0]:
            block = self._block(f, coef, columns) * float(weights[f])
            phi = self._as(coef, self.device.pick(self.features[f], rows))
            total = total + phi @ block
        return total

    def block_scores(self, coef: DeviceArray) -> DeviceArray:
        return self.device.xp.stack(
            [
                self._as(coef, phi) @ self._block(f, coef, EVERY)
                for f, phi in enumerate(self.features)
            ]
        )

    def column_squares(self, coef: DeviceArray, rows: Index | None = None) -> Array:
        xp = self.device.xp
        columns = EVERY if rows is None else self.device.put(rows)
        # a' K_f a = ||Phi_f' a||^2 is never negative, whatever is rounded.
        blocks = (self._block(f, coef, columns) for f in range(self.n_blocks))
        sums = [xp.sum(block * block, axis=0) for block in blocks]
        return np.asarray(self.device.get(xp.stack(sums)), np.float64)

    def damped(self, weights: Array) -> Callable[[float], LinearMap]:
        return partial(self._damped, weights)

    def _damped(self, weights: Array, level: float) -> LinearMap:
        """Psi (I + level Psi' Psi)^-1 Psi' with Psi_f = sqrt(weights_f) Phi_f."""
        # By Woodbury's identity K (I + level K)^-1 for K = Psi Psi' needs the inverse
        # of a matrix of columns by columns, never one of rows by rows.
        xp, roots = self.device.xp, np.sqrt(weights)
        used = np.flatnonzero(weights).tolist()
        widths = [self.features[f].shape[1] for f in used]
        scales = self.device.put(np.repeat(roots[used], widths))[:, None]
        every = self.device.put(np.arange(sum(widths)))
        unit = self.device.precisely(every[:, None] == every[None, :])
        gram = self.device.precisely(self._gram(used)) * scales * scales.T
        middle = xp.linalg.inv(unit + level * gram)

        def apply(coef: DeviceArray) -> DeviceArray:
            blocks = xp.concat([self._block(f, coef, EVERY) for f in used])
            mixed = scales * (middle @ (scales * self.device.precisely(blocks)))
            total, start = xp.zeros_like(coef), 0
            for f, width in zip(used, widths, strict=True):
                part = xp.astype(mixed[start : start + width, :], coef.dtype)
                total = total + self._as(coef, self.features[f]) @ part
                start += width
            return total

        return apply

    def _gram(self, used: list[int]) -> DeviceArray:
        """Phi_f' Phi_g of all pairs of some blocks, as one matrix."""
        xp = self.device.xp
        for f in used:
            for g in used:
                if (f, g) not in self.products:
                    product = self._tall_product(self.features[f], self.features[g])
                    self.products[f, g] = product
                    self.products[g, f] = product.T
        rows = [xp.concat([self.products[f, g] for g in used], axis=1) for f in used]
        return xp.concat(rows)

    def _block(self, f: int, coef: DeviceArray, columns: Chosen) -> DeviceArray:
        """Phi_f' coef."""
        phi = self.device.pick(self.features[f], columns)
        return self._tall_product(self._as(coef, phi), coef)

    def _tall_product(self, left: DeviceArray, right: DeviceArray) -> DeviceArray:
        """left' right, from pieces of the rows side by side."""
        # Few results, each a long sum, would occupy a small part of the device: it
        # forms the sums of all pieces at the same time.
        xp, size = self.device.xp, left.shape[0] // ROW_PIECES
        whole = size * ROW_PIECES
        tall = [
            xp.reshape(part[:whole, :], (ROW_PIECES, size, part.shape[1]))
            for part in (left, right)
        ]
        pieces = xp.matmul(xp.matrix_transpose(tall[0]), tall[1])
        rest = left[whole:, :].T @ right[whole:, :]
        return xp.sum(pieces, axis=0) + rest

    def _as(self, coef: DeviceArray, phi: DeviceArray) -> DeviceArray:
        return self.device.xp.astype(phi, coef.dtype, copy=False)
