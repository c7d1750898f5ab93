"""Forward selection of kernels by leave-one-out predictions of least-squares SVMs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.banks import Bank
from manykernels.base.arrays import Array, Index
from manykernels.losses import Squared
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.leave_one_out import held_out_residuals


class Step(NamedTuple):
    """What a set of kernels predicts of rows left out; better ones compare greater."""

    accuracy: float
    closeness: float  # minus the mean squared residual; decides ties
    position: int  # of the kernel that was added last


def select_forward(
    bank: Bank, target: Index, weight: Array, C: float, limit: int | None = None
) -> list[Step]:
    """Add the kernel that helps the mean of the chosen most, until none helps.

    Parameters
    ----------
    bank : Bank
    target : array of shape (rows,)
        Classes, counted from 0.
    weight : array of shape (rows,)
    C : float
    limit : int, optional
        Kernels at most.
    """
    problem = _least_squares(bank, target, weight, C)
    chosen: list[Step] = []
    while len(chosen) < (limit or bank.n_blocks):
        taken = [step.position for step in chosen]
        left = [f for f in range(bank.n_blocks) if f not in taken]
        tried = [_judge(problem, target, [*taken, f]) for f in left]
        # The first of equals.
        best = max(tried, key=lambda step: step[:2], default=None)
        if best is None or (chosen and best[:2] <= chosen[-1][:2]):
            break
        chosen.append(best)
    return chosen


def _least_squares(bank: Bank, target: Index, weight: Array, C: float) -> Problem:
    indicator = np.eye(int(target.max()) + 1)[target]
    centered = indicator - np.average(indicator, axis=0, weights=weight)
    norm, n_outputs = LpGroupNorm(1.0), centered.shape[1]
    return Problem(bank, centered, n_outputs, Squared(), norm, C, weight)


def _judge(problem: Problem, target: Index, kernels: list[int]) -> Step:
    """Leave-one-out scores of the mean of some kernels."""
    weights = np.zeros(problem.bank.n_blocks)
    weights[kernels] = 1.0 / len(kernels)
    residuals = held_out_residuals(problem, weights, centered=True)
    # The target less the residual, with the share of the class put back.
    own = np.eye(problem.n_outputs)[target]
    right = np.argmax(own - residuals, axis=1) == target
    rows = problem.sample_weight
    squares = np.sum(residuals**2, axis=1)
    accuracy = float(np.average(right, weights=rows))
    return Step(accuracy, -float(np.average(squares, weights=rows)), kernels[-1])
