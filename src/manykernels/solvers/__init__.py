"""The core algorithms, named as in the literature; all take a `Problem`."""

from manykernels.solvers.auto import Auto
from manykernels.solvers.dual_ascent import DualAscent
from manykernels.solvers.loop import Epoch, InterruptedFitWarning, SolveResult
from manykernels.solvers.mirror import Obscure, Pegasos
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.svrg import SVRG

__all__ = [
    "Auto",
    "DualAscent",
    "Epoch",
    "Expansion",
    "InterruptedFitWarning",
    "Obscure",
    "Pegasos",
    "Problem",
    "SVRG",
    "SolveResult",
    "TruncatedNewton",
]
