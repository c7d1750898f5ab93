"""Forward selection of kernels by a leave-one-out error in closed form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from manykernels.banks import Bank
from manykernels.base.arrays import Array, Index
from manykernels.base.machine import require_memory
from manykernels.base.stored import Floats, Wholes
from manykernels.compare.combinations.base import (
    CombinationData,
    CombinedKernelClassifier,
)
from manykernels.inputs.parameters import Whole
from manykernels.losses import Squared
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ridge import held_out_residuals

LEAVE_ONE_OUT_MATRICES = 4  # of all pairs of rows, in float64, for one factor


class SelectionStep(NamedTuple):
    """Leave-one-out accuracy of a set of kernels; better sets compare greater."""

    accuracy: float
    closeness: float  # minus the mean squared residual; decides ties
    position: int  # of the kernel that was added last


def select_forward(
    problem: Problem, target: Index, counts: Array, limit: int | None = None
) -> list[SelectionStep]:
    """Add the kernel that improves the mean kernel most, until none does.

    Parameters
    ----------
    problem : Problem
        Least squares, see `least_squares`.
    target : array of shape (rows,)
        Classes, counted from 0.
    counts : array of shape (rows,)
        How many rows a row stands for; one of them is left out.
    limit : int, optional
        Kernels at most.
    """
    bank = problem.bank
    chosen: list[SelectionStep] = []
    while len(chosen) < (limit or bank.n_blocks):
        taken = [step.position for step in chosen]
        left = [f for f in range(bank.n_blocks) if f not in taken]
        tried = [_judge(problem, target, counts, [*taken, f]) for f in left]
        # The first of equals.
        best = max(tried, key=lambda step: step[:2], default=None)
        if best is None or (chosen and best[:2] <= chosen[-1][:2]):
            break
        chosen.append(best)
    return chosen


def least_squares(bank: Bank, target: Index, weight: Array, C: float) -> Problem:
    """The least-squares SVM: ridge regression of the classes less their shares."""
    indicator = np.eye(int(target.max()) + 1)[target]
    centered = indicator - np.average(indicator, axis=0, weights=weight)
    norm, n_outputs = LpGroupNorm(1.0), centered.shape[1]
    return Problem(bank, centered, n_outputs, Squared(), norm, C, weight)


def _judge(
    problem: Problem, target: Index, counts: Array, kernels: list[int]
) -> SelectionStep:
    """Leave-one-out scores of the mean of some kernels."""
    weights = np.zeros(problem.bank.n_blocks)
    weights[kernels] = 1.0 / len(kernels)
    residuals = held_out_residuals(problem, weights, True, counts)
    # The target less the residual, with the share of the class put back.
    own = np.eye(problem.n_outputs)[target]
    right = np.argmax(own - residuals, axis=1) == target
    rows = problem.sample_weight
    squares = np.sum(residuals**2, axis=1)
    accuracy = float(np.average(right, weights=rows))
    return SelectionStep(
        accuracy, -float(np.average(squares, weights=rows)), kernels[-1]
    )


class LeaveOneOutKernelClassifier(CombinedKernelClassifier):
    r"""An SVM on the mean of kernels chosen by leave-one-out errors.

    Starting from none, the kernel is added that gives the mean of the chosen ones the
    highest leave-one-out accuracy, until none does better. The accuracy is that of a
    least-squares SVM, where it has a closed form: one Cholesky factor of the rows for
    every kernel that is tried. A row of weight 3 stands for three rows, one of which is
    left out.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    max_kernels : int, optional
        Kernels to choose at most; None for no bound.
    C : float, default=1.0
        Weight of the losses, squared ones for the choice and hinge losses then.
    tol, max_iter, class_weight, psd, storage, memory_limit : see `MKLClassifier`
    verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    selected_ : array of int
        Positions of the chosen kernels, in the order of their choice.
    loo_scores_ : array of shape (n_selected,)
        Leave-one-out accuracy of the least-squares SVM after every choice.
    kernel_weights_ : array of shape (n_kernels,)
        1 / n_selected for chosen kernels, 0 for the others.
    kernel_views_ : see MKLClassifier
    kernel_names_, classes_, dual_coef_, support_, objective_ : see `MKLClassifier`
    duality_gap_, history_, n_iter_, temperature_, n_features_in_ : see `MKLClassifier`
    feature_names_in_ : see `MKLClassifier`

    References
    ----------
    Cawley (2006), Leave-one-out cross-validation based model selection criteria for
    weighted LS-SVMs; Orabona, Jie and Caputo (2010), Online-batch strongly convex
    multi kernel learning, choose kernels in this way.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LeaveOneOutKernelClassifier("rbf@0; rbf@1; rbf@2; rbf@3", C=10)
    >>> float(model.fit(X, y).kernel_weights_[1])
    0.0
    """

    _rules = {
        **CombinedKernelClassifier._rules,
        "max_kernels": Whole(optional=True, example=5),
    }

    _stored = {
        **CombinedKernelClassifier._stored,
        "selected_": Wholes("selected", low=0),
        "loo_scores_": Floats("selected", low=0.0),
    }

    def __init__(
        self,
        kernels: Any = None,
        max_kernels: int | None = None,
        C: float = 1.0,
        **shared: Any,
    ) -> None:
        super().__init__(kernels, C, **shared)
        self.max_kernels = max_kernels

    def _find_weights(self, data: CombinationData) -> Array:
        n_rows = data.bank.n_rows
        what = f"leaving out each of {n_rows} rows"
        require_memory(LEAVE_ONE_OUT_MATRICES * 8 * n_rows**2, self.memory_limit, what)
        rows = data.targets
        problem = least_squares(data.bank, rows.target, rows.weight, self.C)
        counts = np.ones(n_rows) if data.counts is None else data.counts
        found = select_forward(problem, rows.target, counts, self.max_kernels)
        self.selected_ = np.array([step.position for step in found])
        self.loo_scores_ = np.array([step.accuracy for step in found])
        weights = np.zeros(data.bank.n_blocks)
        weights[self.selected_] = 1.0
        return weights
