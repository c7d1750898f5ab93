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
from manykernels.mkl.estimator import MKLEstimator, Training, side_by_side, solve_each
from manykernels.mkl.reads import kernel_views
from manykernels.mkl.search import SearchMixin
from manykernels.solvers import Expansion, Problem
from manykernels.solvers.loop import require_whole
from manykernels.study.tasks import task_of
from manykernels.targets import Labels

LEAST_TOL = 1e-8  # relative gap: below it the values themselves are rounded
RUNNING: Rules = {  # what studies of many fits are told
    "tol": Number(0.0, 1.0),
    "n_jobs": Workers(optional=True),
    "verbose": Whole(low=0, example=1),
}
PROCESS_BYTES = 2**28  # of kernels that are handed to other processes
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
        """Positions of the classes, where there are classes."""
        targets = self.data.targets
        return targets.target if isinstance(targets, Labels) else None

    def on(self, index: np.ndarray) -> Refits:
        """The same on some of the rows."""
        bank = self.data.bank.take(index)
        targets = self.data.targets.take(index)
        return replace(self, data=self.data._replace(bank=bank, targets=targets))

    def shares_unseen(self, found: Expansion, seen: np.ndarray) -> np.ndarray:
        """What each kernel has of the gains on the rows that a fit has not seen.

        NaN where there are no gains; see `kernel_importance`.
        """
        others = np.setdiff1d(np.arange(self.n_rows), seen)
        coef = np.zeros((self.n_rows, found.coef.shape[1]))
        coef[seen] = found.coef
        parts = self._parts(coef, found.weights)[others]
        task = task_of(self.estimator, self.data.targets.take(others))
        if parts.shape[2] == 1:
            parts = parts[..., 0]
        gains = task.weight @ task.gains(parts).gain
        total = gains.sum()
        return np.asarray(gains / total if total > 0.0 else np.full_like(gains, np.nan))

    def _parts(self, coef: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Every kernel's part of the scores of new rows, (rows, kernels, outputs)."""
        bank = self.data.bank
        weights = np.atleast_2d(bank.at_new_rows(weights))
        parts = bank.without_nugget.block_scores(coef) * weights[:, :, None]
        out = np.zeros((self.n_rows, bank.n_blocks, coef.shape[1]))
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


@dataclass(frozen=True)
class Runs:
    """How many fits are made: some at a time, and with a word on how far it is.

    Small fits hold the interpreter's lock most of the time, so they go to processes;
    large ones leave it to others, and threads share their kernels.
    """

    n_jobs: int | None
    verbose: int
    n_bytes: int  # of the kernels

    def of(
        self, work: Callable[[Item], Any], items: Sequence[Item], what: str
    ) -> list[Any]:
        """[work(item), ...]."""
        apart = self.n_bytes <= PROCESS_BYTES
        one = partial(_recorded, work) if apart else partial(_plainly, work)
        how = {"prefer": "processes"} if apart else {"require": "sharedmem"}
        jobs: Iterable[Any] = (delayed(one)(item) for item in items)
        found = []
        with (
            one_blas_thread(),
            counted_steps(self.verbose, what, len(items)) as step,
        ):
            run = Parallel(self.n_jobs, return_as="generator", **how)
            for value, warned in run(jobs):
                found.append(value)
                for one_warning in warned:
                    warnings.warn(one_warning, stacklevel=4)
                step()
        return found


def _recorded(work: Callable[[Item], Any], item: Item) -> tuple[Any, list[Warning]]:
    """The value, and what another process would say to nobody."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = work(item)
    return value, [one.message for one in caught if isinstance(one.message, Warning)]


def _plainly(work: Callable[[Item], Any], item: Item) -> tuple[Any, list[Warning]]:
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
