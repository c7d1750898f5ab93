"""MKL by group lasso (Xu et al., 2010)."""

from __future__ import annotations

from dataclasses import dataclass

from manykernels.compare.solvers.kloft import Alternation
from manykernels.compare.solvers.wrapper import Wrapper, WrapperSolver
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.weights import DualMixture


@dataclass(frozen=True)
class GroupLassoMKL(WrapperSolver):
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
    >>> import numpy as np
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

    def search(self, problem: Problem, start: Expansion) -> Wrapper:
        """SVMs, with weights in closed form between them."""
        return Alternation(problem, start, DualMixture(problem.norm), self)
