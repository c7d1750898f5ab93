"""MKL by group lasso (Xu et al., 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.compare.solvers.alternating import Alternation
from manykernels.compare.solvers.inner import FIRST_GOAL, run_wrapper
from manykernels.compare.solvers.requirements import require_combinable
from manykernels.solvers.loop import Callback, Checkpoint, SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.requirements import require_hinge


@dataclass(frozen=True)
class GroupLassoMKL:
    r"""Alternate an SVM with :math:`d_f = \|w_f\| / \sum_g \|w_g\|`, for p = 1.

    The squared group lasso :math:`\frac12 (\sum_f \|w_f\|)^2` is the minimum of
    :math:`\frac12 \sum_f \|w_f\|^2 / d_f` over the simplex, attained at these weights.
    For 1 < p <= 2 the paper's weights are those of `Kloft`. At p = 1 a weight shrinks
    in proportion and never is exactly zero, and the last digits take many rounds. The
    SVM is our multiclass dual ascent.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None
    svm_tol : float
        Relative gap to which an SVM is solved at least; a small current gap asks for
        more. The paper's SVMs are precise from the first, for instance 1e-4.

    References
    ----------
    Xu, Jin, Yang, King, Lyu: Simple and Efficient Multiple Kernel Learning by Group
    Lasso, ICML 2010.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.0), 1.0, np.ones(4))
    >>> result = GroupLassoMKL(tol=1e-4, random_state=0).solve(problem)
    >>> round(result.objective, 3), result.model.weights.round(3).tolist()
    (0.25, [1.0, 0.0])
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-2
    max_iter: int = 500
    random_state: int | np.random.Generator | None = None
    svm_tol: float = FIRST_GOAL

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
        require_combinable(problem, name)
        rng = np.random.default_rng(self.random_state)
        search = Alternation(problem, start, rng, self.tol, self.max_iter, self.svm_tol)
        return run_wrapper(search, callback, checkpoint)
