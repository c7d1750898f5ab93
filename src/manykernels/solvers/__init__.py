"""The core algorithms, named as in the literature; all take a `Problem`."""

from manykernels.solvers.auto import Auto
from manykernels.solvers.dual_ascent import DualAscent
from manykernels.solvers.loop import InterruptedFitWarning
from manykernels.solvers.mirror import Obscure, Pegasos
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.svrg import SVRG

__all__ = [
    "Auto",
    "DualAscent",
    "InterruptedFitWarning",
    "Obscure",
    "Pegasos",
    "SVRG",
    "TruncatedNewton",
]
