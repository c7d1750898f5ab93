"""From a regressor's parameters to the objects that do the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from manykernels.estimators.choices import (
    _check_limit,
    _listed,
    choose_generator,
    require_number,
)
from manykernels.losses import EpsilonInsensitive, Huber, Loss, Squared
from manykernels.solvers import Auto, TruncatedNewton
from manykernels.solvers.regression_ascent import RegressionAscent
from manykernels.solvers.ridge import Ridge

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
SOLVERS: dict[str, Callable[[float, int | None, np.random.Generator], Any]] = {
    "auto": lambda tol, limit, rng: Auto(tol, limit or 200, rng),
    "ridge": lambda tol, limit, rng: Ridge(tol, limit or 100, rng),
    "newton": lambda tol, limit, rng: TruncatedNewton(tol, limit or 200, rng),
    "dual_ascent": lambda tol, limit, rng: RegressionAscent(tol, limit or 200, rng),
}


def choose_regression_loss(loss: Any, epsilon: Any, threshold: Any) -> Loss:
    """A loss by name, or as it is."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss](epsilon, threshold)
    if isinstance(loss, str | type) or not hasattr(loss, "make_feasible"):
        raise ValueError(
            f"loss must be one of {_listed(LOSSES)} or a loss object, got {loss!r}; "
            "choose one of these."
        )
    return loss


def choose_regression_solver(
    solver: Any, tol: Any, max_iter: Any, random_state: Any
) -> Any:
    """A solver by name, with the estimator's settings, or as it is."""
    tol = require_number("tol", tol, 0.0, low_ok=True)
    _check_limit(max_iter)
    if isinstance(solver, str) and solver in SOLVERS:
        return SOLVERS[solver](tol, max_iter, choose_generator(random_state))
    if isinstance(solver, str | type) or not hasattr(solver, "solve"):
        raise ValueError(
            f"solver must be one of {_listed(SOLVERS)} or a solver object, got "
            f"{solver!r}; choose one of these."
        )
    return solver
