"""Kernel weights in closed form between two SVMs, as Kloft et al. and Xu et al. do."""

from __future__ import annotations

import numpy as np

from manykernels.compare.solvers.inner import Wrapper
from manykernels.solvers.loop import Iterate
from manykernels.solvers.mixture import DualMixture
from manykernels.solvers.problem import Expansion, Problem

FEW_SWEEPS = 0.5  # part of the gap that an interleaved SVM may leave unsolved


class Alternation(Wrapper):
    r"""Solve for w under d, set :math:`d_f = (\|w_f\| / \|w\|_{2,p})^{2-p}`, repeat.

    The weights are the exact minimizer for the current w, so the objective never rises.
    Interleaved SVMs end after the few sweeps that bring them halfway.
    """

    def __init__(
        self,
        problem: Problem,
        start: Expansion | None,
        rng: np.random.Generator,
        tol: float,
        max_iter: int,
        svm_tol: float,
        interleaved: bool = False,
    ) -> None:
        bound = DualMixture(problem.norm)
        start = start or problem.zero()
        super().__init__(problem, start, rng, bound, tol, max_iter, svm_tol)
        self.interleaved = interleaved

    def round(self) -> Iterate:
        """One SVM, then new weights."""
        solution = self.evaluate(self.weights)
        iterate = self.iterate(solution)
        if self.interleaved:
            self.goal = FEW_SWEEPS * max(self.gap, self.tol)
        lengths = self.weights * solution.theta_norms
        self.weights = self.problem.norm.weights(lengths)
        return iterate
