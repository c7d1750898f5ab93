"""Kernel values from rows on a device, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen
from manykernels.kernels import KernelSet
from manykernels.kernels.fitted import Group
from manykernels.kernels.fused import EXPONENTIAL, Curve, curve, has_curves, terms


@dataclass
class CurveTerms:
    """k(x, y) = s(x) s(y) g(slope <x, y> + l(x) + l(y)) - m(x) - m(y) of one kernel.

    g is a power or an exponential; m, where a kernel is centered, is in the terms.
    """

    curve: Curve
    factor: float
    added: DeviceArray  # l, (rows,)
    scale: DeviceArray  # s, (rows,)


@dataclass
class RowGroup:
    """Rows on the columns that some kernels share, and the kernels' terms."""

    values: DeviceArray  # (rows, columns)
    members: dict[int, CurveTerms]


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
            for f, member in group.members.items():
                yield f, self._values(member, 1.0, shared, rows, columns)

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        """sum_f weights_f K_f between some rows and others."""
        out: Any = None
        for group in self.groups:
            used = [f for f in group.members if weights[f] != 0.0]
            shared = self._shared(group, rows, columns) if used else None
            for f in used:
                weight = float(weights[f])
                own = self._values(group.members[f], weight, shared, rows, columns)
                out = own if out is None else _added(out, own)
        if out is None:  # no kernel has a weight
            shared = self._shared(self.groups[0], rows, columns)
            return self.device.xp.zeros_like(shared)
        return out

    def take(self, index: Index) -> DeviceKernels:
        """The same kernels on some of the rows."""
        chosen, pick = self.device.put(index), self.device.pick
        groups = [
            RowGroup(
                pick(group.values, chosen),
                {
                    f: CurveTerms(
                        own.curve,
                        own.factor,
                        pick(own.added, chosen),
                        pick(own.scale, chosen),
                    )
                    for f, own in group.members.items()
                },
            )
            for group in self.groups
        ]
        diagonals = self.diagonals[index]
        return RowKernels(self.device, groups, diagonals, self.dtype, self.room)

    def _shared(self, group: RowGroup, rows: Chosen, columns: Chosen) -> DeviceArray:
        """Inner products."""
        pick = self.device.pick
        return pick(group.values, rows) @ pick(group.values, columns).T

    def _values(
        self,
        member: CurveTerms,
        weight: float,
        shared: DeviceArray,
        rows: Chosen,
        columns: Chosen,
    ) -> DeviceArray:
        """weight * K_f, from the inner products."""
        xp, pick, found = self.device.xp, self.device.pick, member.curve
        values = shared * found.slope
        values += pick(member.added, rows)[:, None] + found.offset
        values += pick(member.added, columns)[None, :]
        if found.degree == EXPONENTIAL:
            # Rounding may leave a tiny positive number between equal rows.
            values = xp.exp(xp.minimum(values, xp.zeros_like(values)))
        elif found.degree > 1:
            values = _power(values, found.degree)
        values *= pick(member.scale, rows)[:, None] * (weight * member.factor)
        values *= pick(member.scale, columns)[None, :]
        return xp.astype(values, self.device.dtype(self.dtype), copy=False)


def on_rows(kernels: KernelSet) -> bool:
    """Whether all the kernels are curves of inner products of dense rows."""
    return all(
        has_curves(group, kernels) and isinstance(group.rows.values, np.ndarray)
        for group in kernels.groups
    )


def _row_group(device: Device, kernels: KernelSet, group: Group) -> RowGroup:
    everything = kernels.ids(group, slice(0, kernels.n_reference))
    rows = group.reference(everything)
    dtype = rows.values.dtype
    members = {}
    for f in group.members:
        scaling = kernels.scalings[f]
        found = curve(kernels.kernels[f])
        assert found is not None
        added, scale = terms(kernels.kernels[f], found, rows, scaling.side(everything))
        there = device.put(added, dtype), device.put(scale, dtype)
        members[f] = CurveTerms(found, scaling.factor, *there)
    return RowGroup(device.put(rows.values), members)


def _power(values: DeviceArray, degree: int) -> DeviceArray:
    """values ** degree for a whole number, by repeated squaring."""
    if degree == 1:
        return values
    half = _power(values * values, degree // 2)
    return half * values if degree % 2 else half


def _added(total: DeviceArray, more: DeviceArray) -> DeviceArray:
    total += more
    return total
