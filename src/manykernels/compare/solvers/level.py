"""The extended level method (Xu et al., 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.compare.solvers.cuts import Cuts
from manykernels.compare.solvers.inner import FIRST_GOAL, Wrapper, run_wrapper
from manykernels.compare.solvers.requirements import (
    require_combinable,
    require_sparse_norm,
)
from manykernels.solvers.levels import project_on_level
from manykernels.solvers.loop import Callback, Checkpoint, Iterate, SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.requirements import require_hinge


@dataclass(frozen=True)
class LevelMethod:
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

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-2
    max_iter: int = 500
    level: float = 0.5
    random_state: int | np.random.Generator | None = None
    svm_tol: float = FIRST_GOAL

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(
                f"level must be between 0 and 1, got {self.level!r}; choose for "
                "instance 0.5."
            )

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or until `max_iter` rounds are spent."""
        name = type(self).__name__
        require_hinge(problem, name)
        require_sparse_norm(problem, name)
        require_combinable(problem, name)
        search = _Levels(problem, start or problem.zero(), self)
        return run_wrapper(search, callback, checkpoint)


class _Levels(Wrapper):
    """The next weights are the last ones, projected on a level set of the planes."""

    bound: Cuts

    def __init__(
        self, problem: Problem, start: Expansion, settings: LevelMethod
    ) -> None:
        rng = np.random.default_rng(settings.random_state)
        cuts = Cuts(problem.bank.n_blocks)
        super().__init__(
            problem,
            start,
            rng,
            cuts,
            settings.tol,
            settings.max_iter,
            settings.svm_tol,
        )
        self.level = settings.level

    def round(self) -> Iterate:
        solution = self.evaluate(self.weights)
        slopes, heights = self.bound.planes()
        lower = float(np.max(slopes @ self.bound.weights + heights))
        level = (1.0 - self.level) * lower + self.level * self.best
        nearest = project_on_level(self.weights, slopes, heights - level)
        self.weights = self.bound.weights if nearest is None else nearest
        return self.iterate(solution)
