"""The loop that all solvers share: record, keep the best, stop, survive Ctrl-C."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.base.quoted import quoted_error
from manykernels.solvers.problem import Expansion, Problem

State = dict[str, Any]  # numbers, text, arrays, and lists and dicts of them

SAMPLE_START_TOL = 1e-2  # relative gap on sampled rows, which give first weights
STALLED_SHARE = 0.9  # of an earlier gap: one above it is no progress


class Epoch(NamedTuple):
    """One line of the history. `gap` is relative to the objective.

    Examples
    --------
    >>> import manykernels as mk
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf; linear", random_state=0).fit(X, y)
    >>> last = model.history_[-1]
    >>> last.gap <= 1e-2, last._fields
    (True, ('epoch', 'time', 'objective', 'gap', 'updates'))
    """

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
    scores: Callable[[], Array] | None = None  # of the snapshot, where a check has them


Callback = Callable[[Epoch], object]
# Errors of code that follows a state which no search has written.
BAD_STATE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
MAX_STATE_VALUE = 1e100  # squares of larger numbers are no numbers


class SearchRounds(Protocol):
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
    """The best model found, and how it was found.

    Examples
    --------
    >>> model = Expansion(np.zeros((2, 1)), np.ones(1))
    >>> SolveResult(model, 2.0, 0.5, [], converged=False).relative_gap
    0.25
    """

    model: Expansion
    objective: float
    duality_gap: float
    history: list[Epoch]
    converged: bool
    dual_coef: Array | None = None  # certifies the gap, where it is not the model's own
    stopped: bool = False  # by the callback or the user, before convergence
    interrupted: bool = False  # by the user
    at_rounding: bool = False  # the kernel values are too coarse for a smaller gap
    scores: Array | None = None  # (rows, outputs) of the model, where a check has them

    @property
    def relative_gap(self) -> float:
        """Duality gap divided by the objective."""
        return relative_gap(self.objective, self.objective - self.duality_gap)

    def with_objective(self, objective: float, tol: float) -> SolveResult:
        """The same model with its objective computed more precisely."""
        bound = self.objective - self.duality_gap
        converged = relative_gap(objective, bound) <= tol
        gap = max(objective - bound, 0.0)
        return replace(self, objective=objective, duality_gap=gap, converged=converged)


class InterruptedFitWarning(UserWarning):
    """A fit was stopped by the user; the best model so far was kept.

    Examples
    --------
    >>> import warnings
    >>> import manykernels as mk
    >>> def impatient(line):
    ...     raise KeyboardInterrupt  # what Ctrl-C does
    >>> X = np.eye(6)
    >>> model = mk.MKLClassifier("rbf", callback=impatient, random_state=0)
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     model = model.fit(X, [0, 1] * 3)
    >>> [warning.category.__name__ for warning in seen]
    ['InterruptedFitWarning']
    """


class Interruptible(Protocol):
    """A result that says whether the user ended the search."""

    @property
    def interrupted(self) -> bool: ...


AnyResult = TypeVar("AnyResult", bound=Interruptible)


def require_whole(result: AnyResult) -> AnyResult:
    """Return the result of a part; raise KeyboardInterrupt if it was interrupted."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def relative_gap(objective: float, dual_bound: float) -> float:
    """(objective - dual bound) / objective, never negative."""
    if objective <= 0.0:
        return 0.0
    return max(objective - dual_bound, 0.0) / objective


def has_stalled(gaps: Sequence[float], patience: int) -> bool:
    """Whether the last few gaps are no better than the best before them.

    Examples
    --------
    >>> has_stalled([0.5, 0.48, 0.47], patience=2), has_stalled([0.5, 0.3], patience=1)
    (True, False)
    """
    recent, earlier = gaps[-patience:], gaps[:-patience]
    return bool(earlier) and min(recent) > STALLED_SHARE * min(earlier)


@dataclass
class Best:
    """The best primal and dual values so far, and the model of the former."""

    model: Expansion
    objective: float = np.inf
    dual_bound: float = 0.0  # that of the dual point zero
    dual_coef: Array | None = None
    history: list[Epoch] = field(default_factory=list)
    scores: Array | None = None  # of the model, where they are known

    def add(self, iterate: Iterate, seconds: float) -> Epoch:
        """Record one iterate."""
        # Values and what they belong to change together: Ctrl-C may come at any time.
        if iterate.objective < self.objective:
            model = iterate.snapshot()
            scores = None if iterate.scores is None else iterate.scores()
            self.objective, self.model = iterate.objective, model
            self.scores = scores
        if iterate.dual_bound > self.dual_bound:
            point = self.dual_coef
            if iterate.dual_snapshot is not None:
                point = iterate.dual_snapshot()
            self.dual_bound, self.dual_coef = iterate.dual_bound, point
        line = Epoch(
            epoch=len(self.history) + 1,
            time=seconds,
            objective=iterate.objective,
            gap=relative_gap(self.objective, self.dual_bound),
            updates=iterate.updates,
        )
        self.history.append(line)
        return line

    def done(self, tol: float, patience: int | None = None) -> bool:
        """Whether the gap is small enough, or `patience` epochs improved nothing."""
        if not self.history:
            return False
        if self.history[-1].gap <= tol:
            return True
        if patience is None or len(self.history) <= patience:
            return False
        values = [line.objective for line in self.history]
        best = min(values[:-patience])
        return min(values[-patience:]) > (1.0 - 1e-4) * best  # less is no improvement

    def result(self, tol: float, stopped: bool) -> SolveResult:
        """What a solver returns."""
        gap = max(self.objective - self.dual_bound, 0.0)
        converged = relative_gap(self.objective, self.dual_bound) <= tol
        return SolveResult(
            self.model,
            self.objective,
            gap,
            self.history,
            bool(converged),
            self.dual_coef,
            stopped,
            scores=self.scores,
        )

    def state(self) -> State:
        """Values, model and history as plain data and arrays."""
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
        require_alike("coef", state["coef"], self.model.coef)
        require_alike("weights", state["weights"], self.model.weights)
        if state["dual_coef"] is not None:
            require_alike("dual_coef", state["dual_coef"], self.model.coef)
        for name in ("objective", "dual_bound"):
            require_alike(name, state[name], np.inf)
        self.model = Expansion(state["coef"], state["weights"])
        self.objective, self.dual_bound = state["objective"], state["dual_bound"]
        self.dual_coef = state["dual_coef"]
        self.history = [Epoch(*line) for line in state["history"]]
        for value in (value for line in self.history for value in line):
            require_alike("history", value, np.inf)


def run(
    search: SearchRounds,
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
    best, began = Best(start), time.perf_counter()
    saved = None if checkpoint is None else checkpoint.load()
    if saved is not None:
        with _checkpoint_errors():
            best.restore(saved["best"])
            search.restore(saved["search"])
        began -= best.history[-1].time if best.history else 0.0

    def whole_state() -> State:
        return {"best": best.state(), "search": search.state()}

    stopped = interrupted = False
    iterates = search.iterates() if saved is None else _resumed(search)
    try:
        for iterate in iterates if not best.done(tol, patience) else ():
            if iterate is not None:
                line = best.add(iterate, time.perf_counter() - began)
                stopped = callback is not None and bool(callback(line))
            if checkpoint is not None:
                checkpoint.save(whole_state, last=False)
            if stopped or best.done(tol, patience):
                break
        if checkpoint is not None:
            checkpoint.save(whole_state, last=True)
    except KeyboardInterrupt:
        if not best.history:
            raise
        stopped = interrupted = True
        _warn_of_interruption(best)
    return replace(best.result(tol, stopped), interrupted=interrupted)


class IterativeSolver:
    """A solver that follows a search from epoch to epoch.

    Subclasses are frozen dataclasses of settings, with `tol` among them.
    """

    tol: float
    patience: int | None = None

    @abstractmethod
    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[SearchRounds, Expansion]:
        """The search for this problem, and the model before its first epoch."""

    def _threads(self, problem: Problem) -> AbstractContextManager[object]:
        # The products are thin, and BLAS threads would wait for the loops' threads.
        return one_blas_thread()

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or as far as the settings allow."""
        with self._threads(problem):
            search, first = self.search(problem, start)
            return run(
                search,
                first,
                tol=self.tol,
                patience=self.patience,
                callback=callback,
                checkpoint=checkpoint,
            )


def _resumed(search: SearchRounds) -> Iterator[Iterate | None]:
    """The rounds of a search that goes on, apart from errors of the callback."""
    with _checkpoint_errors():
        yield from search.iterates()


@contextmanager
def _checkpoint_errors() -> Iterator[None]:
    """Name the checkpoint in errors that follow from its state."""
    try:
        yield
    except BAD_STATE_ERRORS as error:
        raise ValueError(
            "expected a checkpoint with the state of this search, got one from which "
            f"it cannot go on ({quoted_error(error)}); delete the checkpoint and fit "
            "again."
        ) from error


def require_alike(name: str, stored: Any, present: Any) -> None:
    """Raise a ValueError unless a stored value has the form of the present one.

    Compiled loops believe the shapes of arrays. What is None or empty at present may
    become anything.

    Examples
    --------
    >>> require_alike("coef", np.zeros(3), np.ones(2))
    Traceback (most recent call last):
    ValueError: coef must be float64 of shape (2,), got float64 of shape (3,)
    """
    if isinstance(present, np.ndarray) and present.size:
        forms = [
            f"{getattr(value, 'dtype', type(value))} of shape {np.shape(value)}"
            for value in (present, stored)
        ]
        if forms[0] != forms[1] or not isinstance(stored, np.ndarray):
            raise ValueError(f"{name} must be {forms[0]}, got {forms[1]}")
        if (
            np.isfinite(present).all()
            and not float(np.abs(stored).max()) < MAX_STATE_VALUE
        ):
            raise ValueError(f"{name} must hold finite numbers, got others")
    elif isinstance(present, int | float | np.number):
        if not isinstance(stored, int | float) or np.isnan(stored):
            raise ValueError(f"{name} must be a number, got {stored!r}")


def _warn_of_interruption(best: Best) -> None:
    warnings.warn(
        f"The fit was interrupted after {len(best.history)} epochs; the best "
        f"model so far (relative gap {best.history[-1].gap:.2g}) was kept.",
        InterruptedFitWarning,
        stacklevel=3,
    )


class Resumable:
    """`state` and `restore` for objects whose future depends on a few attributes.

    Among them may be random generators and other resumable objects.

    Examples
    --------
    >>> class Counter(Resumable):
    ...     remembered = ("count",)
    ...     count = 3
    >>> other = Counter()
    >>> other.restore({"count": 5})
    >>> other.state()
    {'count': 5}
    """

    remembered: ClassVar[tuple[str, ...]] = ()

    def state(self) -> State:
        """All that the future depends on, as plain data and arrays."""
        return {key: _plain(getattr(self, key)) for key in self.remembered}

    def restore(self, state: State) -> None:
        """Go on from `state` as if there had been no interruption."""
        for key in self.remembered:
            part = getattr(self, key)
            if isinstance(part, Resumable):
                part.restore(state[key])
            elif isinstance(part, np.random.Generator):
                part.bit_generator.state = state[key]
            else:
                require_alike(key, state[key], part)
                setattr(self, key, state[key])


def _plain(part: Any) -> Any:
    if isinstance(part, Resumable):
        return part.state()
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    return part
