"""From a parameter's text to the object that does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from manykernels.inputs.parameters import choose_generator, require_number
from manykernels.losses import (
    Loss,
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
    SquaredHinge,
)
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Auto, DualAscent, Obscure, Pegasos
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton
from manykernels.solvers.svrg.solver import SVRG

LOSSES: dict[str, Callable[[], Loss]] = {
    "hinge": MulticlassHinge,
    "log": Softmax,
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
}

# name -> (tol, max_iter or None, generator) -> solver
Solvers = Mapping[str, Callable[[float, int | None, np.random.Generator], Any]]
SOLVERS: Solvers = {
    "auto": lambda tol, limit, rng: Auto(tol, limit or 200, rng),
    "dual_ascent": lambda tol, limit, rng: DualAscent(
        tol, limit or 200, random_state=rng
    ),
    "truncated_newton": lambda tol, limit, rng: TruncatedNewton(tol, limit or 200, rng),
    "svrg": lambda tol, limit, rng: SVRG(tol, limit or 200, random_state=rng),
    "obscure": lambda tol, limit, rng: Obscure(
        tol=tol, batch_passes=limit or 30, random_state=rng
    ),
    "pegasos": lambda tol, limit, rng: Pegasos(limit or 35, tol, random_state=rng),
}


def choose_norm(p: Any) -> LpGroupNorm:
    """The group norm with exponent p."""
    return LpGroupNorm(require_number("p", p, 1.0, 2.0, low_ok=True))


def choose_loss(loss: Any) -> Loss:
    """A loss by name, or as it is."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    return require_loss(loss, LOSSES)


def require_loss(loss: Any, names: Iterable[str]) -> Loss:
    """Raise unless it is a loss object; the names would have done as well."""
    if not isinstance(loss, Loss):
        raise ValueError(
            f"loss must be one of {_listed(names)} or a loss object, got {loss!r}; "
            "choose one of these."
        )
    return loss


def streams_loss(estimator: Any) -> bool:
    """Whether `partial_fit` knows the loss; as scikit-learn's `available_if` asks."""
    loss = choose_loss(estimator.loss)
    if not loss.has_hinge_dual:
        raise ValueError(
            f"partial_fit handles the hinge loss only, got the loss {loss.name!r}; use "
            "loss='hinge', or fit."
        )
    return True


def choose_solver(
    solver: Any,
    tol: Any,
    max_iter: Any,
    random_state: Any,
    solvers: Solvers = SOLVERS,
) -> Any:
    """A solver by name, with the estimator's settings, or as it is."""
    tol = require_number("tol", tol, 0.0, low_ok=True)
    _check_limit(max_iter)
    if isinstance(solver, str) and solver in solvers:
        return solvers[solver](tol, max_iter, choose_generator(random_state))
    if isinstance(solver, str | type) or not hasattr(solver, "solve"):
        raise ValueError(
            f"solver must be one of {_listed(solvers)} or a solver object, got "
            f"{solver!r}; choose one of these, or a rival such as "
            "manykernels.compare.SimpleMKL()."
        )
    return solver


def _check_limit(max_iter: Any) -> None:
    whole = isinstance(max_iter, Integral) and not isinstance(max_iter, bool)
    if max_iter is not None and not (whole and max_iter >= 1):
        raise ValueError(
            f"max_iter must be a positive whole number or None, got {max_iter!r}; "
            "choose for instance 100."
        )


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
