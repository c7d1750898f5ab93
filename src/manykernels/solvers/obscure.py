"""OBSCURE: an online stage that finds the region, a batch stage that converges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.base.threads import one_blas_thread
from manykernels.hot.mirror import MirrorRule
from manykernels.solvers.loop import Callback, Checkpoint, SolveResult, run
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.passes import Passes
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.requirements import require_hinge, require_smooth_norm


@dataclass(frozen=True)
class Obscure:
    r"""Online-batch strongly convex MKL for 1 < p <= 2.

    Stage 1 adds :math:`\eta z_t` to theta whenever the hinge loss is positive, and
    gives :math:`R = \sqrt{2 \cdot objective / \lambda}`, an upper bound on the norm
    of the optimum. Stage 2 is a proximal projected sub-gradient method on the ball
    of radius R with self-tuned steps. The best iterate is kept, because the first
    steps of stage 2 often raise the objective.

    Parameters
    ----------
    online_passes, batch_passes : int
        Passes over the data in each stage; stage 1 ends early when a pass makes no
        update.
    eta : float
        Step of the online stage: larger is faster, with a looser R.
    tol : float
        Relative duality gap at which to stop.
    patience : int or None
        Stop when this many passes bring no improvement.
    random_state : int, Generator or None

    References
    ----------
    Orabona, Jie, Caputo: Online-Batch Strongly Convex Multi Kernel Learning, CVPR
    2010, Algorithms 1 and 2.
    """

    online_passes: int = 5
    batch_passes: int = 30
    eta: float = 2.0
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
        """Run both stages; the certificate is a by-product, often a loose one."""
        require_hinge(problem, type(self).__name__)
        require_smooth_norm(problem, type(self).__name__)
        with one_blas_thread():
            descent = MirrorDescent(problem, start)
            return run(
                self._passes(descent),
                descent.model(),
                tol=self.tol,
                patience=self.patience,
                callback=callback,
                checkpoint=checkpoint,
            )

    def _passes(self, descent: MirrorDescent) -> Passes:
        def online(_: float) -> MirrorRule:
            return descent.rule(eta=self.eta, online=True)

        def batch(radius: float) -> MirrorRule:
            return descent.rule(radius=radius, self_tuned=True)

        rng = np.random.default_rng(self.random_state)
        stages = [(self.online_passes, online), (self.batch_passes, batch)]
        return Passes(descent, rng, stages)
