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
    best_stretch,
    block_steps,
    frozen_values,
    violations,
)

FEW_ROWS = 2048  # whose combined kernel may as well travel
BLOCK = 1024  # rows solved for at a time
WORTHWHILE = 0.6  # of the block's largest violation: smaller ones wait
BLOCK_SWEEPS = 2
MOST_BLOCKS = 1000  # between two looks at the gap in float64
LOOK = 8  # blocks between two looks at the gap
ROUGHLY = 1e-3  # precision of a multiple of the model


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
        self.weights: Array = np.zeros(0)  # there is no combination yet

    def begin(self, weights: Array) -> None:
        """A round with these weights; another combination unless they are the same."""
        if np.array_equal(weights, self.weights):
            return
        self.weights = weights
        for part in self.kernels.parts(slice(0, self.kernels.n_rows)):
            self.matrix[part, ...] = self.kernels.combined(weights, part)

    def scores(self, coef: Array) -> Array:
        """(K coef)' in float64, shape (outputs, rows)."""
        device = self.device
        there = device.precisely(device.put(coef))
        parts = [
            device.precisely(device.pick(self.matrix, part)) @ there
            for part in self.kernels.parts(slice(0, len(coef)))
        ]
        found = device.get(device.xp.concat(parts))
        return np.ascontiguousarray(found.T, np.float64)

    @property
    def owners(self) -> Index:
        """All rows are combined at once: there is nothing to remember."""
        return np.empty(0, dtype=np.intp)

    def hold(self, rows: Index) -> None:
        """All rows are there."""

    def ascend(self, coef: Array, scores: Array, goal: float) -> int:
        """Improve coef and its scores in place, towards a gap; returns updates."""
        if self.compiled is None:
            data = self.matrix, self.target, self.bound, coef.shape[1]
            self.compiled = self.device.hinge_blocks(*data) or self
        updates = self.compiled.blocks(coef, scores, goal)
        scores[:] = self.scores(coef)
        return updates

    def blocks(self, coef: Array, scores: Array, goal: float) -> int:
        """The same, with the steps of a block taken on the processor."""
        updates, here = 0, np.ascontiguousarray(scores.T)
        for done in range(1, MOST_BLOCKS + 1):
            index, floor = self._worst(coef, here)
            before = coef[index]
            after = before.copy()
            updates += self._solve_block(index, after, here, floor)
            coef[index] = after
            here += self._products(index, after - before)
            if done % LOOK == 0 and self._gap(coef, here) <= goal:
                break
        return updates

    def _worst(self, coef: Array, scores: Array) -> tuple[Index, float]:
        """Rows of the next block, the worst first, and the least violation to mend."""
        found = violations(self.target, self.bound, coef, scores)
        size = min(BLOCK, len(found))
        chosen = np.argpartition(found, len(found) - size)[-size:]
        index = chosen[np.argsort(-found[chosen])]
        return index, WORTHWHILE * float(found[index[0]])

    def _solve_block(
        self, index: Index, coef: Array, scores: Array, floor: float
    ) -> int:
        device, there = self.device, self.device.put(index)
        rows = device.pick(self.matrix, there)
        square = device.get(device.pick(rows, there, axis=1))
        data = self.target[index], self.bound[index], coef, scores[index]
        return int(block_steps(square, *data, floor, BLOCK_SWEEPS))

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
        _, primal = best_stretch(margins, self.bound, quadratic, ROUGHLY)
        return float((primal - linear + 0.5 * quadratic) / primal)
