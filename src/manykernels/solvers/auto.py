"""The solver behind solver="auto"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels.solvers.dual_ascent import DualAscent
from manykernels.solvers.loop import Callback, Checkpoint, SolveResult
from manykernels.solvers.problem import Expansion, Problem, require_known_loss
from manykernels.solvers.regression.ascent import RegressionAscent
from manykernels.solvers.regression.ridge import Ridge, is_moderate
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton


@dataclass(frozen=True)
class Auto:
    """Certified, whatever the loss: each one has the solver that suits it best.

    Hinge: dual ascent to the gap. Squared loss with a moderate number of rows: exact
    solves. Other smooth losses: Newton's method. Epsilon-insensitive, also of censored
    times: dual ascent.

    Which solver is taken depends on the loss and the number of rows, never on where
    kernel values are held: every storage gives the same fit.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None

    Examples
    --------
    >>> import manykernels as mk
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf; linear", solver=Auto(tol=1e-3, random_state=0))
    >>> model.fit(X, y).duality_gap_ <= 1e-3 * model.objective_
    True
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-2
    max_iter: int = 200
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or until `max_iter` rounds are spent."""
        return self.choose(problem).solve(problem, start, callback, checkpoint)

    def choose(
        self, problem: Problem, rng: np.random.Generator | None = None
    ) -> DualAscent | Ridge | RegressionAscent | TruncatedNewton:
        """The solver for this problem's loss and size."""
        loss = problem.loss
        rng = np.random.default_rng(self.random_state) if rng is None else rng
        if loss.has_hinge_dual:
            return DualAscent(self.tol, self.max_iter, random_state=rng)
        if loss.is_squared and is_moderate(problem):
            return Ridge(self.tol, self.max_iter, rng)
        if loss.smoothness is None and loss.residual_dual is not None:
            return RegressionAscent(self.tol, self.max_iter, rng)
        require_known_loss(problem, type(self).__name__)
        return TruncatedNewton(self.tol, self.max_iter, rng)
