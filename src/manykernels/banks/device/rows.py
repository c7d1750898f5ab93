"""Kernel values from rows on a device, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen, Curve
from manykernels.kernels import KernelSet
from manykernels.kernels.fitted import Group
from manykernels.kernels.fused import curve, has_curves, terms


@dataclass
class RowGroup:
    """Rows on the columns that some kernels share, and the kernels' terms.

    k_f(x, y) = s_f(x) s_f(y) g_f(slope_f <x, y> + l_f(x) + l_f(y)).
    """

    values: DeviceArray  # (rows, columns)
    curves: dict[int, Curve]  # g and slope of every kernel
    added: dict[int, DeviceArray]  # l, (rows,)
    scales: dict[int, DeviceArray]  # s, (rows,)

    def terms(
        self, pick: Callable[[DeviceArray], DeviceArray], kernels: Sequence[int]
    ) -> list[tuple[DeviceArray, DeviceArray]]:
        """(l, s) of some kernels, for the rows that are picked."""
        return [(pick(self.added[f]), pick(self.scales[f])) for f in kernels]


class RowKernels(DeviceKernels):
    """Kernels that are curves of inner products, from the rows themselves.

    Kernels on the same columns share the inner products of a tile.

    Parameters
    ----------
    device : Device
    groups : list of RowGroup
    diagonals : array of shape (rows, blocks)
    dtype : dtype
    room : int
    """

    def __init__(
        self,
        device: Device,
        groups: list[RowGroup],
        diagonals: Array,
        dtype: Any,
        room: int,
    ) -> None:
        super().__init__(device, diagonals, dtype, room)
        self.groups = groups

    @classmethod
    def of(cls, device: Device, kernels: KernelSet, room: int) -> RowKernels:
        """From fitted kernels that all have curves, see `on_rows`."""
        groups = [_row_group(device, kernels, group) for group in kernels.groups]
        diagonals = np.asarray(kernels.diagonals().T)
        return cls(device, groups, diagonals, kernels.dtype, room)

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        """Yield (f, K_f between some rows and others) for every kernel."""
        for group in self.groups:
            shared = self._shared(group, rows, columns)
            for f in group.curves:
                out = self._zeros(shared)
                yield f, self._add(out, group, {f: 1.0}, shared, rows, columns)

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        """sum_f weights_f K_f between some rows and others."""
        out: Any = None
        for group in self.groups:
            used = {f: float(weights[f]) for f in group.curves if weights[f] != 0.0}
            if used or group is self.groups[-1] and out is None:
                shared = self._shared(group, rows, columns)
                out = self._zeros(shared) if out is None else out
                out = self._add(out, group, used, shared, rows, columns)
        return out

    def take(self, index: Index) -> DeviceKernels:
        """The same kernels on some of the rows."""
        chosen = self.device.put(index)

        def pick(values: DeviceArray) -> DeviceArray:
            return self.device.pick(values, chosen)

        groups = [
            RowGroup(
                pick(group.values),
                group.curves,
                {f: pick(values) for f, values in group.added.items()},
                {f: pick(values) for f, values in group.scales.items()},
            )
            for group in self.groups
        ]
        diagonals = self.diagonals[index]
        return RowKernels(self.device, groups, diagonals, self.dtype, self.room)

    def _shared(self, group: RowGroup, rows: Chosen, columns: Chosen) -> DeviceArray:
        """Inner products."""
        pick = self.device.pick
        return pick(group.values, rows) @ pick(group.values, columns).T

    def _zeros(self, like: DeviceArray) -> DeviceArray:
        return self.device.xp.zeros_like(like, dtype=self.device.dtype(self.dtype))

    def _add(
        self,
        out: DeviceArray,
        group: RowGroup,
        weights: dict[int, float],
        shared: DeviceArray,
        rows: Chosen,
        columns: Chosen,
    ) -> DeviceArray:
        """out + sum_f weights_f K_f of a group, from its inner products."""
        pick, used = self.device.pick, list(weights)
        left = [
            (added, scale * weights[f])
            for f, (added, scale) in zip(
                used, group.terms(lambda x: pick(x, rows), used), strict=True
            )
        ]
        right = group.terms(lambda x: pick(x, columns), used)
        curves = [group.curves[f] for f in used]
        return self.device.add_curves(out, shared, curves, left, right)


def on_rows(kernels: KernelSet) -> bool:
    """Whether all the kernels are curves of inner products of dense rows."""
    return all(
        has_curves(group, kernels) and isinstance(group.rows.values, np.ndarray)
        for group in kernels.groups
    )


def _row_group(device: Device, kernels: KernelSet, group: Group) -> RowGroup:
    everything = kernels.ids(group, slice(0, kernels.n_reference))
    rows = group.reference(everything)
    found = RowGroup(device.put(rows.values), {}, {}, {})
    for f in group.members:
        own, scaling = curve(kernels.kernels[f]), kernels.scalings[f]
        assert own is not None
        added, scale = terms(kernels.kernels[f], own, rows, scaling.side(everything))
        # Constants go to one side of each pair, or to both in equal parts.
        added, scale = added + 0.5 * own.offset, scale * np.sqrt(scaling.factor)
        found.curves[f] = Curve(own.slope, own.degree)
        found.added[f] = device.put(added, rows.values.dtype)
        found.scales[f] = device.put(scale, rows.values.dtype)
    return found
