"""Kernel values from rows on a device, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from manykernels.banks.device_kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import Device, DeviceArray
from manykernels.device.base import Chosen, Curve
from manykernels.kernels.kernel_scaling import RowScaling
from manykernels.kernels.kernel_set import Group, KernelSet

ScalingOf: TypeAlias = Callable[[int, Any], RowScaling]  # of a kernel's rows


@dataclass
class RowGroup:
    """Rows on the columns that some kernels share, and the kernels' terms.

    k_f(x, y) = s_f(x) s_f(y) g_f(slope_f <x, y> + l_f(x) + l_f(y)).
    """

    values: DeviceArray  # (rows, columns)
    curves: dict[int, Curve]  # g and slope of every kernel
    added: dict[int, DeviceArray]  # l, (rows,)
    scales: dict[int, DeviceArray]  # s, (rows,)


class RowKernels(DeviceKernels):
    """Kernels that are curves of inner products, from the rows themselves.

    Kernels on the same columns share the inner products of a tile.

    Parameters
    ----------
    device : Device
    groups : list of RowGroup
    diagonals : array of shape (rows, blocks)
    dtype : dtype
    bytes_free : int
    """

    def __init__(
        self,
        device: Device,
        groups: list[RowGroup],
        diagonals: Array,
        dtype: Any,
        bytes_free: int,
    ) -> None:
        super().__init__(device, diagonals, dtype, bytes_free)
        self.groups = groups

    @classmethod
    def of(cls, device: Device, kernels: KernelSet, bytes_free: int) -> RowKernels:
        """From fitted kernels that all have curves, see `on_rows`.

        Kernels that the set does not evaluate are zero.
        """
        groups = [_reference(device, kernels, group) for group in kernels.groups]
        diagonals = np.zeros((kernels.n_reference, kernels.n_kernels))
        for group in kernels.groups:
            ids = kernels.ids(group, slice(0, kernels.n_reference))
            for f in group.members:
                diagonals[:, f] = kernels.scalings[f].diagonal[ids]
        return cls(device, groups, diagonals, kernels.dtype, bytes_free)

    def tiles(self, rows: Chosen, columns: Chosen) -> Iterator[tuple[int, DeviceArray]]:
        for group in self.groups:
            left, right = self._side(group, rows), self._side(group, columns)
            shared = left.values @ right.values.T
            for f in group.curves:
                out = self._zeros(shared)
                yield f, self._add(out, {f: 1.0}, shared, left, right)

    def combined(
        self, weights: Array, rows: Chosen = EVERY, columns: Chosen = EVERY
    ) -> DeviceArray:
        return self.against(self.groups, weights, rows, columns)

    def against(
        self,
        others: list[RowGroup],
        weights: Array,
        rows: Chosen = EVERY,
        columns: Chosen = EVERY,
    ) -> DeviceArray:
        """sum_f weights_f k_f between some rows of others and some of these rows."""
        out: Any = None
        for other, group in zip(others, self.groups, strict=True):
            used = {f: float(weights[f]) for f in group.curves if weights[f] != 0.0}
            # Without any weight the last group still gives zeros of the right shape.
            if used or (out is None and group is self.groups[-1]):
                left, right = self._side(other, rows), self._side(group, columns)
                shared = left.values @ right.values.T
                out = self._zeros(shared) if out is None else out
                out = self._add(out, used, shared, left, right)
        return out

    def new_rows(self, kernels: KernelSet, X: Any) -> list[RowGroup]:
        """New rows of a table, prepared for `against` these."""
        prepared = []
        for group, rows in zip(kernels.groups, kernels.new_rows(X), strict=True):
            scaling_of = partial(kernels.scaling_of_new, group)
            prepared.append(_row_group(self.device, kernels, group, rows, scaling_of))
        return prepared

    def take(self, index: Index) -> DeviceKernels:
        chosen = self.device.put(index)
        groups = [self._side(group, chosen) for group in self.groups]
        diagonals = self.diagonals[index]
        return RowKernels(self.device, groups, diagonals, self.dtype, self.bytes_free)

    def _side(self, group: RowGroup, chosen: Chosen) -> RowGroup:
        """Some of the rows."""
        if isinstance(chosen, slice) and chosen == EVERY:
            return group
        pick = self.device.pick
        return RowGroup(
            pick(group.values, chosen),
            group.curves,
            {f: pick(values, chosen) for f, values in group.added.items()},
            {f: pick(values, chosen) for f, values in group.scales.items()},
        )

    def _zeros(self, like: DeviceArray) -> DeviceArray:
        return self.device.xp.zeros_like(like, dtype=self.device.dtype(self.dtype))

    def _add(
        self,
        out: DeviceArray,
        weights: dict[int, float],
        shared: DeviceArray,
        left: RowGroup,
        right: RowGroup,
    ) -> DeviceArray:
        """out + sum_f weights_f K_f of a group, from its inner products."""
        used = list(weights)
        rows = [(left.added[f], left.scales[f] * weights[f]) for f in used]
        columns = [(right.added[f], right.scales[f]) for f in used]
        curves = [right.curves[f] for f in used]
        return self.device.add_curves(out, shared, curves, rows, columns)


def on_rows(kernels: KernelSet) -> bool:
    """Whether all the kernels are curves of inner products of dense rows."""
    return all(
        kernels.has_curves(group) and isinstance(group.rows.values, np.ndarray)
        for group in kernels.groups
    )


def _row_group(
    device: Device, kernels: KernelSet, group: Group, rows: Any, scaling_of: ScalingOf
) -> RowGroup:
    """Rows of a group on the device, with the terms of its kernels."""
    dtype = group.rows.values.dtype
    group_rows = RowGroup(device.put(rows.values, dtype), {}, {}, {})
    for f in group.members:
        kernel = kernels.kernels[f]
        curve = kernel.curve()
        assert curve is not None
        added, scale = rows.curve_terms(kernel, scaling_of(f, rows).norms)
        # Constants go to both sides of a pair in equal parts.
        added = added + 0.5 * curve.offset
        scale = scale * np.sqrt(kernels.scalings[f].factor)
        group_rows.curves[f] = Curve(curve.slope, curve.degree)
        group_rows.added[f] = device.put(added, dtype)
        group_rows.scales[f] = device.put(scale, dtype)
    return group_rows


def _reference(device: Device, kernels: KernelSet, group: Group) -> RowGroup:
    """The reference rows of a group."""
    ids = kernels.ids(group, slice(0, kernels.n_reference))

    def scaling_of(f: int, rows: Any) -> RowScaling:
        return kernels.scalings[f].of_rows(ids)

    return _row_group(device, kernels, group, group.reference(ids), scaling_of)
