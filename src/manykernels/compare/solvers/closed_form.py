"""MKL with kernel weights in closed form (Kloft et al., 2011; Xu et al., 2010)."""

from __future__ import annotations

from dataclasses import dataclass

from manykernels.compare.solvers.wrapper import (
    Wrapper,
    WrapperSolver,
)
from manykernels.solvers.loop import Iterate
from manykernels.solvers.problem import Expansion, Problem, require_p_above_1
from manykernels.solvers.weights import DualMixture

# An SVM between two updates of the weights is solved to this share of the gap: less
# precise ones need more updates, more precise ones waste sweeps.
INTERLEAVED_GAP_SHARE = 0.5


@dataclass(frozen=True)
class Kloft(WrapperSolver):
    r"""Alternate an SVM with :math:`d_f \propto \|w_f\|^{2-p}`, for 1 < p <= 2.

    The paper constrains the weights, :math:`\|d\|_r \le 1`, and calls r p; here it is
    2 r / (r + 1). Its updates contract the error by about 2 - p a round. The SVM is
    our multiclass dual ascent.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    interleaved : bool
        Update the weights after every few sweeps of the SVM (the paper's chunking
        algorithm), rather than once it is solved (its wrapper).
    random_state : int, Generator or None
    svm_tol : float
        Relative gap to which an SVM is solved at least; a small current gap asks for
        more. The paper's SVMs are precise from the first, for instance 1e-4.

    References
    ----------
    Kloft, Brefeld, Sonnenburg, Zien: lp-Norm Multiple Kernel Learning, JMLR 2011,
    Algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(4))
    >>> result = Kloft(tol=1e-4, random_state=0).solve(problem)
    >>> round(result.objective, 3), result.model.weights.round(3).tolist()
    (0.25, [1.0, 0.0])
    """

    interleaved: bool = False

    def wrapper(self, problem: Problem, start: Expansion) -> Wrapper:
        """SVMs, with weights in closed form between them."""
        because = "the dual has no gradient at p = 1"
        require_p_above_1(problem, type(self).__name__, because)
        kind = _Interleaved if self.interleaved else Alternation
        return kind(problem, start, DualMixture(problem.norm), self)


class Alternation(Wrapper):
    r"""Solve for w under d, set :math:`d_f = (\|w_f\| / \|w\|_{2,p})^{2-p}`, repeat.

    The weights are the exact minimizer for the current w, so the objective never rises.
    """

    def round(self) -> Iterate:
        """One SVM, then new weights."""
        solution = self.evaluate(self.weights)
        iterate = self.iterate(solution)
        lengths = self.weights * solution.theta_norms
        self.weights = self.problem.norm.weights(lengths)
        return iterate


class _Interleaved(Alternation):
    """SVMs end after the few sweeps that bring them halfway."""

    def round(self) -> Iterate:
        iterate = super().round()
        self.goal = INTERLEAVED_GAP_SHARE * max(self.gap, self.tol)
        return iterate


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

    def wrapper(self, problem: Problem, start: Expansion) -> Wrapper:
        """SVMs, with weights in closed form between them."""
        return Alternation(problem, start, DualMixture(problem.norm), self)
