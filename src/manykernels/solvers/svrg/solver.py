"""Multi-epoch SVRG for MKL with smooth losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.base.threads import one_blas_thread
from manykernels.solvers.loop import Callback, Checkpoint, Search, SolveResult, run
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.requirements import (
    require_lasting_weights,
    require_smooth_loss,
)
from manykernels.solvers.svrg.practical import SharedEpochs
from manykernels.solvers.svrg.theory import BlockEpochs

STEPS = ("practical", "theory")


@dataclass(frozen=True)
class SVRG:
    r"""Epochs of stochastic variance reduced gradients, weights in closed form between.

    For smooth losses and 1 < p <= 2. Within an epoch the kernel weights d are frozen
    and a row's gradient is corrected by that of a snapshot,

    .. math::
        w_f \leftarrow w_f - h_f \Bigl( \tfrac{\lambda}{d_f} w_f + L_f
        + \phi_f(x_t) \otimes (loss'(s_t) - loss'(s_t^0)) \Bigr),

    with :math:`L_f` the snapshot's full loss gradient; then
    :math:`d_f = (\|w_f\| / \|w\|_{2,p})^{2-p}`. The error falls by a factor an epoch.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Epochs at most, of practical steps.
    steps : {"practical", "theory"}
        "theory" takes the paper's step and length for every kernel; they guarantee
        :math:`E[g(w_J) - g^*] \le eps\, (g(w_0) - g^*)` after ceil(log(1 / eps)) epochs
        and are far more careful than needed. "practical" adapts them as it goes.
    eps : float, optional
        Of that guarantee; `tol` by default.
    random_state : int, Generator or None

    References
    ----------
    Alioscha-Perez, Oveneke, Jiang, Sahli: Multiple Kernel Learning via Multi-Epochs
    SVRG, 2017, Algorithm 1; its weight exponent r is our p = 2r / (r + 1).

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import Softmax
    >>> from manykernels.norms import LpGroupNorm
    >>> stack = np.stack([np.eye(4), np.ones((4, 4))], axis=1)
    >>> problem = Problem(GramBank(stack), np.array([0, 1, 0, 0]), 2, Softmax(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(4))
    >>> SVRG(tol=1e-6, random_state=0).solve(problem).converged
    True
    """

    tol: float = 1e-2
    max_iter: int = 200
    steps: str = "practical"
    eps: float | None = None
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Run epochs to the relative gap `tol`, or as many as there may be."""
        require_smooth_loss(problem, type(self).__name__)
        require_lasting_weights(problem, type(self).__name__)
        start = start or problem.zero()
        with one_blas_thread():
            search = self._search(problem, start)
            return run(
                search, start, tol=self.tol, callback=callback, checkpoint=checkpoint
            )

    def _search(self, problem: Problem, start: Expansion) -> Search:
        rng = np.random.default_rng(self.random_state)
        if self.steps == "practical":
            return SharedEpochs(problem, start, rng, self.max_iter)
        if self.steps != "theory":
            raise ValueError(
                f"steps must be one of {', '.join(STEPS)}, got {self.steps!r}; choose "
                "'practical' if in doubt."
            )
        eps = self.tol if self.eps is None else self.eps
        if not 0.0 < eps < 1.0:
            raise ValueError(
                f"steps='theory' needs eps between 0 and 1, got {eps!r}; set eps or "
                "tol to for instance 0.01."
            )
        return BlockEpochs(problem, start, rng, eps)
