"""Which kernels look useful, before any of them are learned together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import type_of_target

from manykernels.banks import Bank, Storage, build_bank
from manykernels.banks.centered_alignment import alignments, target_alignments
from manykernels.base.tables import count_rows
from manykernels.inputs.parameters import OneOf, require_number
from manykernels.inputs.row_matching import match_rows
from manykernels.inputs.table import RowsEstimator
from manykernels.kernels.base import reads_matrices
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import Squared
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ridge import held_out_residuals
from manykernels.targets import Labels, Values

RANKING_TASKS = ("auto", "classification", "regression")


class KernelRank(NamedTuple):
    """A kernel, how well it does on its own, and its position among those given."""

    name: str
    score: float
    position: int


class _Goal(NamedTuple):
    """What is to be predicted, as numbers."""

    values: np.ndarray  # (rows, outputs), less the mean
    labels: np.ndarray | None  # (rows,) positions of the classes


def rank_kernels(
    X: Any,
    y: Any,
    kernels: Any = None,
    method: str = "alignment",
    *,
    task: str = "auto",
    C: float = 1.0,
    psd: Any = "check",
    storage: Storage | str = "auto",
    memory_limit: int | str | None = None,
    random_state: int | None = None,
) -> list[KernelRank]:
    """Kernels from the best to the worst, each judged on its own.

    Parameters
    ----------
    X : table (array, CSR, data frame) or kernel matrices
    y : array of shape (n,) or (n, n_targets)
        Labels or numbers.
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    method : {"alignment", "loo"}, default="alignment"
        "alignment" is the centered alignment with the target, between 0 and 1. "loo" is
        the leave-one-out score of a least-squares SVM with this kernel alone, in closed
        form: the accuracy for labels, R^2 for numbers.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds labels; "auto" takes whole numbers and text for labels.
    C : float, default=1.0
        Weight of the losses for "loo".
    psd, storage, memory_limit, random_state : see `MKLClassifier`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> [rank.name for rank in rank_kernels(X, y, "rbf@0; rbf@1; rbf@2; rbf@3")][-1]
    'rbf@1'
    """
    OneOf(*RANKING_METHODS).check("method", method)
    C = require_number("C", C, 0.0)
    X, y, fitted = fitted_kernels(X, y, kernels, psd, random_state)
    goal = _goal(X, y, task)
    bank = build_bank(fitted, storage, memory_limit)
    scores = RANKING_METHODS[method](bank, goal, C)
    # The last key of lexsort is the first that counts.
    order = np.lexsort([-column for column in scores.T[::-1]])
    return [KernelRank(bank.names[f], float(scores[f, 0]), int(f)) for f in order]


def kernel_alignments(
    X: Any,
    kernels: Any = None,
    *,
    psd: Any = "check",
    storage: Storage | str = "auto",
    memory_limit: int | str | None = None,
    random_state: int | None = None,
) -> np.ndarray:
    """Centered alignment between all pairs of kernels, shape (n_kernels, n_kernels).

    Kernels with an alignment near 1 hold the same information; one may go.

    Parameters
    ----------
    X : table (array, CSR, data frame) or kernel matrices
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    psd, storage, memory_limit, random_state : see `MKLClassifier`

    Examples
    --------
    >>> kernel_alignments([[0.0], [1.0], [3.0]], "linear; rbf").shape
    (2, 2)
    """
    *_, fitted = fitted_kernels(X, None, kernels, psd, random_state)
    return alignments(build_bank(fitted, storage, memory_limit))


class _Reader(RowsEstimator):
    """Remembers the names of the columns."""

    def __init__(self, kernels: Any = None) -> None:
        self.kernels = kernels


def fitted_kernels(
    X: Any, y: Any, kernels: Any, psd: Any, random_state: int | None
) -> tuple[Any, Any, KernelSet]:
    """X and y as they are read, and the kernels on these rows."""
    holder = _Reader(kernels)
    if not reads_matrices(kernels):
        X, y = match_rows(X, y)
    specs = holder._specs(X)
    X = holder._read_training(X, specs, min_rows=2)
    if not isinstance(X, list):
        X = holder._prepare(X, np.ones(X.shape[0]))
    fitted = KernelSet.fit(
        specs,
        X,
        feature_names=getattr(holder, "feature_names_in_", None),
        dtype=np.float64,
        psd=psd,
        random_state=random_state,
    )
    return X, y, fitted


def _goal(X: Any, y: Any, task: str) -> _Goal:
    OneOf(*RANKING_TASKS).check("task", task)
    if task == "auto" and y is not None:
        labels = type_of_target(y) in ("binary", "multiclass")
        task = "classification" if labels else "regression"
    if task == "regression":
        return _Goal(Values.of(y, n_rows=count_rows(X)).target, None)
    rows = Labels.of(y, n_rows=count_rows(X))
    indicator = np.eye(len(rows.classes))[rows.target]
    return _Goal(indicator - indicator.mean(axis=0), rows.target)


def _aligned(bank: Bank, goal: _Goal, C: float) -> np.ndarray:
    return target_alignments(bank, goal.values)[:, None]


def _left_out(bank: Bank, goal: _Goal, C: float) -> np.ndarray:
    """Leave-one-out scores of every kernel alone; later columns decide ties."""
    n_rows, n_outputs = goal.values.shape
    norm, weight = LpGroupNorm(1.0), np.ones(n_rows)
    problem = Problem(bank, goal.values, n_outputs, Squared(), norm, C, weight)
    scores = []
    for alone in np.eye(bank.n_blocks):
        residuals = held_out_residuals(problem, alone, centered=True)
        of_kernel = [_r_squared(goal.values, residuals)]
        if goal.labels is not None:
            of_kernel = [_accuracy(goal, goal.values - residuals), *of_kernel]
        scores.append(of_kernel)
    return np.array(scores)


def _r_squared(values: np.ndarray, residuals: np.ndarray) -> float:
    total = np.sum(values**2, axis=0)
    total = np.where(total > 0.0, total, 1.0)
    return float(np.mean(1.0 - np.sum(residuals**2, axis=0) / total))


def _accuracy(goal: _Goal, predicted: np.ndarray) -> float:
    # Columns have the mean taken off, which is the share of the class.
    scores = predicted - goal.values.min(axis=0)
    return float(np.mean(np.argmax(scores, axis=1) == goal.labels))


RANKING_METHODS: dict[str, Callable[[Bank, _Goal, float], np.ndarray]] = {
    "alignment": _aligned,
    "loo": _left_out,
}
