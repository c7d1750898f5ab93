"""UFO-MKL: dual averaging with a group lasso (Orabona and Jie, 2011)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.hot.mirror_passes import MirrorRule, ufo_pass
from manykernels.solvers.loop import Iterate, IterativeSolver
from manykernels.solvers.mirror import MirrorDescent, Passes
from manykernels.solvers.problem import (
    Expansion,
    Problem,
    require_hinge,
    require_p_above_1,
)


@dataclass(frozen=True)
class UFO(IterativeSolver):
    r"""minimize :math:`\frac\lambda2\|w\|_{2,p}^2 + \alpha\|w\|_{2,1}` + mean loss.

    An elastic net on the block norms, 1 < p <= 2. After t rows, theta is the sum of
    their negative sub-gradients and
    :math:`w_f = \frac1{\lambda t} \frac{v_f}{\|\theta_f\|}
    (v_f / \|v\|_q)^{q-2} \theta_f` with :math:`v_f = [\|\theta_f\| - \alpha t]_+`.

    With alpha = 0 this is the problem that all solvers share. Otherwise objective and
    gap are those of the formula above, not of the problem; `objective` and `dual_value`
    compute them. After whole passes theta / t is a dual point. The error falls as 1/t.

    Parameters
    ----------
    passes : int
    alpha : float
        Factor of the group lasso; kernels with little to say get the weight zero.
    tol : float
        Relative duality gap at which to stop.
    patience : int or None
        Stop when this many passes bring no improvement.
    random_state : int, Generator or None

    References
    ----------
    Orabona, Jie: Ultra-Fast Optimization Algorithm for Sparse Multi Kernel Learning,
    ICML 2011, Algorithm 1; its p for F kernels is `paper_p(F)`.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(4))
    >>> result = UFO(alpha=0.1, tol=1e-2, random_state=0).solve(problem)
    >>> bool(abs(result.objective - 0.3914) < 0.01), result.model.weights.tolist()
    (True, [1.0, 0.0])
    """

    passes: int = 300
    alpha: float = 0.0
    tol: float = 0.0
    patience: int | None = None
    random_state: int | np.random.Generator | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.alpha) and self.alpha >= 0.0):
            raise ValueError(
                f"alpha must be a number >= 0, got {self.alpha!r}; choose for instance "
                "0.01."
            )

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[Passes, Expansion]:
        """The passes; `start` has no effect."""
        require_hinge(problem, type(self).__name__)
        require_p_above_1(problem, type(self).__name__)
        rule = MirrorRule(problem.norm.q, problem.reg)
        rng = np.random.default_rng(self.random_state)
        passes = Passes(_Averaging(problem, self), rng, [(self.passes, rule)])
        return passes, problem.zero()

    def objective(self, problem: Problem, scores: Array, block_norms: Array) -> float:
        """The formula above, from scores and the norms ||w_f||."""
        lasso = self.alpha * float(block_norms.sum())
        return problem.primal_value(scores, block_norms) + lasso

    def dual_value(self, problem: Problem, coef: Array, theta_norms: Array) -> float:
        """Its dual at feasible coefficients: the norms lose alpha / reg first."""
        rest = np.maximum(theta_norms - self.alpha / problem.reg, 0.0)
        return problem.dual_value(coef, rest)


def paper_p(n_blocks: int) -> float:
    """2 log F / (2 log F - 1), at most 2: nearly sparse, yet strongly convex.

    Examples
    --------
    >>> round(paper_p(12), 3), paper_p(2)
    (1.252, 2.0)
    """
    q = max(2.0 * float(np.log(n_blocks)), 2.0)
    return q / (q - 1.0)


class _Averaging(MirrorDescent):
    """Block scales hold 1 / (reg t), so the common scale of mirror descent stays 1."""

    def __init__(self, problem: Problem, settings: UFO) -> None:
        super().__init__(problem)
        self.settings = settings

    def visit(
        self, rule: MirrorRule, order: NDArray[np.int64], begin: int
    ) -> tuple[int, int]:
        position, updates = ufo_pass(
            self.cache.rows,
            self.cache.slots,
            self.state,
            rule.q,
            rule.reg,
            self.settings.alpha,
            self.problem.target,
            self.importance,
            order,
            begin,
        )
        return int(position), int(updates)

    def iterate(self, updates: int = 0) -> Iterate:
        """Objective and dual value after whole passes."""
        problem, state = self.problem, self.state
        shrink = 1.0 / (problem.reg * float(state.scalars[1]))
        dual_coef = shrink * state.coef
        theta_norms = shrink * np.sqrt(state.square_norms)
        return Iterate(
            self.objective(),
            self.settings.dual_value(problem, dual_coef, theta_norms),
            updates,
            self.model,
            lambda: dual_coef,
        )

    def objective(self) -> float:
        scale = self.state.block_scale.astype(np.float64)
        lengths = scale * np.sqrt(self.state.square_norms)
        return self.settings.objective(self.problem, self.scores(), lengths)
