"""Certified MKL for smooth losses: Newton's method under frozen kernel weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from manykernels.base.arrays import Array
from manykernels.solvers.loop import (
    SAMPLE_START_TOL,
    Iterate,
    IterativeSolver,
    Resumable,
    State,
    has_stalled,
    relative_gap,
    require_whole,
)
from manykernels.solvers.problem import Expansion, Problem, require_smooth_loss
from manykernels.solvers.smooth.frozen_kernel import freeze
from manykernels.solvers.smooth.frozen_problem import (
    FrozenPoint,
    FrozenProblem,
    RowLosses,
    second_order_weights,
)
from manykernels.solvers.weight_newton import WeightSteps
from manykernels.solvers.weights import DualMixture, WeightSearch

OPEN_GAP_SHARE = 0.1  # of the current gap, that a round may leave unsolved
# Near p = 1 the bound is as sensitive as the square root of what is left unsolved.
BOUND_SENSITIVITY = 5.0
FINEST_GOAL, FLOAT32_GOAL = 1e-15, 1e-8  # gaps that the two precisions can reach
SLOW_SHARE = 0.25  # of the gap two rounds ago: above it weights take Newton's steps
STALLED_ROUNDS = 12  # without a better gap, which end the search
START_SAMPLE_ROWS = 1000  # that give large problems their first weights


@dataclass(frozen=True)
class TruncatedNewton(IterativeSolver):
    r"""Freeze d, minimize over w by Newton's method, update d, repeat.

    For smooth losses and 1 <= p <= 2. The frozen problem has one kernel,
    :math:`K_d = \sum_f d_f K_f`, and a Newton step a few products with it. Minus the
    gradient of the losses is a dual point, which certifies the result. Weights follow
    their fixed point, accelerated; where that is slow, Newton's method on the weights.
    Large problems take their first weights from a sample of the rows.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach; 1e-6 and less is within reach in float64.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None
        For the sample.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import Softmax
    >>> from manykernels.norms import LpGroupNorm
    >>> stack = np.stack([np.eye(4), np.ones((4, 4))], axis=1)
    >>> problem = Problem(GramBank(stack), np.array([0, 1, 0, 0]), 2, Softmax(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(4))
    >>> TruncatedNewton(tol=1e-8).solve(problem).converged
    True
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-2
    max_iter: int = 200
    random_state: int | np.random.Generator | None = None

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[NewtonRounds, Expansion]:
        require_smooth_loss(problem, type(self).__name__)
        if start is None and problem.n_rows > 2 * START_SAMPLE_ROWS:
            start = self._sampled_start(problem)
        start = start or problem.zero()
        return NewtonRounds(problem, start, self), start

    def _sampled_start(self, problem: Problem) -> Expansion:
        rng = np.random.default_rng(self.random_state)
        rows = np.sort(rng.permutation(problem.n_rows)[:START_SAMPLE_ROWS])
        part = problem.take(rows)
        first = replace(self, tol=max(self.tol, SAMPLE_START_TOL)).solve(part)
        found = require_whole(first).model
        coef = problem.zero().coef
        coef[rows] = found.coef
        return Expansion(coef, found.weights)


class NewtonRounds(Resumable):
    """The state of the search: coefficients, weights, and how precise to be."""

    remembered = ("coef", "goal", "done", "gaps")

    def __init__(
        self, problem: Problem, start: Expansion, solver: TruncatedNewton
    ) -> None:
        self.problem = problem
        self.solver = solver
        self.coef = start.coef
        self.search = WeightSearch(
            problem.norm, problem.norm.normalize_weights(start.weights)
        )
        self.newton: WeightSteps | None = None  # once the search is slow
        self.mixture = DualMixture(problem.norm)
        self.done = 0  # rounds
        self.gaps: list[float] = []  # relative, one a round
        self.goal = OPEN_GAP_SHARE if self._learns_weights else 0.5 * solver.tol
        self._frozen: FrozenProblem | None = None
        self._losses: Any = None  # the same for all weights

    @property
    def _learns_weights(self) -> bool:
        return self.problem.norm.p < 2.0 and self.problem.n_blocks > 1

    @property
    def weights(self) -> Array:
        """The kernel weights of the next round."""
        return self.search.weights if self.newton is None else self.newton.trial[0]

    def iterates(self) -> Iterator[Iterate]:
        """One iterate a round, until no round makes the gap smaller."""
        while self.done < self.solver.max_iter:
            if has_stalled(self.gaps, STALLED_ROUNDS):
                return
            yield self._round()

    def state(self) -> State:
        """The search between two rounds; the combined kernel is made anew."""
        return super().state() | {
            "search": self.search.state(),
            "newton": None if self.newton is None else self.newton.state(),
            "mixture": self.mixture.state(),
        }

    def restore(self, state: State) -> None:
        """Go on from an earlier state."""
        super().restore(state)
        self.search.restore(state["search"])
        self.mixture.restore(state["mixture"])
        self.newton = None
        if state["newton"] is not None:
            self.newton = WeightSteps(self.problem.norm, self.search.weights[None])
            self.newton.restore(state["newton"])
        self._frozen = None

    def _round(self) -> Iterate:
        """Solve the frozen problem, measure, and prepare the next round."""
        self.done += 1
        frozen, weights = self._freeze(), self.weights.copy()
        before = frozen.products
        point = frozen.solve(self.coef, self.goal)
        self.coef = coef = frozen.kernel.get(point.coef)
        norms, dual_norms = frozen.kernel.block_norms([point.coef, point.dual])
        objective = self._primal_side(frozen, point, weights * norms)
        bound, dual = self._dual_side(frozen, point, dual_norms, objective)
        self.gaps.append(relative_gap(objective, bound))
        if self.gaps[-1] > self.solver.tol:
            self._advance(frozen, point, norms)
        return Iterate(
            objective=objective,
            dual_bound=bound,
            updates=frozen.products - before,
            snapshot=lambda: Expansion(coef, weights),
            dual_snapshot=lambda: dual,
        )

    def _freeze(self) -> FrozenProblem:
        """The frozen problem; weights that did not change need no new kernel."""
        known, weights = self._frozen, self.weights
        if known is not None and np.array_equal(known.kernel.weights, weights):
            return known
        self._frozen = None  # two combined kernels would be one too many
        self._frozen = self._frozen_at(weights.copy())
        return self._frozen

    def _frozen_at(self, weights: Array) -> FrozenProblem:
        """The problem under these weights."""
        problem = self.problem
        kernel = freeze(problem.bank, weights, problem.loss.takes_any_array)
        self._losses = self._losses or RowLosses(problem, kernel.device)
        return FrozenProblem(problem, kernel, self._losses)

    def _primal_side(
        self, frozen: FrozenProblem, point: FrozenPoint, block_norms: Array
    ) -> float:
        scores = point.scores
        if not frozen.kernel.exact:
            scores = frozen.kernel.exact_times(point.coef)
        mean_loss = self.problem.reg * frozen.losses.total(scores)
        return self.problem.primal_of(mean_loss, block_norms)

    def _dual_side(
        self,
        frozen: FrozenProblem,
        point: FrozenPoint,
        norms: Array,
        objective: float,
    ) -> tuple[float, Array]:
        """The best bound of this round, and its point.

        Conjugates are convex, so that a mixture of dual points has at least the
        mixture of their gains. Multiples of the point are tried if it does not do.
        """
        problem, losses = self.problem, frozen.losses
        dual, gain = frozen.kernel.get(point.dual), losses.gain(point.dual)
        mixed = problem.reg * self.mixture.add(dual, gain, norms)
        itself = problem.reg * (gain - problem.norm.dual_value(norms))
        if relative_gap(objective, itself) <= self.solver.tol:
            return itself, dual
        alone = problem.bound_on_ray(
            lambda scale: -problem.reg * losses.gain(point.dual, scale),
            losses.feasible_scale(point.dual),
            norms,
        )
        if mixed > alone:
            return mixed, self.mixture.coef
        return alone, dual

    def _advance(self, frozen: FrozenProblem, point: FrozenPoint, norms: Array) -> None:
        """Next weights, and how precisely to solve the next frozen problem."""
        gap = max(self.gaps[-1], self.solver.tol)
        if not self._learns_weights:
            self.goal = max(0.1 * self.goal, self._finest(frozen))
            return
        sharp = BOUND_SENSITIVITY * (self.problem.norm.p - 1.0) + OPEN_GAP_SHARE * gap
        finest = self._finest(frozen)
        self.goal = max(min(self.goal, OPEN_GAP_SHARE * gap * min(1.0, sharp)), finest)
        if self.newton is None and self._slow:
            self.newton = WeightSteps(self.problem.norm, self.search.weights[None])
        if self.newton is None:
            self.search.step(norms, point.dual_value, point.value)
            return
        alone, bounds = np.array([0]), np.array([[point.dual_value], [point.value]])
        if self.newton.accept(alone, *bounds)[0]:
            aim = second_order_weights(frozen, point, self.problem.norm, norms)
            self.newton.aim(alone, aim[None], norms[None] ** 2)

    def _finest(self, frozen: FrozenProblem) -> float:
        return FINEST_GOAL if frozen.kernel.exact else FLOAT32_GOAL

    @property
    def _slow(self) -> bool:
        return len(self.gaps) > 3 and self.gaps[-1] > SLOW_SHARE * self.gaps[-3]
