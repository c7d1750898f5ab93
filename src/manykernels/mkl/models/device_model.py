"""Predictions of a fitted model on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.banks.device_kernels import EVERY
from manykernels.banks.row_kernels import RowGroup, RowKernels, on_rows
from manykernels.base.arrays import Array
from manykernels.device import Device, DeviceArray
from manykernels.kernels.kernel_set import KernelSet
from manykernels.kernels.matrices import is_device_matrix
from manykernels.mkl.models.model import BlockModel, Model


class SupportRows:
    """A model's support rows and coefficients on a device.

    Parameters
    ----------
    model : BlockModel or FeatureModel
    device : Device
    """

    def __init__(self, model: Model, device: Device) -> None:
        self.device = device
        self.coef = device.precisely(device.put(model.coef))
        # The kernels that have a weight, where their rows are all that they need.
        self.kernels = _used_on_rows(model)
        if self.kernels is not None:
            room = device.allowed_bytes(None)
            self.rows = RowKernels.of(device, self.kernels, room)


class DeviceModel:
    """The scores of new rows, from support rows that wait on the device.

    Kernel values have the precision of training, sums the longest of the device. What
    is computed on the processor only (features, kernels that are no curves of inner
    products, a kernel's own part) comes from the model itself.

    Parameters
    ----------
    model : BlockModel, FeatureModel or NuggetModel
    support : SupportRows
    """

    def __init__(self, model: Any, support: SupportRows) -> None:
        self.whole, self.support = model, support
        self.model: Model = model.without_nugget  # which has the same scores
        self.device, self.coef = support.device, support.coef

    def scores(self, X: Any, block_bytes: int) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        if isinstance(X, list) and X and all(map(is_device_matrix, X)):
            return self._given_scores(X)
        kernels = self.support.kernels
        if kernels is None or not len(self.model.coef):
            return self.model.scores(X, block_bytes)
        rows, weights = self.support.rows, self.model.weights
        new = rows.new_rows(kernels, X)
        parts = rows.parts(slice(0, new[0].values.shape[0]))
        scores = [self._part(new, weights, part) for part in parts]
        return np.concatenate([np.empty((0, self.coef.shape[1])), *scores])

    def block_scores(self, X: Any, block_bytes: int) -> Array:
        """Each kernel's part of the scores, shape (rows, kernels, outputs)."""
        parts: Array = self.whole.block_scores(X, block_bytes)
        return parts

    def _part(self, new: list[RowGroup], weights: Array, rows: slice) -> Array:
        """Of some of the new rows; weights of their own, where outputs have them."""
        if weights.ndim == 1:
            return self._combined(new, weights, rows, self.coef)
        columns = [
            self._combined(new, own, rows, self.coef[:, k : k + 1])
            for k, own in enumerate(weights)
        ]
        return np.concatenate(columns, axis=1)

    def _combined(
        self, new: list[RowGroup], weights: Array, rows: slice, coef: DeviceArray
    ) -> Array:
        tile = self.support.rows.against(new, weights, rows, EVERY)
        scores = self.device.get(self.device.precisely(tile) @ coef)
        return np.asarray(scores, np.float64)

    def _given_scores(self, matrices: list[Any]) -> Array:
        """From kernel values on the device, (rows, training rows) for every kernel."""
        model, device = self.model, self.device
        support, total = device.put(np.asarray(model.kernels.support), np.int64), 0.0
        groups: list[Any] = list(model.kernels.groups)
        for group in groups:
            for f in group.members:
                weights = model.weights[..., f] * model.kernels.scalings[f].factor
                if np.any(weights):
                    values = device.pick(
                        matrices[group.position].device_array, support, 1
                    )
                    own = device.precisely(device.put(np.atleast_1d(weights)))
                    scaled = self.coef * own
                    total = total + device.precisely(values) @ scaled
        return np.asarray(device.get(total), np.float64)


def on_device(model: Any, device: Device) -> DeviceModel:
    """The model on a device; its rows stay for the next call, but not in copies."""
    ordinary = model.without_nugget
    kept: SupportRows | None = vars(ordinary).get("device_rows")
    if kept is None or kept.device is not device:
        kept = vars(ordinary)["device_rows"] = SupportRows(ordinary, device)
    return DeviceModel(model, kept)


def _used_on_rows(model: Model) -> KernelSet | None:
    """The kernels that some output gives a weight, where rows are all they need."""
    if not isinstance(model, BlockModel) or model.kernels.are_given:
        return None
    used = np.flatnonzero(np.atleast_2d(model.weights).any(axis=0))
    kernels = model.kernels.only(used)
    return kernels if on_rows(kernels) else None
