"""Semi-infinite linear programming (Sonnenburg et al., 2006)."""

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
from manykernels.solvers.loop import Callback, Checkpoint, Iterate, SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.requirements import require_hinge


@dataclass(frozen=True)
class SILP:
    r"""Maximize t with :math:`\sum_f d_f S_f(A) \ge t` for all dual points A; p = 1.

    :math:`S_f(A) = \frac12 \|\theta_f\|^2 - \ell(A)` and d lies in the simplex. A round
    solves the SVM for the current weights, which gives the constraint they violate
    most, and then the linear program with the constraints so far (scipy's HiGHS). The
    weights jump between corners for many rounds before they settle. The SVM is our
    multiclass dual ascent.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach; the linear program's value is the lower bound.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None
    svm_tol : float
        Relative gap to which an SVM is solved at least; a small current gap asks for
        more. The paper's SVMs are precise from the first, for instance 1e-4.

    References
    ----------
    Sonnenburg, Raetsch, Schaefer, Schoelkopf: Large Scale Multiple Kernel Learning,
    JMLR 2006, Algorithm 1.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.0), 1.0, np.ones(4))
    >>> result = SILP(tol=1e-4, random_state=0).solve(problem)
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
        require_sparse_norm(problem, name)
        require_combinable(problem, name)
        cuts = Cuts(problem.bank.n_blocks)
        rng = np.random.default_rng(self.random_state)
        start = start or problem.zero()
        search = _CuttingPlanes(
            problem, start, rng, cuts, self.tol, self.max_iter, self.svm_tol
        )
        return run_wrapper(search, callback, checkpoint)


class _CuttingPlanes(Wrapper):
    """The next weights minimize the planes so far."""

    bound: Cuts

    def round(self) -> Iterate:
        solution = self.evaluate(self.weights)
        self.weights = self.bound.weights
        return self.iterate(solution)
