"""Base of solvers that alternate between an SVM and the kernel weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from manykernels.base.arrays import Array
from manykernels.solvers.loop import (
    Iterate,
    IterativeSolver,
    Resumable,
    State,
    relative_gap,
)
from manykernels.solvers.problem import Expansion, Problem, require_hinge
from manykernels.solvers.working_set import FrozenValues, WorkingSet, best_rescaling

FIRST_SVM_TOL = 0.1  # relative gap of the first SVM
# An SVM is solved to this share of the current gap: early SVMs are cheap.
SVM_GAP_SHARE = 0.25
MIN_SVM_TOL = 1e-11  # smaller gaps are rounding


class WrappedSVM(NamedTuple):
    """The SVM on sum_f weights_f K_f, solved to a relative gap."""

    weights: Array
    coef: Array
    scores: Array  # (rows, outputs)
    theta_norms: Array
    values: FrozenValues  # of the SVM's values, in units of 1 / reg
    updates: int
    solved: bool  # False where rounding, not work, was the limit

    @property
    def squares(self) -> Array:
        """||theta_f||^2; the SVM's value J has the derivatives -squares / 2."""
        return self.theta_norms**2

    @property
    def value(self) -> float:
        """J(weights), from below."""
        return self.values.dual


class FrozenSVM(Resumable):
    r"""min :math:`\frac12 \sum_f \|w_f\|^2 / d_f + \sum_i C c_i\, loss_i` for given d.

    The multiclass dual ascent of `DualAscent`, on all rows, which begins with the
    coefficients that the last call ended with.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.0), 1.0, np.ones(4))
    >>> svm = FrozenSVM(problem, problem.zero(), np.random.default_rng(0))
    >>> solution = svm.solve(np.array([1.0, 0.0]), goal=1e-6)
    >>> round(solution.value, 3), solution.theta_norms.round(3).tolist()
    (1.0, [1.414, 0.0])
    """

    remembered = ("coef", "rng")

    def __init__(
        self, problem: Problem, start: Expansion, rng: np.random.Generator
    ) -> None:
        self.problem = problem
        self.rng = rng
        unit = start.coef / problem.bound[:, None]
        feasible = problem.loss.make_feasible(unit, problem.target)
        self.coef: Array = feasible * problem.bound[:, None]
        self._work: WorkingSet | None = None

    def solve(self, weights: Array, goal: float) -> WrappedSVM:
        """The SVM with these weights, to the relative gap `goal`."""
        if self._work is None:
            every = np.arange(self.problem.n_rows)
            self._work = WorkingSet(self.problem, every, self.coef, self.rng)
        work = self._work
        updates = work.ascend(weights, goal)
        self.coef = work.coef.copy()
        return WrappedSVM(
            weights,
            self.coef,
            work.scores.T,
            self.problem.theta_norms(self.coef),
            work.values,
            updates,
            work.solved,
        )

    def restore(self, state: State) -> None:
        """Go on from an earlier state."""
        super().restore(state)
        self._work = None


class LowerBound(Protocol):
    """The best dual value that follows from the dual points so far."""

    value: float
    coef: Array  # a dual point with this value

    def add(self, coef: Array, linear: float, theta_norms: Array) -> float:
        """Add a dual point and return the best value."""


class Wrapper(Resumable):
    """SVMs under changing weights, with the certificate of the whole problem.

    A subclass says in `round` which weights come next. An SVM is solved to a quarter
    of the current gap: early ones are cheap.
    """

    remembered: ClassVar[tuple[str, ...]] = (
        "svm",
        "bound",
        "weights",
        "best",
        "goal",
        "done",
        "updates",
    )

    def __init__(
        self,
        problem: Problem,
        start: Expansion,
        bound: LowerBound,
        settings: WrapperSolver,
    ) -> None:
        self.problem = problem
        rng = np.random.default_rng(settings.random_state)
        self.svm = FrozenSVM(problem, start, rng)
        self.bound = bound
        self.settings = settings
        self.tol, self.max_iter = settings.tol, settings.max_iter
        self.weights: Array = problem.norm.normalize_weights(start.weights)
        self.best = np.inf  # lowest objective, in units of 1 / reg
        self.goal = settings.svm_tol
        self.done = 0  # rounds
        self.updates = 0  # since the last iterate

    @abstractmethod
    def round(self) -> Iterate:
        """One step of the method."""

    def iterates(self) -> Iterator[Iterate]:
        """One iterate a round."""
        while self.done < self.max_iter and self.goal > MIN_SVM_TOL:
            self.done += 1
            yield self.round()

    def evaluate(self, weights: Array) -> WrappedSVM:
        """The SVM for these weights; its dual point joins the certificate."""
        solution = self.svm.solve(weights, self.goal)
        self.updates += solution.updates
        self.bound.add(solution.coef, solution.values.linear, solution.theta_norms)
        lengths = weights * solution.theta_norms
        _, value = self._rescaled(solution.scores, lengths)
        self.best = min(self.best, value)
        return solution

    def _rescaled(self, scores: Array, lengths: Array) -> tuple[float, float]:
        problem = self.problem
        value = problem.norm.value(lengths)
        return best_rescaling(scores, problem.target, problem.bound, value)

    @property
    def gap(self) -> float:
        """Relative to the best objective so far."""
        return relative_gap(self.best, self.bound.value)

    def iterate(self, solution: WrappedSVM) -> Iterate:
        """The certificate of a solution; the next SVM is solved more precisely.

        Values that may end the search are computed in float64, from the kernels.
        """
        problem, weights, coef = self.problem, solution.weights, solution.coef
        scores = solution.scores
        lengths = weights * solution.theta_norms
        last = self.done == self.max_iter or not solution.solved
        if last or self.gap <= self.tol:
            scores = problem.bank.scores(coef, weights)
        scale, _ = self._rescaled(scores, lengths)
        self.goal = min(self.goal, SVM_GAP_SHARE * max(self.gap, self.tol))
        updates, self.updates = self.updates, 0
        return Iterate(
            objective=problem.primal_value(scale * scores, scale * lengths),
            dual_bound=problem.reg * self.bound.value,
            updates=updates,
            snapshot=lambda: Expansion(scale * coef, weights),
            dual_snapshot=lambda: self.bound.coef,
        )


@dataclass(frozen=True)
class WrapperSolver(IterativeSolver):
    """Base of solvers that change the kernel weights between SVMs.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None
    svm_tol : float
        Largest relative gap of an SVM; a smaller current gap needs a smaller one.
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-2
    max_iter: int = 500
    random_state: int | np.random.Generator | None = None
    svm_tol: float = FIRST_SVM_TOL

    @abstractmethod
    def wrapper(self, problem: Problem, start: Expansion) -> Wrapper:
        """Return the state of a run from `start`."""

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[Wrapper, Expansion]:
        """Rounds of the method, from zero or from `start`."""
        require_hinge(problem, type(self).__name__)
        require_one_combined_kernel(problem, type(self).__name__)
        zero = problem.zero()
        return self.wrapper(problem, start or zero), zero


def require_sparse_norm(problem: Problem, solver: str) -> None:
    """Methods on the simplex of kernel weights solve p = 1 only."""
    if problem.norm.p != 1.0:
        raise ValueError(
            f"{solver} searches the weights of p = 1 only, got p={problem.norm.p:g}; "
            "use p=1, or compare.Kloft() or solver='auto' for other values."
        )


def require_one_combined_kernel(problem: Problem, solver: str) -> None:
    """Wrappers hold one combined kernel of all rows."""
    bank = problem.bank
    if bank.max_combined_rows < bank.n_rows:
        raise ValueError(
            f"{solver} must hold a combined kernel of all {bank.n_rows} rows, and "
            f"memory allows {bank.max_combined_rows}; raise memory_limit or choose "
            "solver='auto'."
        )
