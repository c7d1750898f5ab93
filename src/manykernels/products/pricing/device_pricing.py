"""Search all products on a device, many prefixes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from manykernels.base.arrays import Array
from manykernels.device import Device, DeviceArray
from manykernels.products.base import BaseKernels, RankOneKernels, inverse_sizes
from manykernels.products.indices import Product, free_factors

# Share of the memory beside the columns for each of: pieces of tall matrices, values of
# a batch, remembered sizes.
BATCH_MEMORY_SHARE = 0.25
BYTES_PER_PRODUCT = 64  # of all arrays with a number for every product of a batch
BYTES_PER_PREFIX_ROW = 24  # of all arrays with a number for every row and prefix
MIN_PIECE_ROWS = 64


@dataclass
class DevicePricing:
    r"""The largest :math:`\langle v, z \rangle` over continuations of many prefixes.

    All continuations of one prefix by two factors are the matrix X' diag(v) X; those of
    many are one product of tall matrices, which suits a device. Only the largest values
    are copied back.

    Parameters
    ----------
    base : BaseKernels
    device : Device
    single : bool
        Values in single precision; sizes of features are always in double precision.
    memory_limit : int or str, optional
        Bytes on the device; by default most of what is free there.

    Examples
    --------
    >>> X = np.sign(np.random.default_rng(0).normal(size=(50, 6)))
    >>> pricing = DevicePricing(RankOneKernels(X), Device("NumPy", np))
    >>> v = X[:, 1] * X[:, 4] * X[:, 5]
    >>> [(found, float(x[0])) for found, x in pricing.best([(0,), (1,)], v, 1)]
    [([(1, 4, 5)], 50.0)]
    """

    base: BaseKernels
    device: Device
    single: bool = False
    memory_limit: int | str | None = None
    _scales: dict[tuple[Product, int], DeviceArray] = field(
        default_factory=dict, repr=False
    )

    _remembered: int = field(default=0, repr=False)  # bytes of them

    def __post_init__(self) -> None:
        """Send the columns."""
        columns = self.base.columns.T  # rows of a factor side by side
        self._columns64 = self.device.put(columns, np.float64)
        self._rows = self._in_search_dtype(self._columns64)
        allowed = self.device.allowed_bytes(self.memory_limit)
        self._bytes_free = int(
            BATCH_MEMORY_SHARE * max(0, allowed - 12 * self.base.columns.size)
        )

    def best(
        self, prefixes: Sequence[Product], weighted: Array, top: int
    ) -> Iterator[tuple[list[Product], Array]]:
        """The `top` products of every batch, as many as there are, with their values.

        Parameters
        ----------
        prefixes : sequence of products of one length
        weighted : array of shape (rows,)
            The vector v.
        top : int
        """
        v = self._in_search_dtype(self.device.put(weighted, np.float64))
        ordered = sorted(prefixes, key=lambda prefix: prefix[-1:])
        while ordered:
            first = ordered[0][-1] if ordered[0] else 0
            size = self._batch_size(self.base.n_base - first)
            batch, ordered = ordered[:size], ordered[size:]
            values = self._products(self._rows, batch, v, first)
            if self.base.normalized:
                values *= self._inverse_sizes(batch, first)
            values *= self._allowed_ones(batch, first)
            yield self._largest(values, batch, top)

    def _in_search_dtype(self, values: DeviceArray) -> DeviceArray:
        """Convert to the precision of the search."""
        dtype = self.device.dtype(np.float32 if self.single else np.float64)
        return self.device.xp.astype(values, dtype, copy=False)

    def _batch_size(self, width: int) -> int:
        """Return the number of prefixes whose arrays fit."""
        rows = self.base.columns.shape[0]
        return max(
            1,
            self._bytes_free
            // (BYTES_PER_PRODUCT * width * width + BYTES_PER_PREFIX_ROW * rows),
        )

    def _products(
        self,
        rows: DeviceArray,
        batch: Sequence[Product],
        v: DeviceArray,
        first: int,
        squared: bool = False,
    ) -> DeviceArray:
        """Return X' diag(v * prefix) X for every prefix, from column `first` on.

        `squared` takes squares of the columns, without a copy of all of them.
        """
        xp, device = self.device.xp, self.device
        some, width = rows[first:, :], rows.shape[0] - first
        step = self._piece_rows(len(batch) * width)
        factors = [device.put(f) for f in np.array(batch, dtype=np.int64).T]
        total = None
        for start in range(0, v.shape[0], step):
            part = slice(start, min(start + step, v.shape[0]))
            weights = xp.broadcast_to(v[part], (len(batch), part.stop - start))
            for factor in factors:
                chosen = device.pick(rows[:, part], factor)
                weights = weights * (chosen * chosen if squared else chosen)
            right = some[:, part]
            right = right * right if squared else right
            left = xp.reshape(
                weights[:, None, :] * right[None, :, :], (len(batch) * width, -1)
            )
            found = left @ right.T
            total = found if total is None else total + found
        return xp.reshape(total, (len(batch), width, width))

    def _piece_rows(self, height: int) -> int:
        """Return the number of rows that are multiplied at a time."""
        return max(MIN_PIECE_ROWS, self._bytes_free // (8 * height))

    def _inverse_sizes(self, batch: Sequence[Product], first: int) -> DeviceArray:
        """Return 1 / size of the features, remembered if memory allows."""
        key = (batch[0], len(batch))
        if key in self._scales:
            return self._scales[key]
        assert isinstance(self.base, RankOneKernels)
        xp, columns = self.device.xp, self._columns64
        shares = self.device.put(self.base.shares, np.float64)
        squares = self.base.square_sizes(
            self._products(columns, batch, shares, first, squared=True),
            self._products(columns, batch, shares, first),
            xp,
        )
        found = self._in_search_dtype(inverse_sizes(squares, xp))
        size = int(np.prod(found.shape)) * (4 if self.single else 8)
        if self._remembered + size <= self._bytes_free:
            self._remembered += size
            self._scales[key] = found
        return found

    def _allowed_ones(self, batch: Sequence[Product], first: int) -> DeviceArray:
        """Return 1 for products that are allowed, each of them once, else 0."""
        xp, base = self.device.xp, self.base
        n_free = free_factors(base.n_base, base.limits, len(batch[0]) + 2, batch)[
            :, first:
        ]
        once, twice = (
            self._in_search_dtype(self.device.put(n_free >= k)) for k in (1, 2)
        )
        pairs = once[:, :, None] * once[:, None, :]
        eye = xp.tril(xp.triu(xp.ones_like(pairs[0, :, :])))
        return xp.triu(pairs, k=1) + twice[:, :, None] * eye[None, :, :]

    def _largest(
        self, values: DeviceArray, batch: Sequence[Product], top: int
    ) -> tuple[list[Product], Array]:
        """Return the largest values of a batch, in size."""
        xp = self.device.xp
        flat = xp.reshape(values, (-1,))
        places = self.device.largest(xp.abs(flat), min(top, flat.shape[0]))
        found = self.device.get(xp.take(flat, places)).astype(np.float64)
        which, j, k = np.unravel_index(self.device.get(places), tuple(values.shape))
        first = batch[0][-1] if batch[0] else 0
        products = [
            (*batch[b], int(first + one), int(first + other))
            for b, one, other in zip(which, j, k, strict=True)
        ]
        return products, found
