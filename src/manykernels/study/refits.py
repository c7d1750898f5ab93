"""Many fits of one estimator on kernels that are computed once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from manykernels.banks.composed import ExchangedBank
from manykernels.base.machine import one_blas_thread
from manykernels.base.quoted import quoted
from manykernels.inputs.parameters import Number, Rules, Whole, Workers
from manykernels.inputs.reporting import counted_steps, warn_unless_converged
from manykernels.mkl.estimator import FitData, MKLEstimator
from manykernels.mkl.per_target import side_by_side, solve_each
from manykernels.mkl.reads import kernel_views
from manykernels.mkl.search import SearchMixin
from manykernels.solvers.loop import require_whole
from manykernels.solvers.problem import Expansion, Problem
from manykernels.targets import Labels

MIN_REFIT_TOL = 1e-8  # relative gap: below it the values themselves are rounded
REFIT_RULES: Rules = {
    "tol": Number(0.0, 1.0),
    "n_jobs": Workers(optional=True),
    "verbose": Whole(low=0, example=1),
}
MAX_COPIED_BYTES = 2**28  # of kernels that are copied to other processes
Item = TypeVar("Item")


@dataclass(frozen=True)
class Refits:
    """An estimator's data, read once: kernels on all rows, and how to solve on some.

    Attributes
    ----------
    estimator : MKLEstimator
        A copy with the tolerance that weights need.
    data : FitData
    """

    estimator: Any
    data: FitData

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
        copied = clone(estimator).set_params(tol=tol, verbose=0, callback=None)
        copied.set_params(checkpoint=None, warm_start=False)
        if copied.random_state is None:
            copied.set_params(random_state=seed)
        if copied.storage == "auto":  # float32 may not carry such small gaps
            copied.set_params(storage="float64")
        if C is not None:
            copied.set_params(C=C)
        return cls(copied, copied._read(X, y, sample_weight))

    @property
    def names(self) -> list[str]:
        """Of the kernels, and of a nugget."""
        return list(self.data.bank.names)

    @property
    def views(self) -> list[str]:
        """For every kernel its group, the views that it reads, or its columns."""
        return kernel_views(self.estimator, self.data.kernels, self.names)

    @property
    def n_rows(self) -> int:
        """Rows of positive weight."""
        return int(self.data.bank.n_rows)

    @property
    def labels(self) -> np.ndarray | None:
        """Positions of the classes; None without classes."""
        targets = self.data.targets
        return targets.target if isinstance(targets, Labels) else None

    def take(self, index: np.ndarray) -> Refits:
        """The same on some of the rows."""
        bank = self.data.bank.take(index)
        targets = self.data.targets.take(index)
        return replace(self, data=self.data._replace(bank=bank, targets=targets))

    def shares_unseen(self, model: Expansion, train: np.ndarray) -> np.ndarray:
        """Share of each kernel in the gains on the rows that were not in the fit.

        NaN if these are not positive; see `kernel_importance`.
        """
        others = np.setdiff1d(np.arange(self.n_rows), train)
        coef = np.zeros((self.n_rows, model.coef.shape[1]))
        coef[train] = model.coef
        parts = self._parts(coef, model.weights)[others]
        targets = self.data.targets.take(others)
        if parts.shape[2] == 1:
            parts = parts[..., 0]
        gains = targets.weight @ targets.gains(parts).gain
        total = gains.sum()
        return np.asarray(gains / total if total > 0.0 else np.full_like(gains, np.nan))

    def _parts(self, coef: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Every kernel's part of the scores of new rows, (rows, kernels, outputs)."""
        bank = self.data.bank
        weights = np.atleast_2d(bank.at_new_rows(weights))
        parts = bank.without_nugget.block_scores(coef) * weights[:, :, None]
        out = np.zeros((self.n_rows, bank.n_blocks, coef.shape[1]))
        # A nugget has no part in the scores of new rows: its columns stay zero.
        out[:, : weights.shape[1]] = parts.T
        return out

    def with_targets_of(self, order: np.ndarray) -> Refits:
        """Row i gets the target, and the weight, of row order[i]."""
        targets = self.data.targets.take(order)
        return replace(self, data=self.data._replace(targets=targets))

    def with_shuffled(self, blocks: np.ndarray, order: np.ndarray) -> Refits:
        """Some kernels see row order[i] in the place of row i, the others do not."""
        bank = self.data.bank
        mixed = ExchangedBank(bank, bank.take(order, brief=True), blocks)
        return replace(self, data=self.data._replace(bank=mixed))

    def zero(self, p: float, C: float) -> Expansion:
        """A start that favors no kernel, the same whatever the target is."""
        zero: Expansion = self.data.problem(p, C).zero()
        return zero

    def solve(
        self, p: float, C: float, start: Expansion | None = None, sharp: bool = False
    ) -> Expansion:
        """One fit; a sharp one has as many weights of zero as the optimum has.

        A gap is small next to the objective, which for a small C consists of losses
        that no weights can change: what weights decide is the share of the norm.
        """
        problem = self.data.problem(p, C)
        model = self._solved(problem, start, self.estimator.tol)
        if not sharp or model.weights.ndim == 2:  # targets apart are solved exactly
            return model
        norms = model.weights * problem.theta_norms(model.coef)
        share = problem.reg * problem.norm.value(norms) / problem.objective(model)
        tol = self.estimator.tol * min(1.0, share) ** 2
        if tol >= self.estimator.tol:
            return model
        return self._solved(problem, model, max(MIN_REFIT_TOL, tol))

    def _solved(
        self, problem: Problem, start: Expansion | None, tol: float
    ) -> Expansion:
        estimator = copy(self.estimator)
        estimator.tol = tol
        solver = estimator._make_solver(self.data.seed)
        if getattr(estimator, "per_target_weights", False):
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


@dataclass(frozen=True)
class ParallelRuns:
    """Many fits, some at a time, with progress.

    Small fits go to processes; large ones are threads that share their kernels.
    """

    n_jobs: int | None
    verbose: int
    n_bytes: int  # of the kernels

    def of(
        self, work: Callable[[Item], Any], items: Sequence[Item], what: str
    ) -> list[Any]:
        """[work(item), ...]."""
        # Small fits hold the interpreter's lock; large kernels are not worth copies.
        copied = self.n_bytes <= MAX_COPIED_BYTES
        backend = {"prefer": "processes"} if copied else {"require": "sharedmem"}
        run_one = partial(_with_warnings if copied else _without_warnings, work)
        jobs: Iterable[Any] = (delayed(run_one)(item) for item in items)
        values = []
        with (
            one_blas_thread(),
            counted_steps(self.verbose, what, len(items)) as step,
        ):
            run = Parallel(self.n_jobs, return_as="generator", **backend)
            for value, raised in run(jobs):
                values.append(value)
                for warning in raised:
                    warnings.warn(warning, stacklevel=4)
                step()
        return values


def _with_warnings(
    work: Callable[[Item], Any], item: Item
) -> tuple[Any, list[Warning]]:
    """The value and the warnings it raised (a worker process would lose them)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = work(item)
    return value, [one.message for one in caught if isinstance(one.message, Warning)]


def _without_warnings(
    work: Callable[[Item], Any], item: Item
) -> tuple[Any, list[Warning]]:
    return work(item), []


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
