"""All products looked at on a device, many prefixes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from manykernels.base.arrays import Array
from manykernels.device import Device, DeviceArray
from manykernels.products.base import BaseKernels, RankOneKernels, inverse_sizes
from manykernels.products.indices import Product, rooms

# Of what columns leave free: for pieces of tall matrices, for the values of a batch,
# and for sizes that are remembered.
SHARE = 0.25
VALUE_BYTES = 64  # of all arrays with a number for every product of a batch
ENTRY_BYTES = 24  # of those with a number for every row
LEAST_ENTRIES = 64


@dataclass
class DeviceLooks:
    r"""The largest :math:`\langle v, z \rangle` over continuations of many prefixes.

    All continuations of one prefix by two factors are the matrix X' diag(v) X; those of
    many are one product of tall matrices, for which devices are made. Only the largest
    values travel.

    Parameters
    ----------
    base : BaseKernels
    device : Device
    single : bool
        Values in single precision; sizes of features are always in double.
    memory_limit : int or str, optional
        Bytes on the device; by default most of what is free there.

    Examples
    --------
    >>> X = np.sign(np.random.default_rng(0).normal(size=(50, 6)))
    >>> looks = DeviceLooks(RankOneKernels(X), Device("NumPy", np))
    >>> v = X[:, 1] * X[:, 4] * X[:, 5]
    >>> [(found, float(values[0])) for found, values in looks.best([(0,), (1,)], v, 1)]
    [([(1, 4, 5)], 50.0)]
    """

    base: BaseKernels
    device: Device
    single: bool = False
    memory_limit: int | str | None = None
    _scales: dict[tuple[Product, int], DeviceArray] = field(
        default_factory=dict, repr=False
    )

    _held: int = field(default=0, repr=False)  # bytes of them

    def __post_init__(self) -> None:
        """Send the columns."""
        columns = self.base.columns.T  # rows of a factor side by side
        self._long = self.device.put(columns, np.float64)
        self._rows = self._short(self._long)
        allowed = self.device.allowed_bytes(self.memory_limit)
        self._room = int(SHARE * max(0, allowed - 12 * self.base.columns.size))

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
        v = self._short(self.device.put(weighted, np.float64))
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

    def _short(self, values: DeviceArray) -> DeviceArray:
        """In the precision of the looks."""
        dtype = self.device.dtype(np.float32 if self.single else np.float64)
        return self.device.xp.astype(values, dtype, copy=False)

    def _batch_size(self, width: int) -> int:
        """Prefixes whose arrays fit."""
        rows = self.base.columns.shape[0]
        return max(1, self._room // (VALUE_BYTES * width * width + ENTRY_BYTES * rows))

    def _products(
        self,
        rows: DeviceArray,
        batch: Sequence[Product],
        v: DeviceArray,
        first: int,
        squared: bool = False,
    ) -> DeviceArray:
        """X' diag(v * prefix) X for every prefix, from column `first` on.

        With squared columns if asked for, but never with a copy of them all.
        """
        xp, device = self.device.xp, self.device
        some, width = rows[first:, :], rows.shape[0] - first
        step = self._entries(len(batch) * width)
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

    def _entries(self, height: int) -> int:
        """Entries of the columns that are multiplied at a time."""
        return max(LEAST_ENTRIES, self._room // (8 * height))

    def _inverse_sizes(self, batch: Sequence[Product], first: int) -> DeviceArray:
        """1 / size of the features, remembered if memory allows."""
        key = (batch[0], len(batch))
        if key in self._scales:
            return self._scales[key]
        assert isinstance(self.base, RankOneKernels)
        xp, columns = self.device.xp, self._long
        shares = self.device.put(self.base.shares, np.float64)
        squares = self.base.square_sizes(
            self._products(columns, batch, shares, first, squared=True),
            self._products(columns, batch, shares, first),
            xp,
        )
        found = self._short(inverse_sizes(squares, xp))
        size = int(np.prod(found.shape)) * (4 if self.single else 8)
        if self._held + size <= self._room:
            self._held += size
            self._scales[key] = found
        return found

    def _allowed_ones(self, batch: Sequence[Product], first: int) -> DeviceArray:
        """1 for products that are allowed, each of them once, else 0."""
        xp, base = self.device.xp, self.base
        room = rooms(base.n_base, base.limits, len(batch[0]) + 2, batch)[:, first:]
        once, twice = (self._short(self.device.put(room >= k)) for k in (1, 2))
        pairs = once[:, :, None] * once[:, None, :]
        eye = xp.tril(xp.triu(xp.ones_like(pairs[0, :, :])))
        return xp.triu(pairs, k=1) + twice[:, :, None] * eye[None, :, :]

    def _largest(
        self, values: DeviceArray, batch: Sequence[Product], top: int
    ) -> tuple[list[Product], Array]:
        """The largest of a batch, in size."""
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
