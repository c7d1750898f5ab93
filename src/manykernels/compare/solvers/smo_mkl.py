"""SMO-MKL: coordinate ascent on the dual of all kernels (Vishwanathan et al., 2010)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.hot.smo import SMOState, smo_steps
from manykernels.solvers.loop import Iterate, IterativeSolver, Resumable, State
from manykernels.solvers.mirror import RowCache
from manykernels.solvers.problem import (
    Expansion,
    Problem,
    require_hinge,
    require_p_above_1,
)


def require_two_classes(problem: Problem, solver: str) -> None:
    """Raise unless there are two classes: methods with one coefficient per row."""
    if problem.n_outputs != 2:
        raise ValueError(
            f"{solver} handles two classes, got {problem.n_outputs}; wrap the "
            "estimator in scikit-learn's OneVsRestClassifier, or choose solver='auto'."
        )


@dataclass(frozen=True)
class SMOMKL(IterativeSolver):
    r"""Maximize :math:`\sum_i a_i - \frac12 \|\theta(a)\|_{2,q}^2` over one a_i a time.

    For two classes and 1 < p <= 2: the squared p-norm makes the dual smooth, so the
    kernel weights follow from the block norms at every step. A step takes the
    coefficient that promises most to second order and searches its line exactly, all
    kernels at once. The paper has an intercept and must move two coefficients
    together, and it adds a squared norm of the weights to the objective where we bound
    that norm, which changes C and nothing else.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds of as many steps as there are rows.

    References
    ----------
    Vishwanathan, Sun, Ampornpunt, Varma: Multiple Kernel Learning and the SMO
    Algorithm, NIPS 2010.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(4))
    >>> result = SMOMKL(tol=1e-4).solve(problem)
    >>> round(result.objective, 3), result.model.weights.round(3).tolist()
    (0.25, [1.0, 0.0])
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-2
    max_iter: int = 1000

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[_PairSteps, Expansion]:
        """Rounds of steps, from zero or from `start`."""
        name = type(self).__name__
        require_hinge(problem, name)
        require_p_above_1(problem, name, "the dual has no gradient at p = 1")
        require_two_classes(problem, name)
        start = start or problem.zero()
        return _PairSteps(problem, start, self.max_iter), start


class _PairSteps(Resumable):
    """One coefficient per row; the class of a row is its sign."""

    remembered = ("alpha", "partial", "squares", "done")

    def __init__(self, problem: Problem, start: Expansion, max_iter: int) -> None:
        self.problem, self.max_iter = problem, max_iter
        self.cache = RowCache(problem.bank)
        self.diagonals = np.ascontiguousarray(problem.bank.diagonals())
        self.signs = np.where(problem.target == 1, 1.0, -1.0)
        unit = problem.loss.make_feasible(
            start.coef / problem.bound[:, None], problem.target
        )
        own = unit[np.arange(problem.n_rows), problem.target]
        self.alpha: Array = own * problem.bound
        self.partial = self._partial()
        self.squares: Array = problem.theta_norms(self._coef()) ** 2
        self.done = 0

    def _partial(self) -> Array:
        """K_f (alpha * signs) in float64."""
        n_blocks = self.problem.bank.n_blocks
        if not self.alpha.any():
            return np.zeros((n_blocks, len(self.alpha)))
        column = (self.alpha * self.signs)[:, None]
        each = np.eye(n_blocks)
        return np.stack([self.problem.bank.scores(column, e)[:, 0] for e in each])

    def _coef(self) -> Array:
        signed = self.alpha * self.signs
        return np.column_stack([-signed, signed])

    def iterates(self) -> Iterator[Iterate]:
        """One iterate per as many steps as there are rows."""
        steps = -1
        while self.done < self.max_iter and steps != 0:
            self.done += 1
            steps = self._round()
            yield self._iterate(steps)

    def _round(self) -> int:
        """Steps; returns how many there were to take."""
        problem, total = self.problem, 0
        state = SMOState(self.alpha, self.partial, self.squares)
        while total < problem.n_rows:
            steps, wanted = smo_steps(
                self.cache.rows,
                self.cache.slots,
                state,
                self.signs,
                problem.bound,
                self.diagonals,
                problem.norm.q,
                problem.n_rows - total,
            )
            total += int(steps)
            if wanted == -2:
                break
            if wanted >= 0:
                self.cache.fill(self._wanted(int(wanted)))
        # Anew from the partial scores: the steps' small changes add up rounding.
        signed = self.alpha * self.signs
        self.squares = np.maximum(2.0 * self.partial @ signed, 0.0)
        return total

    def _wanted(self, row: int) -> Index:
        """That row, then those that violate most: they are likely to come next."""
        slopes = 1.0 - self.signs * self._decision()
        able = np.where(slopes > 0.0, self.alpha < self.problem.bound, self.alpha > 0.0)
        order = np.argsort(-np.abs(slopes) * able, kind="stable")
        return np.concatenate([[row], order[order != row]])

    def _weights(self) -> Array:
        norm, norms = self.problem.norm, np.sqrt(self.squares)
        if not norms.any():
            return norm.uniform_weights(len(norms))
        return norm.mirror_scale(norms)

    def _decision(self) -> Array:
        """Score of the second class minus that of the first."""
        return np.asarray(2.0 * self._weights() @ self.partial)

    def _iterate(self, steps: int) -> Iterate:
        problem, weights, norms = self.problem, self._weights(), np.sqrt(self.squares)
        half = 0.5 * self._decision()
        coef = self._coef()
        return Iterate(
            problem.primal_value(np.column_stack([-half, half]), weights * norms),
            problem.dual_bound(coef, norms),
            steps,
            lambda: Expansion(coef, weights),
        )

    def state(self) -> State:
        """The search between two rounds."""
        return super().state() | {"cache": self.cache.state()}

    def restore(self, state: State) -> None:
        """Go on from an earlier state."""
        super().restore(state)
        self.cache.restore(state["cache"])
