"""The loop that all solvers share: record, keep the best, stop, survive Ctrl-C."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from manykernels.solvers.problem import Array, Expansion


class Epoch(NamedTuple):
    """One line of the history. `gap` is relative to the objective."""

    epoch: int
    time: float
    objective: float
    gap: float
    updates: int


@dataclass(frozen=True)
class Iterate:
    """What a solver yields after each epoch; `snapshot` is called for the best only."""

    objective: float
    dual_bound: float
    updates: int
    snapshot: Callable[[], Expansion]
    dual_snapshot: Callable[[], Array] | None = None  # the point behind the bound


Callback = Callable[[Epoch], object]


@dataclass(frozen=True)
class SolveResult:
    """The best model found, and how it was found."""

    model: Expansion
    objective: float
    duality_gap: float
    history: list[Epoch]
    converged: bool
    dual_coef: Array | None = None  # certifies the gap, where it is not the model's own
    stopped: bool = False  # by the callback or the user, before convergence

    @property
    def relative_gap(self) -> float:
        """Duality gap divided by the objective."""
        return relative_gap(self.objective, self.objective - self.duality_gap)


class InterruptedFitWarning(UserWarning):
    """A fit was stopped by the user; the best model so far was kept."""


def relative_gap(objective: float, dual_bound: float) -> float:
    """(objective - dual bound) / objective, never negative."""
    if objective <= 0.0:
        return 0.0
    return max(objective - dual_bound, 0.0) / objective


@dataclass
class Best:
    """The best primal and dual values so far, and the model of the former."""

    model: Expansion
    objective: float = np.inf
    dual_bound: float = 0.0
    dual_coef: Array | None = None
    history: list[Epoch] = field(default_factory=list)

    def add(self, iterate: Iterate, seconds: float) -> Epoch:
        """Record one iterate."""
        if iterate.objective < self.objective:
            self.objective = iterate.objective
            self.model = iterate.snapshot()
        if iterate.dual_bound > self.dual_bound:
            self.dual_bound = iterate.dual_bound
            if iterate.dual_snapshot is not None:
                self.dual_coef = iterate.dual_snapshot()
        line = Epoch(
            epoch=len(self.history) + 1,
            time=seconds,
            objective=iterate.objective,
            gap=relative_gap(self.objective, self.dual_bound),
            updates=iterate.updates,
        )
        self.history.append(line)
        return line

    def stalled(self, patience: int | None, improvement: float = 1e-4) -> bool:
        """Whether the last `patience` epochs did not improve on those before."""
        if patience is None or len(self.history) <= patience:
            return False
        values = [line.objective for line in self.history]
        earlier = min(values[:-patience])
        return min(values[-patience:]) > earlier * (1.0 - improvement)


def run(
    iterates: Iterator[Iterate],
    start: Expansion,
    *,
    tol: float,
    patience: int | None = None,
    callback: Callback | None = None,
) -> SolveResult:
    """Consume a solver's iterates until the relative gap is at most `tol`.

    Stops as well when the iterates end, when the objective stalls for `patience`
    epochs, when the callback returns True, and on Ctrl-C, which keeps the best
    model so far.
    """
    best = Best(start)
    began = time.perf_counter()
    stopped = False
    try:
        for iterate in iterates:
            line = best.add(iterate, time.perf_counter() - began)
            stopped = bool(callback(line)) if callback is not None else False
            if stopped or line.gap <= tol or best.stalled(patience):
                break
    except KeyboardInterrupt:
        if not best.history:
            raise
        stopped = True
        warnings.warn(
            f"The fit was interrupted after {len(best.history)} epochs; the best "
            f"model so far (relative gap {best.history[-1].gap:.2g}) was kept.",
            InterruptedFitWarning,
            stacklevel=2,
        )
    gap = max(best.objective - best.dual_bound, 0.0)
    converged = bool(relative_gap(best.objective, best.dual_bound) <= tol)
    return SolveResult(
        best.model,
        best.objective,
        gap,
        best.history,
        converged,
        best.dual_coef,
        stopped,
    )
