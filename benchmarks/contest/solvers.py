"""Who takes part: ours first, then the rivals, all on the same bank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manykernels import compare
from manykernels import solvers as mks

OURS = "auto"
FOREVER = 100_000  # rounds: time and the gap end a run
ROUGH, FINE = (1e-2,), (1e-3,)
PRECISE = 1e-4  # relative gap of the SVMs of wrappers in the form of their papers


@dataclass(frozen=True)
class Entrant:
    """A solver, and whether it solves the problem that is graded."""

    name: str
    make: Callable[[float, int], Any]  # from a relative gap and a seed
    same_problem: bool = True
    tols: tuple[float, ...] = (1e-2, 1e-3)  # that it is asked for, one run each


ANY_NORM = (
    Entrant(OURS, lambda tol, seed: mks.Auto(tol, random_state=seed)),
    Entrant("group lasso", lambda tol, _: compare.GroupLassoMKL(tol, FOREVER)),
)
SPARSE = (
    *ANY_NORM,
    Entrant("SimpleMKL", lambda tol, _: compare.SimpleMKL(tol, FOREVER)),
    Entrant("SILP", lambda tol, _: compare.SILP(tol, FOREVER)),
    Entrant("level method", lambda tol, _: compare.LevelMethod(tol, FOREVER)),
    Entrant(
        "SimpleMKL, precise SVMs",
        lambda tol, _: compare.SimpleMKL(tol, FOREVER, svm_tol=PRECISE),
        tols=ROUGH,
    ),
    Entrant(
        "SILP, precise SVMs",
        lambda tol, _: compare.SILP(tol, FOREVER, svm_tol=PRECISE),
        tols=ROUGH,
    ),
    Entrant(
        "level method, precise SVMs",
        lambda tol, _: compare.LevelMethod(tol, FOREVER, svm_tol=PRECISE),
        tols=ROUGH,
    ),
)
SMOOTH_NORM = (
    *ANY_NORM,
    Entrant(
        "OBSCURE",
        lambda tol, seed: mks.Obscure(5, FOREVER, tol=tol, random_state=seed),
        tols=FINE,
    ),
    Entrant(
        "Pegasos",
        lambda tol, seed: mks.Pegasos(FOREVER, tol, random_state=seed),
        tols=FINE,
    ),
    Entrant("Kloft, wrapper", lambda tol, _: compare.Kloft(tol, FOREVER)),
    Entrant(
        "Kloft, precise SVMs",
        lambda tol, _: compare.Kloft(tol, FOREVER, svm_tol=PRECISE),
        tols=ROUGH,
    ),
    Entrant(
        "Kloft, interleaved",
        lambda tol, _: compare.Kloft(tol, FOREVER, interleaved=True),
    ),
    Entrant(
        "UFO-MKL",
        lambda tol, seed: compare.UFO(FOREVER, tol=tol, random_state=seed),
        tols=FINE,
    ),
    Entrant(
        "OM-2",
        lambda _, seed: compare.OM2(FOREVER, random_state=seed),
        same_problem=False,
        tols=FINE,
    ),
)


def entrants(p: float) -> tuple[Entrant, ...]:
    """Those who can handle this norm."""
    return SPARSE if p == 1.0 else SMOOTH_NORM
