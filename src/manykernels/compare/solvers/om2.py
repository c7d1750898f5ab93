"""OM-2: an online p-norm learner (Jie et al., 2010)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.mirror_passes import MirrorRule, om2_pass
from manykernels.solvers.loop import IterativeSolver
from manykernels.solvers.mirror import MirrorDescent, Passes
from manykernels.solvers.problem import (
    Expansion,
    Problem,
    require_hinge,
    require_p_above_1,
)


@dataclass(frozen=True)
class OM2(IterativeSolver):
    r"""Where the margin is at most 1, :math:`\theta \leftarrow \theta + \eta_t z_t`.

    :math:`\eta_t = \min(1, 1 - 2 \langle w, z_t\rangle / \|z_t\|_{2,q}^2)`, with
    :math:`z_t = \phi(x_t, y_t) - \phi(x_t, k)` for the strongest wrong class k and
    :math:`w_f = \frac1q (\|\theta_f\| / \|\theta\|_{2,q})^{q-2} \theta_f`.

    An online learner with a bound on its mistakes in one pass, for any order of the
    rows. It minimizes no objective: C plays no part in the steps, and a pass without an
    update is the last. Objective and gap are those of the problem at the models on the
    way; the gap stays wide.

    Parameters
    ----------
    passes : int
    tol : float
        Relative duality gap at which to stop.
    patience : int or None
        Stop when this many passes bring no improvement.
    random_state : int, Generator or None

    References
    ----------
    Jie, Orabona, Fornoni, Caputo, Cesa-Bianchi: OM-2: An Online Multi-class
    Multi-kernel Learning Algorithm, CVPR workshops 2010.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(4))
    >>> result = OM2(passes=20, random_state=0).solve(problem)
    >>> [line.updates for line in result.history][:2]
    [4, 4]
    """

    passes: int = 5
    tol: float = 0.0
    patience: int | None = None
    random_state: int | np.random.Generator | None = None

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[Passes, Expansion]:
        """The passes, from zero or from `start`."""
        require_hinge(problem, type(self).__name__)
        require_p_above_1(problem, type(self).__name__)
        descent = _OM2Steps(problem, start)
        rule = MirrorRule(problem.norm.q, problem.reg, online=True)
        rng = np.random.default_rng(self.random_state)
        return Passes(descent, rng, [(self.passes, rule)]), descent.model()


class _OM2Steps(MirrorDescent):
    def visit(
        self, rule: MirrorRule, order: NDArray[np.int64], begin: int
    ) -> tuple[int, int]:
        position, updates = om2_pass(
            self.cache.rows,
            self.cache.slots,
            self.state,
            rule.q,
            self.problem.target,
            self.importance,
            self.pair_norms,
            order,
            begin,
        )
        return int(position), int(updates)
