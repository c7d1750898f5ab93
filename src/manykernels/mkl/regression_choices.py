"""From a regressor's parameters to the objects that do the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manykernels.inputs.parameters import require_number
from manykernels.losses import EpsilonInsensitive, Huber, Loss, Squared
from manykernels.mkl.choices import Solvers, choose_solver, require_loss
from manykernels.solvers import Auto, TruncatedNewton
from manykernels.solvers.regression.ascent import RegressionAscent
from manykernels.solvers.regression.ridge import Ridge

# name -> (epsilon, threshold) -> loss
LOSSES: dict[str, Callable[[Any, Any], Loss]] = {
    "squared": lambda epsilon, threshold: Squared(),
    "huber": lambda epsilon, threshold: Huber(
        require_number("threshold", threshold, 0.0)
    ),
    "epsilon_insensitive": lambda epsilon, threshold: EpsilonInsensitive(
        require_number("epsilon", epsilon, 0.0, low_ok=True)
    ),
}

# name -> (tol, max_iter or None, generator) -> solver
SOLVERS: Solvers = {
    "auto": lambda tol, limit, rng: Auto(tol, limit or 200, rng),
    "ridge": lambda tol, limit, rng: Ridge(tol, limit or 100, rng),
    "newton": lambda tol, limit, rng: TruncatedNewton(tol, limit or 200, rng),
    "dual_ascent": lambda tol, limit, rng: RegressionAscent(tol, limit or 200, rng),
}


def choose_regression_loss(loss: Any, epsilon: Any, threshold: Any) -> Loss:
    """A loss by name, or as it is."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss](epsilon, threshold)
    return require_loss(loss, LOSSES)


def choose_regression_solver(
    solver: Any, tol: Any, max_iter: Any, random_state: Any
) -> Any:
    """A solver by name, with the estimator's settings, or as it is."""
    return choose_solver(solver, tol, max_iter, random_state, SOLVERS)
