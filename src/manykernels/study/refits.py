"""Many fits of one estimator on kernels that are computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from manykernels.base.machine import one_blas_thread
from manykernels.base.quoted import quoted
from manykernels.inputs.data import TrainingLabels, TrainingValues
from manykernels.inputs.reporting import counted_steps, warn_unless_converged
from manykernels.inputs.survival import TrainingTimes
from manykernels.losses import CensoredEpsilonInsensitive
from manykernels.mkl.estimator import MKLEstimator, Training, side_by_side, solve_each
from manykernels.mkl.search import SearchMixin
from manykernels.solvers import Expansion, Problem
from manykernels.solvers.loop import require_whole

LEAST_TOL = 1e-8  # relative gap: below it the values themselves are rounded
Item = TypeVar("Item")


@dataclass(frozen=True)
class Refits:
    """An estimator's data, read once: kernels on all rows, and how to solve on some.

    Attributes
    ----------
    estimator : MKLEstimator
        A copy with the tolerance that weights need.
    data : Training
    """

    estimator: Any
    data: Training

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        tol: float,
        seed: int,
        C: float | None = None,
    ) -> Refits:
        """Check everything, and compute the kernels, precise enough for the C."""
        require_plain(estimator)
        own = clone(estimator).set_params(tol=tol, verbose=0, callback=None)
        own.set_params(checkpoint=None, warm_start=False)
        if own.random_state is None:
            own.set_params(random_state=seed)
        if own.storage == "auto":  # float32 may not carry such small gaps
            own.set_params(storage="float64")
        if C is not None:
            own.set_params(C=C)
        return cls(own, own._read(X, y, sample_weight))

    @property
    def names(self) -> list[str]:
        """Of the kernels."""
        return list(self.data.kernels.names)

    @property
    def n_rows(self) -> int:
        """Rows of positive weight."""
        return int(self.data.bank.n_rows)

    @property
    def labels(self) -> np.ndarray | None:
        """Positions of the classes, where there are classes."""
        rows = self.data.rows
        return rows.target if isinstance(rows, TrainingLabels) else None

    def on(self, index: np.ndarray) -> Refits:
        """The same on some of the rows."""
        bank = self.data.bank.subset(index)
        rows = _with_target(self.estimator, self.data.rows, index)
        return replace(self, data=self.data._replace(bank=bank, rows=rows))

    def with_targets_of(self, order: np.ndarray) -> Refits:
        """Row i gets the target, and the weight, of row order[i]."""
        rows = _with_target(self.estimator, self.data.rows, order)
        return replace(self, data=self.data._replace(rows=rows))

    def zero(self, p: float, C: float) -> Expansion:
        """A start that favors no kernel, the same whatever the target is."""
        zero: Expansion = self.estimator._problem(self.data, p, C).zero()
        return zero

    def solve(
        self, p: float, C: float, start: Expansion | None = None, sharp: bool = False
    ) -> Expansion:
        """One fit; a sharp one has as many weights of zero as the optimum has.

        A gap is small next to the objective, which for a small C consists of losses
        that no weights can change: what weights decide is the share of the norm.
        """
        problem = self.estimator._problem(self.data, p, C)
        found = self._solved(problem, start, self.estimator.tol)
        if not sharp or found.weights.ndim == 2:  # targets apart are solved exactly
            return found
        norms = found.weights * problem.theta_norms(found.coef)
        share = problem.reg * problem.norm.value(norms) / problem.objective(found)
        tol = self.estimator.tol * min(1.0, share) ** 2
        if tol >= self.estimator.tol:
            return found
        return self._solved(problem, found, max(LEAST_TOL, tol))

    def _solved(
        self, problem: Problem, start: Expansion | None, tol: float
    ) -> Expansion:
        own = copy(self.estimator)
        own.tol = tol
        solver = own._make_solver(self.data.seed)
        if getattr(own, "per_target_weights", False):
            return side_by_side(solve_each(solver, problem, start, None))
        result = require_whole(solver.solve(problem, start))
        if tol == self.estimator.tol:  # what is sharper may end at rounding
            warn_unless_converged(solver, result)
        model: Expansion = result.model
        return model


def kernel_shares(model: Expansion) -> np.ndarray:
    """Weights with a sum of one: the mean over targets where these have their own."""
    weights = np.atleast_2d(model.weights)
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)).mean(axis=0))


def side_by_side_runs(
    work: Callable[[Item], Any],
    items: Sequence[Item],
    n_jobs: int | None,
    verbose: int,
    what: str,
) -> list[Any]:
    """work(item) of every item, some at a time: threads share the kernels."""

    def one(item: Item, step: Callable[[], None]) -> Any:
        found = work(item)
        step()
        return found

    with one_blas_thread(), counted_steps(verbose, what, len(items)) as step:
        jobs: Iterable[Any] = (delayed(one)(item, step) for item in items)
        return list(Parallel(n_jobs, require="sharedmem")(jobs))


def _with_target(estimator: Any, rows: Any, index: np.ndarray) -> Any:
    """Targets and weights of some rows, with a constant of their own taken off."""
    chosen = {
        "kept": rows.kept[: len(index)],
        "target": rows.target[index],
        "weight": rows.weight[index],
    }
    found = replace(rows, **chosen)
    if isinstance(found, TrainingLabels) or not estimator.fit_intercept:
        return found
    if isinstance(found, TrainingTimes):
        loss = CensoredEpsilonInsensitive(estimator.epsilon)
        return found.less(loss.best_constant(found.target, found.weight))
    assert isinstance(found, TrainingValues)
    mean = np.average(found.target, axis=0, weights=found.weight)
    return replace(found, target=found.target - mean)


def require_plain(estimator: Any) -> None:
    """Raise unless it is one of the estimators with one p and one C."""
    plain = isinstance(estimator, MKLEstimator) and not isinstance(
        estimator, SearchMixin
    )
    if not plain:
        raise TypeError(
            "estimator must be an MKLClassifier, MKLRegressor or MKLSurvival, got "
            f"{quoted(type(estimator).__name__)}; pass one of these, with the p and C "
            "to study."
        )
