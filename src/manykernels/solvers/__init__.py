"""One file per algorithm, named as in the literature; all take a `Problem`."""

from manykernels.solvers.auto import Auto
from manykernels.solvers.dual_ascent import DualAscent
from manykernels.solvers.loop import Epoch, InterruptedFitWarning, SolveResult
from manykernels.solvers.obscure import Obscure
from manykernels.solvers.pegasos import Pegasos
from manykernels.solvers.problem import Expansion, Problem

__all__ = [
    "Auto",
    "DualAscent",
    "Epoch",
    "Expansion",
    "InterruptedFitWarning",
    "Obscure",
    "Pegasos",
    "Problem",
    "SolveResult",
]
