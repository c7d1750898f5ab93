"""Rounds of one pass over all rows, between which only held rows are asked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.distributed.problem import PartitionedProblem, PartitionLosses
from manykernels.distributed.sums import Correction, Sums
from manykernels.solvers.loop import Iterate, Resumable, has_stalled, relative_gap
from manykernels.solvers.problem import Expansion
from manykernels.solvers.weights import DualMixture, anderson

logger = logging.getLogger(__name__)

INNER_SHARE = 0.3  # of the gap, that a problem on held rows may leave unsolved
LEAST_SHARE = 0.2  # of the tolerance, below which it need not be solved
FIRST_ROUNDS = 1  # of weights, while little is known of the rows that are not held
REMEMBERED = 5  # rounds whose solutions are combined
TOO_FAR = 1.1  # of the smallest objective so far, from where a move is taken back
NEAREST, FARTHEST = 0.1, 0.7  # of such a move, that may be kept
PATIENCE = 6  # rounds without progress that end the search by held rows


class CorrectedRounds(Resumable):
    r"""Minimize the losses of the held rows, corrected to agree with those of all.

    With the gradients of all rows and of the held ones at :math:`w_0`, what is
    minimized next, weights included, is :math:`\frac12 \|w\|_{2,p}^2 + L_{held}(w) +
    \langle \nabla L(w_0) - \nabla L_{held}(w_0), w \rangle`. Its solution is
    :math:`w_0` where that is optimal for all rows, and the nearer to the optimum the
    more the curvature of held rows is that of all. What is missing shows in the
    solutions of earlier rounds, which are combined (Anderson's mixing). A round is one
    pass over all rows, which gives the next correction and, as any gradient does,
    objective and bound.

    Parameters
    ----------
    problem : PartitionedProblem
        With a focus.
    start : Expansion
    solver : PartitionedNewton
        Solves the problems on held rows.

    References
    ----------
    Shamir, Srebro and Zhang (2014), Communication-efficient distributed optimization
    using an approximate Newton-type method.
    """

    remembered = (
        *("coef", "weights", "mixture", "gaps", "objectives"),
        *("points", "solutions", "best", "given_up"),
    )

    def __init__(
        self, problem: PartitionedProblem, start: Expansion, solver: Any
    ) -> None:
        self.problem, self.solver = problem, solver
        self.coef, self.weights = start.coef, start.weights
        self.mixture = DualMixture(problem.norm)
        self.gaps: list[float] = []  # relative, one a round
        self.points: list[Array] = []  # w where corrections were taken,
        self.solutions: list[Array] = []  # and where they led
        self.best = problem.w_of(start)  # w of the smallest objective so far
        self.objectives: list[float] = []  # one a round
        self.given_up = False
        self.losses = PartitionLosses(problem)

    def iterates(self) -> Iterator[Iterate]:
        """One iterate a round; products with all rows where held ones do not help."""
        while not self.given_up and len(self.gaps) < self.solver.max_iter:
            yield self._round()
            self.given_up = has_stalled(self.gaps, PATIENCE)
        if self.given_up:
            logger.info("held rows do not help any more; all rows are asked instead")
            self._move_to(self.best)
            start = Expansion(self.coef, self.weights)
            rest = self.solver.max_iter - len(self.gaps)
            solver = replace(self.solver, max_iter=max(1, rest))
            yield from solver.rounds(self.problem.without_focus(), start).iterates()

    def _round(self) -> Iterate:
        """Measure with a pass over all rows, and solve for the next w."""
        problem, model = self.problem, Expansion(self.coef, self.weights)
        w = problem.w_of(model)
        sums = self.losses.at(w)
        objective = problem.primal_of(problem.reg * sums.loss, problem.block_norms(w))
        bound, dual = self._dual_side(w, sums)
        self.gaps.append(relative_gap(objective, bound))
        self.objectives.append(objective)
        products = 0
        if self.gaps[-1] > self.solver.tol:
            products = self._advance(w, sums, objective)
        return Iterate(
            objective=objective,
            dual_bound=bound,
            updates=products,
            snapshot=lambda: model,
            dual_snapshot=lambda: dual,
        )

    def _dual_side(self, w: Array, sums: Sums) -> tuple[float, Any]:
        """The bound, and the w whose gradients have it; None for a mixture of such."""
        problem, dual = self.problem, -sums.gradient
        norms, gain = problem.block_norms(dual), self.losses.gain(dual)
        mixed = problem.reg * self.mixture.add(dual, gain, norms)
        alone = problem.dual_bound(self.losses, w)
        return (mixed, None) if mixed > alone else (alone, w)

    def _advance(self, w: Array, sums: Sums, objective: float) -> int:
        """The next model; how many products with held rows it took."""
        least = min(self.objectives)
        if objective > TOO_FAR * least:
            self._go_back(w, objective - least)
            return 0
        if objective == least:
            self.best = w
        found = self._solve_held(w, sums)
        self.points = [*self.points, w][-REMEMBERED:]
        self.solutions = [*self.solutions, self.problem.w_of(found.model)][-REMEMBERED:]
        roots = np.sqrt(self.problem.spread(found.model.weights))
        many = [
            np.array([_over(one, roots).ravel() for one in ones])
            for ones in (self.points, self.solutions)
        ]
        mixed = roots * anderson(*many).reshape(w.shape)
        # A kernel without weight has no part in a metric of weights.
        self._move_to(np.where(roots > 0.0, mixed, self.solutions[-1]))
        return sum(line.updates for line in found.history)

    def _solve_held(self, w: Array, sums: Sums) -> Any:
        """Minimize the losses of held rows with the correction at w."""
        held = self.problem.on_held(w)
        here = held.sums(w)
        slope, level = sums.gradient - here.gradient, sums.loss - here.loss
        corrected = replace(held, correction=Correction(w, slope, level))
        tol = max(INNER_SHARE * self.gaps[-1], LEAST_SHARE * self.solver.tol)
        solver = replace(self.solver, tol=tol)
        if not self.points:
            solver = replace(solver, max_iter=FIRST_ROUNDS)
        return solver.solve(corrected, Expansion(self.coef, self.weights))

    def _go_back(self, w: Array, rise: float) -> None:
        """To where a parabola through both values is smallest: w went too far."""
        problem, move = self.problem, w - self.best
        weights = problem.norm.weights(problem.block_norms(self.best))
        pull = _over(self.best, problem.spread(weights))
        uphill = self.losses.gradient(self.best) + pull
        slope = problem.reg * float(np.vdot(uphill, move))
        share = float(np.clip(0.5 * slope / (slope - rise), NEAREST, FARTHEST))
        logger.info("the last move went too far; back to %.2f of it", share)
        self._move_to(self.best + share * move)

    def _move_to(self, w: Array) -> None:
        """The model of w with the weights that suit it."""
        self.weights = self.problem.norm.weights(self.problem.block_norms(w))
        self.coef = _over(w, self.problem.spread(self.weights))


def _over(w: Array, spread: Array) -> Array:
    """w / spread, zero where both are."""
    return np.divide(w, spread, out=np.zeros_like(w), where=spread > 0.0)
