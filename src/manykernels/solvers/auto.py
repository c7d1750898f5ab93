"""The solver behind solver="auto"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.dual_ascent import DualAscent
from manykernels.solvers.loop import (
    Callback,
    Checkpoint,
    SolveResult,
    require_whole,
)
from manykernels.solvers.mirror import Obscure
from manykernels.solvers.problem import Expansion, Problem, require_known_loss
from manykernels.solvers.regression.ascent import RegressionAscent
from manykernels.solvers.regression.ridge import Ridge, is_moderate
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton

ONLINE_PASSES = 2
ONLINE_P = 1.1  # the online stage needs p > 1, and is slow close to 1
FEW_ROWS = 100  # problems that dual ascent solves before the online stage has begun
WEIGHT_ROWS = 300  # whose online stage gives good weights
MANY_ROWS = 1_000  # above that, growing working sets give a start sooner,
MANY_SPARSE_ROWS = 5_000  # or at p = 1, where they take many rounds


class Certified(Protocol):
    """A solver that ends with a certificate."""

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to a relative gap."""


@dataclass(frozen=True)
class Auto:
    """Certified, whatever the loss: each one has the solver that suits it best.

    Hinge: OBSCURE's online stage on some of the rows for a start with good weights,
    unless there are many rows, then dual ascent to the gap. Squared loss with a
    moderate number of rows: exact solves. Other smooth losses: Newton's method.
    Epsilon-insensitive, also of censored times: dual ascent.

    Which steps are taken depends on the loss and the number of rows, never on where
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
        rng = np.random.default_rng(self.random_state)
        solver = self.choose(problem, rng)
        resumed = checkpoint is not None and checkpoint.load() is not None
        if isinstance(solver, DualAscent) and start is None and not resumed:
            start = self._online_start(problem, rng)
        return solver.solve(problem, start, callback, checkpoint)

    def choose(
        self, problem: Problem, rng: np.random.Generator | None = None
    ) -> Certified:
        """The solver for this problem's loss and size."""
        loss, settings = problem.loss, (self.tol, self.max_iter)
        if loss.has_hinge_dual:
            return DualAscent(*settings, random_state=rng)
        if loss.is_squared and is_moderate(problem):
            return Ridge(*settings, rng)
        if loss.smoothness is None and loss.residual_dual is not None:
            return RegressionAscent(*settings, rng)
        require_known_loss(problem, type(self).__name__)
        return TruncatedNewton(*settings, rng)

    def _online_start(
        self, problem: Problem, rng: np.random.Generator
    ) -> Expansion | None:
        """Weights from OBSCURE's online stage, where they come sooner than others."""
        many = MANY_SPARSE_ROWS if problem.norm.p == 1.0 else MANY_ROWS
        if not FEW_ROWS < problem.n_rows <= many:
            return None
        smooth = replace(problem, norm=LpGroupNorm(max(problem.norm.p, ONLINE_P)))
        online = Obscure(online_passes=ONLINE_PASSES, batch_passes=0, random_state=rng)
        # Good weights, but coefficients from which the way is longer than from zero:
        # for weights, some of the rows do as well.
        rows = np.sort(rng.permutation(problem.n_rows)[:WEIGHT_ROWS])
        some = smooth.restrict(rows) if len(rows) < problem.n_rows else smooth
        found = require_whole(online.solve(some)).model
        return replace(problem.zero(), weights=found.weights)
