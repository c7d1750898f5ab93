"""From a parameter's text to the object that does the work."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Auto, DualAscent, Obscure, Pegasos

LOSSES = {"hinge": MulticlassHinge}

# name -> (tol, max_iter or None, generator) -> solver
SOLVERS: dict[str, Callable[[float, int | None, np.random.Generator], Any]] = {
    "auto": lambda tol, limit, rng: Auto(tol, limit or 200, rng),
    "dual_ascent": lambda tol, limit, rng: DualAscent(
        tol, limit or 200, random_state=rng
    ),
    "obscure": lambda tol, limit, rng: Obscure(
        tol=tol, batch_passes=30 if limit is None else limit, random_state=rng
    ),
    "pegasos": lambda tol, limit, rng: Pegasos(limit or 35, tol, random_state=rng),
}


def require_number(
    name: str, value: Any, low: float, high: float = np.inf, *, low_ok: bool = False
) -> float:
    """A finite number in (low, high], or [low, high] if `low_ok`."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if good:
        above = value >= low if low_ok else value > low
        good = above and value <= high and np.isfinite(value)
    if not good:
        bracket = "[" if low_ok else "("
        raise ValueError(
            f"{name} must be a number in {bracket}{low:g}, {high:g}], got {value!r}."
        )
    return float(value)


def choose_norm(p: Any) -> LpGroupNorm:
    """The group norm with exponent p."""
    return LpGroupNorm(require_number("p", p, 1.0, 2.0, low_ok=True))


def choose_loss(loss: Any) -> Any:
    """A loss by name, or as it is."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(
                f"loss must be one of {', '.join(LOSSES)}, got {loss!r}."
            )
        return LOSSES[loss]()
    return loss


def choose_solver(solver: Any, tol: Any, max_iter: Any, random_state: Any) -> Any:
    """A solver by name, with the estimator's settings, or as it is."""
    tol = require_number("tol", tol, 0.0, low_ok=True)
    if max_iter is not None and (max_iter != int(max_iter) or max_iter < 1):
        raise ValueError(
            f"max_iter must be a positive whole number or None, got {max_iter!r}."
        )
    if not isinstance(solver, str):
        return solver
    if solver not in SOLVERS:
        raise ValueError(
            f"solver must be one of {', '.join(SOLVERS)} or a solver object, got "
            f"{solver!r}."
        )
    return SOLVERS[solver](tol, max_iter, choose_generator(random_state))


def choose_generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)
