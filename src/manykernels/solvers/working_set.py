"""The frozen-weight problem on some of the rows."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from manykernels.banks.base import Bank
from manykernels.base.arrays import Array, Index
from manykernels.hot.dual import best_stretch, frozen_values
from manykernels.losses.classification import margins
from manykernels.solvers.device_blocks import FEW_ROWS, DeviceBlocks
from manykernels.solvers.host_sweeps import (
    SWEEPS,
    HostSweeps,
    active_rows,
    rows_at_work,
)
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem

EXACTLY = 0.0  # precision of a multiple, as far as floats go
EPS = 0.5 * float(np.finfo(np.float64).eps)  # of one rounding


class Sums(NamedTuple):
    """Primal and dual value of a frozen problem, and the dual's linear part."""

    linear: float  # of the own coefficients
    primal: float  # of the best multiple of the model
    dual: float


class Frozen(Protocol):
    """The dual problem with one combined kernel K, wherever that lives."""

    weights: Array

    @property
    def owners(self) -> Index:
        """Rows that were combined because they were asked for, in their order."""

    def begin(self, weights: Array) -> None:
        """A round with these weights; another combination unless they are the same."""

    def hold(self, rows: Index) -> None:
        """Combine these rows in this order."""

    def scores(self, coef: Array) -> Array:
        """(K coef)' in float64, shape (outputs, rows)."""

    def ascend(self, coef: Array, scores: Array, goal: float) -> int:
        """Improve coef and its scores in place, towards a gap; returns updates."""


def _frozen(
    bank: Bank, target: Index, bound: Array, rng: np.random.Generator, most: int
) -> Frozen:
    """Where the kernels are, unless the rows are too few to be worth a device."""
    there = bank.on_device()
    if there is None or bank.n_rows <= FEW_ROWS:
        return HostSweeps(bank, target, bound, rng, active_rows(most, bank.n_rows))
    return DeviceBlocks(there, target, bound)


def most_rows(bank: Bank, n_active: int) -> int:
    """Rows of a working set that memory allows if so many of them can change."""
    most = bank.max_combined_rows
    return most if bank.on_device() is not None else rows_at_work(most, n_active)


class WorkingSet:
    """The problem on some of the rows, with one combined kernel."""

    def __init__(
        self,
        problem: Problem,
        rows: Index,
        coef: Array,
        rng: np.random.Generator,
        brief: bool = False,
    ) -> None:
        bank = problem.bank
        if len(rows) < problem.n_rows:
            bank = bank.take(rows, brief)
        self.bank: Bank = bank
        self.doubt = Doubt(self.bank)
        self.target = problem.target[rows]
        self.bound = problem.bound[rows]
        self.coef = coef[rows]
        most = problem.bank.max_combined_rows
        self.kernel = _frozen(bank, self.target, self.bound, rng, most)
        self.scores: Array = np.zeros(self.coef.shape).T
        self.sums = Sums(0.0, 0.0, 0.0)
        self.solved = False  # whether the last frozen problem reached its goal

    def ascend(self, weights: Array, goal: float) -> int:
        """Solve the problem with these weights to a relative gap; returns updates."""
        self.adopt(self.coef, weights)
        updates = 0
        for _ in range(SWEEPS):
            updates += self.kernel.ascend(self.coef, self.scores, goal)
            self._sum()
            self.solved = relative_gap(self.sums.primal, self.sums.dual) <= goal
            if self.solved:
                break
        return updates

    def adopt(self, coef: Array, weights: Array) -> None:
        """Go on from these coefficients and kernel weights."""
        self.coef = coef
        self.kernel.begin(weights)
        self.scores = self.kernel.scores(coef)
        self._sum()

    def hold(self, rows: Index, weights: Array) -> None:
        """Combine the rows that an interrupted search held.

        Its sums go over the rows in this order: others would be rounded otherwise.
        """
        self.kernel.begin(weights)
        self.kernel.hold(rows)

    def _sum(self) -> None:
        no_drift, found = np.zeros_like(self.scores), np.empty(len(self.target))
        linear, quadratic = frozen_values(
            self.target, self.coef, self.scores, no_drift, found
        )
        _, primal = best_stretch(found, self.bound, quadratic, EXACTLY)
        self.sums = Sums(linear, primal, linear - 0.5 * quadratic)


class Doubt:
    """What float64 leaves uncertain of products with large values that cancel.

    A product of K_f and coef has terms of up to ||coef_i|| sqrt(K_f(i, i) K_f(j, j)),
    and is known to the last digit of their sum. A certificate must not rest on less.
    """

    def __init__(self, bank: Bank) -> None:
        self.roots = np.sqrt(np.maximum(bank.diagonals(), 0.0))  # (rows, blocks)

    def of_margins(self, coef: Array, weights: Array) -> Array:
        """Of the margin of every row, of two scores.

        Fourfold: coefficients and weights are rounded again as they become a model.
        """
        return np.asarray(self.roots @ (8.0 * EPS * weights * self._sums(coef)))

    def longer(self, coef: Array, theta_norms: Array) -> Array:
        """Norms ||theta_f|| that are at least the true ones."""
        return np.sqrt(np.square(theta_norms) + EPS * np.square(self._sums(coef)))

    def _sums(self, coef: Array) -> Array:
        return np.asarray(np.linalg.norm(coef, axis=1) @ self.roots)


def stretched(
    scores: Array,
    target: Index,
    bound: Array,
    norm_value: float,
    doubt: Array | float = 0.0,
) -> tuple[float, float]:
    """The best multiple of a model with the hinge loss, and its value times C W.

    Parameters
    ----------
    scores : array of shape (rows, outputs)
    target, bound : array of shape (rows,)
        Labels, and the weights of the losses.
    norm_value : float
        The regularizer of the model itself.
    doubt : array of shape (rows,), optional
        By how much less the margins may be.
    """
    least = margins(scores, target) - doubt
    stretch, value = best_stretch(least, bound, 2.0 * norm_value, EXACTLY)
    return float(stretch), float(value)
