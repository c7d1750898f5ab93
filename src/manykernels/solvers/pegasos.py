"""Pegasos on the group norm, the baseline of the OBSCURE paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.base.threads import one_blas_thread
from manykernels.solvers.loop import Callback, Checkpoint, SolveResult, run
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.passes import Passes
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.requirements import require_hinge, require_smooth_norm


@dataclass(frozen=True)
class Pegasos:
    r"""Projected sub-gradient descent with step :math:`q / (\lambda t)`, 1 < p <= 2.

    The first step multiplies the start by zero, so a warm start has no effect; the
    ball has the radius :math:`\sqrt{2 / \lambda}` that the zero model guarantees.

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
    Shalev-Shwartz, Singer, Srebro: Pegasos, ICML 2007, extended to the (2, p) group
    norm as in the experiments of Orabona et al. 2010.
    """

    passes: int = 35
    tol: float = 0.0
    patience: int | None = None
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Run the passes; `start` is accepted for uniformity and has no effect."""
        require_hinge(problem, type(self).__name__)
        require_smooth_norm(problem, type(self).__name__)
        with one_blas_thread():
            descent = MirrorDescent(problem)
            rule = descent.rule(radius=np.sqrt(2.0 / problem.reg))
            rng = np.random.default_rng(self.random_state)
            return run(
                Passes(descent, rng, [(self.passes, lambda _: rule)]),
                problem.zero(),
                tol=self.tol,
                patience=self.patience,
                callback=callback,
                checkpoint=checkpoint,
            )
