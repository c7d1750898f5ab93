"""From a parameter's text to the object that does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state

from manykernels.losses import (
    Loss,
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
    SquaredHinge,
)
from manykernels.norms import LpGroupNorm
from manykernels.solvers import (
    OM2,
    SILP,
    SMOMKL,
    UFO,
    Auto,
    DualAscent,
    GroupLassoMKL,
    Kloft,
    LevelMethod,
    Obscure,
    Pegasos,
    SimpleMKL,
)
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.spom import SPOM
from manykernels.solvers.svrg import SVRG

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
    "spom": lambda tol, limit, rng: SPOM(limit or 50, tol, random_state=rng),
    "pegasos": lambda tol, limit, rng: Pegasos(limit or 35, tol, random_state=rng),
    "ufo": lambda tol, limit, rng: UFO(limit or 300, tol=tol, random_state=rng),
    "om2": lambda tol, limit, rng: OM2(limit or 5, tol, random_state=rng),
    "kloft": lambda tol, limit, rng: Kloft(tol, limit or 500, random_state=rng),
    "simple_mkl": lambda tol, limit, rng: SimpleMKL(tol, limit or 500, rng),
    "silp": lambda tol, limit, rng: SILP(tol, limit or 500, rng),
    "level": lambda tol, limit, rng: LevelMethod(tol, limit or 500, random_state=rng),
    "group_lasso": lambda tol, limit, rng: GroupLassoMKL(tol, limit or 500, rng),
    "smo_mkl": lambda tol, limit, rng: SMOMKL(tol, limit or 1000),
}


def require_number(
    name: str, value: Any, low: float, high: float = np.inf, *, low_ok: bool = False
) -> float:
    """A finite number in (low, high], or [low, high] if `low_ok`.

    Examples
    --------
    >>> require_number("C", 10, 0.0)
    10.0
    """
    good = isinstance(value, Real) and not isinstance(value, bool)
    if good:
        above = value >= low if low_ok else value > low
        good = above and value <= high and np.isfinite(value)
    if not good:
        start = "[" if low_ok else "("
        end = "inf)" if np.isinf(high) else f"{high:g}]"
        raise ValueError(
            f"{name} must be a number in {start}{low:g}, {end}, got {value!r}; choose "
            "one in that range."
        )
    return float(value)


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
    if isinstance(loss, str | type) or not hasattr(loss, "make_feasible"):
        raise ValueError(
            f"loss must be one of {_listed(names)} or a loss object, got {loss!r}; "
            "choose one of these."
        )
    return cast(Loss, loss)


def streams_loss(estimator: Any) -> bool:
    """Whether `partial_fit` knows the loss; as scikit-learn's `available_if` asks."""
    loss = choose_loss(estimator.loss).name
    if loss != "hinge":
        raise ValueError(
            f"partial_fit handles the hinge loss only, got the loss {loss!r}; use "
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
            f"{solver!r}; choose one of these."
        )
    return solver


def choose_generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)


def _check_limit(max_iter: Any) -> None:
    whole = isinstance(max_iter, Integral) and not isinstance(max_iter, bool)
    if max_iter is not None and not (whole and max_iter >= 1):
        raise ValueError(
            f"max_iter must be a positive whole number or None, got {max_iter!r}; "
            "choose for instance 100."
        )


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
