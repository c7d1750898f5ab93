"""Who takes part: ours first, then the rivals, all on the same bank.

An entrant says which solver is inside, and how precise that is: most of the time of a
wrapper is spent there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manykernels import compare
from manykernels import solvers as mks

OURS = "auto"
FOREVER = 100_000  # rounds: time and the gap end a run
GAPS = (1e-2, 1e-3)  # relative; everybody is asked for both, a run each
PRECISE = 1e-4  # relative gap of the SVMs of wrappers in the form of their papers

LOOSE_SVM = "our SVM solver, to a quarter of the current gap, from the last solution"
PRECISE_SVM = f"our SVM solver, to {PRECISE:g} from the first, from the last solution"
NO_SVM = "none: steps on one row, all kernels at once"


@dataclass(frozen=True)
class Entrant:
    """A solver, what is inside, and whether it solves the problem that is graded."""

    name: str
    make: Callable[[float, int], Any]  # from a relative gap and a seed
    inner: str = LOOSE_SVM
    same_problem: bool = True

    @property
    def shares_looseness(self) -> bool:
        """Whether its SVMs are ours, and only as precise as the gap asks for."""
        return self.inner == LOOSE_SVM


def _wrapper(name: str, kind: Any, **settings: Any) -> Entrant:
    return Entrant(name, lambda tol, seed: kind(tol, FOREVER, seed, **settings))


def _precise(name: str, kind: Any) -> Entrant:
    return Entrant(
        f"{name}, precise SVMs",
        lambda tol, seed: kind(tol, FOREVER, seed, svm_tol=PRECISE),
        PRECISE_SVM,
    )


ANY_NORM = (
    Entrant(
        OURS,
        lambda tol, seed: mks.Auto(tol, random_state=seed),
        "our SVM solver, to half of what the weights leave open",
    ),
    _wrapper("group lasso", compare.GroupLassoMKL),
)
SPARSE = (
    *ANY_NORM,
    _wrapper("SimpleMKL", compare.SimpleMKL),
    _wrapper("SILP", compare.SILP),
    _wrapper("level method", compare.LevelMethod),
    _precise("SimpleMKL", compare.SimpleMKL),
    _precise("SILP", compare.SILP),
    _precise("level method", compare.LevelMethod),
)
SMOOTH_NORM = (
    *ANY_NORM,
    Entrant(
        "OBSCURE",
        lambda tol, seed: mks.Obscure(5, FOREVER, tol=tol, random_state=seed),
        NO_SVM,
    ),
    Entrant(
        "Pegasos",
        lambda tol, seed: mks.Pegasos(FOREVER, tol, random_state=seed),
        NO_SVM,
    ),
    _wrapper("Kloft, wrapper", compare.Kloft),
    _precise("Kloft", compare.Kloft),
    _wrapper("Kloft, interleaved", compare.Kloft, interleaved=True),
    Entrant(
        "UFO-MKL",
        lambda tol, seed: compare.UFO(FOREVER, tol=tol, random_state=seed),
        NO_SVM,
    ),
    Entrant(
        "OM-2",
        lambda _, seed: compare.OM2(FOREVER, random_state=seed),
        NO_SVM,
        same_problem=False,
    ),
)


def entrants(p: float) -> tuple[Entrant, ...]:
    """Those who can handle this norm."""
    return SPARSE if p == 1.0 else SMOOTH_NORM
