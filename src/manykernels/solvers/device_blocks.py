"""The frozen-weight problem on a device: blocks of rows, one after the other.

The combined kernel stays on the device. A round takes the rows that violate their
optimality conditions most, solves for them by exact row steps with their part of the
kernel, and updates the scores of all rows by one thin product. Within a block only rows
take steps whose violation is large next to the block's largest: to solve a block
precisely is of no use while the others stand still, and takes ten times as many steps.
"""

from __future__ import annotations

import numpy as np

from manykernels.banks.device_kernels import DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device.base import DeviceArray, HingeBlocks
from manykernels.hot.dual import (
    best_multiple,
    block_steps,
    frozen_values,
    violations,
)

HOST_ROWS = 2048  # whose combined kernel may as well travel to the host
BLOCK_ROWS = 1024  # solved for at a time
STEP_SHARE = 0.6  # of the block's largest violation: smaller ones wait
BLOCKS_PER_GAP = 8  # blocks between two evaluations of the gap


class DeviceBlocks:
    """Dual ascent with a combined kernel that stays on a device.

    Parameters
    ----------
    kernels : DeviceKernels
    target, bound : array of shape (rows,)
        Labels, and the weights of the losses.
    """

    def __init__(self, kernels: DeviceKernels, target: Index, bound: Array) -> None:
        self.kernels = kernels
        self.device = kernels.device
        self.target, self.bound = target, bound
        shape = kernels.n_rows, kernels.n_rows
        self.matrix: DeviceArray = self.device.empty(shape, kernels.dtype)
        self.compiled: HingeBlocks | None = None
        self.weights: Array = np.zeros(0)  # nothing is combined yet

    def begin(self, weights: Array) -> None:
        if np.array_equal(weights, self.weights):
            return
        self.weights = weights
        for part in self.kernels.parts(slice(0, self.kernels.n_rows)):
            self.matrix[part, ...] = self.kernels.combined(weights, part)

    def scores(self, coef: Array) -> Array:
        device = self.device
        device_coef = device.precisely(device.put(coef))
        parts = [
            device.precisely(device.pick(self.matrix, part)) @ device_coef
            for part in self.kernels.parts(slice(0, len(coef)))
        ]
        found = device.get(device.xp.concat(parts))
        return np.ascontiguousarray(found.T, np.float64)

    def ascend(self, coef: Array, scores: Array, goal: float) -> int:
        if self.compiled is None:
            blocks = self.device.hinge_blocks(
                self.matrix, self.target, self.bound, coef.shape[1]
            )
            self.compiled = blocks or self
        updates = self.compiled.blocks(coef, scores, goal)
        scores[:] = self.scores(coef)
        return updates

    def blocks(self, coef: Array, scores: Array, goal: float) -> int:
        """The same, with the steps of a block taken on the processor."""
        updates, by_row = 0, np.ascontiguousarray(scores.T)
        for done in range(1, 1001):
            index, floor = self._worst(coef, by_row)
            before = coef[index]
            after = before.copy()
            updates += self._solve_block(index, after, by_row, floor)
            coef[index] = after
            by_row += self._products(index, after - before)
            if done % BLOCKS_PER_GAP == 0 and self._gap(coef, by_row) <= goal:
                break
        return updates

    def _worst(self, coef: Array, scores: Array) -> tuple[Index, float]:
        """Rows of the next block, the worst first, and the least violation to mend."""
        found = violations(self.target, self.bound, coef, scores)
        size = min(BLOCK_ROWS, len(found))
        chosen = np.argpartition(found, len(found) - size)[-size:]
        index = chosen[np.argsort(-found[chosen])]
        return index, STEP_SHARE * float(found[index[0]])

    def _solve_block(
        self, index: Index, coef: Array, scores: Array, floor: float
    ) -> int:
        device, device_index = self.device, self.device.put(index)
        rows = device.pick(self.matrix, device_index)
        square = device.get(device.pick(rows, device_index, axis=1))
        target, bound = self.target[index], self.bound[index]
        updates = block_steps(square, target, bound, coef, scores[index], floor, 2)
        return int(updates)

    def _products(self, index: Index, change: Array) -> Array:
        """K change, where only the rows `index` changed."""
        moved = np.abs(change).sum(axis=1) > 0.0
        rows = self.device.pick(self.matrix, self.device.put(index[moved]))
        found = rows.T @ self.device.put(change[moved], self.kernels.dtype)
        return self.device.get(found).astype(np.float64)

    def _gap(self, coef: Array, scores: Array) -> float:
        by_output, margins = np.ascontiguousarray(scores.T), np.empty(len(coef))
        no_drift = np.zeros_like(by_output)
        linear, quadratic = frozen_values(
            self.target, coef, by_output, no_drift, margins
        )
        _, primal = best_multiple(margins, self.bound, quadratic, 1e-3)
        return float((primal - linear + 0.5 * quadratic) / primal)
