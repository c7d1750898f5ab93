"""The loop that all solvers share: record, keep the best, stop, survive Ctrl-C."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from manykernels.base.arrays import Array
from manykernels.solvers.problem import Expansion
from manykernels.solvers.state import State


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


class Search(Protocol):
    """What a solver does round by round, and all it must remember between rounds."""

    def iterates(self) -> Iterator[Iterate | None]:
        """One item a round; None where a round has nothing to show yet."""

    def state(self) -> State:
        """All that the next round depends on, beside the problem."""

    def restore(self, state: State) -> None:
        """Go on from `state` as if there had been no interruption."""


class Checkpoint(Protocol):
    """Where a long search keeps its state."""

    def load(self) -> State | None:
        """The state of an earlier run, if there is one."""

    def save(self, state: Callable[[], State], last: bool) -> None:
        """Keep this state now; or decide that it is too soon, unless it is the last."""


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

    def state(self) -> State:
        """Everything, as plain data and arrays."""
        return {
            "coef": self.model.coef,
            "weights": self.model.weights,
            "objective": self.objective,
            "dual_bound": self.dual_bound,
            "dual_coef": self.dual_coef,
            "history": [list(line) for line in self.history],
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        self.model = Expansion(state["coef"], state["weights"])
        self.objective, self.dual_bound = state["objective"], state["dual_bound"]
        self.dual_coef = state["dual_coef"]
        self.history = [Epoch(*line) for line in state["history"]]

    def done(self, tol: float, patience: int | None) -> bool:
        """Whether the gap is small enough, or nothing improves any more."""
        if not self.history:
            return False
        return self.history[-1].gap <= tol or self.stalled(patience)

    def stalled(self, patience: int | None, improvement: float = 1e-4) -> bool:
        """Whether the last `patience` epochs did not improve on those before."""
        if patience is None or len(self.history) <= patience:
            return False
        values = [line.objective for line in self.history]
        earlier = min(values[:-patience])
        return min(values[-patience:]) > earlier * (1.0 - improvement)


def run(
    search: Search,
    start: Expansion,
    *,
    tol: float,
    patience: int | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> SolveResult:
    """Follow a solver's search until the relative gap is at most `tol`.

    Stops as well when the iterates end, when the objective stalls for `patience`
    epochs, when the callback returns True, and on Ctrl-C, which keeps the best
    model so far. With a checkpoint the search goes on where an earlier one ended.
    """
    best = Best(start)
    began = time.perf_counter() - _resume(search, best, checkpoint)

    def keep(last: bool = False) -> None:
        if checkpoint is not None:
            checkpoint.save(
                lambda: {"best": best.state(), "search": search.state()}, last
            )

    stopped = False
    try:
        for iterate in search.iterates() if not best.done(tol, patience) else ():
            if iterate is not None:
                line = best.add(iterate, time.perf_counter() - began)
                stopped = bool(callback(line)) if callback is not None else False
            keep()
            if stopped or best.done(tol, patience):
                break
        keep(last=True)
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


def _resume(search: Search, best: Best, checkpoint: Checkpoint | None) -> float:
    """Take up the state of an earlier run; returns the seconds it took."""
    state = None if checkpoint is None else checkpoint.load()
    if state is None:
        return 0.0
    best.restore(state["best"])
    search.restore(state["search"])
    return best.history[-1].time if best.history else 0.0
