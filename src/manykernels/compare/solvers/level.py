"""The extended level method (Xu et al., 2009)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.compare.solvers.silp import Cuts
from manykernels.compare.solvers.wrapper import (
    Wrapper,
    WrapperSolver,
    require_sparse_norm,
)
from manykernels.solvers.loop import Iterate
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.weights import project_on_level


@dataclass(frozen=True)
class LevelMethod(WrapperSolver):
    r"""SILP's planes h, but the next d is near the last: p = 1.

    :math:`d_{t+1} = \arg\min \|d - d_t\|^2` over the simplex with
    :math:`h(d) \le (1 - \tau) \min h + \tau\, best`. The level set keeps the weights
    from jumping between corners. The linear program is solved by scipy's HiGHS, the
    projection by non-negative least squares, the SVM by our multiclass dual ascent.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    level : float in (0, 1)
        The tau above: close to 1, the weights stay close to the last ones, and rounds
        are many.
    random_state : int, Generator or None
    svm_tol : float
        Relative gap to which an SVM is solved at least; a small current gap asks for
        more. The paper's SVMs are precise from the first, for instance 1e-4.

    References
    ----------
    Xu, Jin, King, Lyu: An Extended Level Method for Efficient Multiple Kernel Learning,
    Advances in Neural Information Processing Systems 21, 2009.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.0), 1.0, np.ones(4))
    >>> result = LevelMethod(tol=1e-4, random_state=0).solve(problem)
    >>> round(result.objective, 3), result.model.weights.round(3).tolist()
    (0.25, [1.0, 0.0])
    """

    level: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(
                f"level must be between 0 and 1, got {self.level!r}; choose for "
                "instance 0.5."
            )

    def search(self, problem: Problem, start: Expansion) -> Wrapper:
        """SVMs and projections in turn."""
        require_sparse_norm(problem, type(self).__name__)
        return _Levels(problem, start, Cuts(problem.bank.n_blocks), self)


class _Levels(Wrapper):
    """The next weights are the last ones, projected on a level set of the planes."""

    bound: Cuts
    settings: LevelMethod

    def round(self) -> Iterate:
        solution = self.evaluate(self.weights)
        slopes, heights = self.bound.planes()
        lower = float(np.max(slopes @ self.bound.weights + heights))
        tau = self.settings.level
        level = (1.0 - tau) * lower + tau * self.best
        nearest = project_on_level(self.weights, slopes, heights - level)
        self.weights = self.bound.weights if nearest is None else nearest
        return self.iterate(solution)
