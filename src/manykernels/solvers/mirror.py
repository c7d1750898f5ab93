"""Mirror descent on the group norm: what OBSCURE's two stages and Pegasos share.

The paper's general algorithm (proximal projected sub-gradient descent) with three
step rules; the loop itself is compiled, see `manykernels.hot.mirror`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array, Values
from manykernels.hot.mirror import MirrorRule, MirrorState, hinge_sums, mirror_pass
from manykernels.norms.group import p_norm, p_norms
from manykernels.solvers.loop import Iterate
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.rows import RowCache
from manykernels.solvers.state import State


class MirrorDescent:
    """theta and its score cache, with passes over the data that change them.

    w_f = (1/q) (||theta_f|| / ||theta||)^(q-2) theta_f throughout.
    """

    def __init__(self, problem: Problem, start: Expansion | None = None) -> None:
        self.problem = problem
        self.cache = RowCache(problem.bank)
        self.importance = problem.sample_weight / problem.sample_weight.mean()
        doubled = np.sqrt(2.0 * np.maximum(problem.bank.diagonals(), 0.0))
        self.pair_norms = p_norms(doubled, problem.norm.q)
        self.state = self._initial_state(start or problem.zero())

    def _initial_state(self, start: Expansion) -> MirrorState:
        """theta = q coef keeps w where start.weights are optimal for its coef."""
        bank, q = self.problem.bank, self.problem.norm.q
        coef = q * start.coef
        if coef.any():
            scores = np.ascontiguousarray(bank.block_scores(coef))
            square_norms = np.maximum(bank.square_norms(coef), 0.0)
        else:
            shape = (self.problem.n_outputs, bank.n_blocks, bank.n_rows)
            scores = np.zeros(shape, bank.dtype)
            square_norms = np.zeros(bank.n_blocks)
        norms = np.sqrt(square_norms)
        scale = self.problem.norm.mirror_scale(norms) / q
        scalars = np.array([1.0, 0.0, 0.0, p_norm(norms, q)])
        return MirrorState(
            coef, scores, square_norms, scale.astype(bank.dtype), scalars
        )

    def stored(self) -> State:
        """All that the next pass depends on, beside the problem."""
        return {"state": list(self.state), "cache": self.cache.state()}

    def restore(self, stored: State) -> None:
        """Go on from `stored` as if there had been no interruption."""
        self.state = MirrorState(*stored["state"])
        self.cache.restore(stored["cache"])

    def run_pass(self, rule: MirrorRule, order: NDArray[np.int64]) -> int:
        """Visit the rows in this order; returns the number of updates."""
        position, updates = self.visit(rule, order, 0)
        while position < len(order):
            ahead = order[position:]
            wanted = self._likely(ahead)
            wanted[0] = True  # the loop waits for it, whatever rounding says here
            self.cache.fill(ahead[wanted])
            position, new = self.visit(rule, order, position)
            updates += new
        return updates

    def visit(
        self, rule: MirrorRule, order: NDArray[np.int64], begin: int
    ) -> tuple[int, int]:
        """Visit rows from a position on; returns the position reached and the updates.

        A position short of the end asks for the kernel row of order[position].
        """
        position, updates = mirror_pass(
            self.cache.rows,
            self.cache.slots,
            self.state,
            rule,
            self.problem.target,
            self.importance,
            self.pair_norms,
            order,
            begin,
        )
        return int(position), int(updates)

    def _likely(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows that would be updated if they were visited now."""
        scores = self.scores()[rows]
        target = self.problem.target[rows]
        return self.problem.loss.value(scores, target) > 0.0

    def rule(
        self,
        *,
        eta: float = 0.0,
        radius: float = np.inf,
        online: bool = False,
        self_tuned: bool = False,
    ) -> MirrorRule:
        """A step rule for this problem."""
        norm, reg = self.problem.norm, self.problem.reg
        return MirrorRule(norm.q, reg, eta, radius, online, self_tuned)

    def scores(self) -> Array:
        """Scores of the training rows, (rows, outputs), from the cache."""
        return np.asarray(self.state.scalars[0] * self._unscaled().T.astype(np.float64))

    def _unscaled(self) -> Values:
        """Scores before the common scale, (outputs, rows)."""
        return np.asarray(np.matmul(self.state.block_scale, self.state.scores))

    def objective(self) -> float:
        """Primal value, from the cache."""
        return self.values()[0]

    def values(self) -> tuple[float, float, float]:
        """Objective, the best dual value along the coefficients, and its multiple.

        What `Problem.primal_value` and `Problem.dual_bound` give, in one sweep over
        the cache: every pass asks for it. An update keeps the signs and the balance
        of a row feasible, so the largest own coefficient bounds the dual scale.
        """
        problem, (scale, _, _, theta_norm) = self.problem, self.state.scalars
        loss, linear, largest = hinge_sums(
            self._unscaled(), scale, self.state.coef, problem.target, problem.bound
        )
        reg, q = problem.reg, problem.norm.q
        objective = reg * (loss + 0.5 * (theta_norm / q) ** 2)
        if largest == 0.0:
            return objective, 0.0, 0.0
        cost = (theta_norm / scale) ** 2
        best = 1.0 / largest
        if cost > 0.0:  # else no kernel sees the updated rows
            best = min(best, linear / cost)
        bound = reg * (best * linear - 0.5 * best * best * cost)
        return objective, bound, best

    def model(self) -> Expansion:
        """The current model, copied."""
        weights = self.state.block_scale.astype(np.float64)
        # Weights tell kernels apart; the common factor goes to the coefficients.
        total = p_norm(weights, self.problem.norm.weight_exponent)
        if total == 0.0:
            return self.problem.zero()
        factor = total * self.state.scalars[0]
        return Expansion(factor * self.state.coef, weights / total)

    def iterate(self, updates: int) -> Iterate:
        """What the shared loop records after a pass."""
        objective, dual_bound, multiple = self.values()
        return Iterate(
            objective,
            dual_bound,
            updates,
            self.model,
            lambda: multiple * self.state.coef,
        )
