"""One file per algorithm, named as in the literature; all take a `Problem`."""

from manykernels.solvers.auto import Auto
from manykernels.solvers.dual_ascent import DualAscent
from manykernels.solvers.loop import Epoch, InterruptedFitWarning, SolveResult
from manykernels.solvers.obscure import Obscure
from manykernels.solvers.online_proximal import OnlineProximal
from manykernels.solvers.pegasos import Pegasos
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.products import ColumnGeneration, RandomizedMirrorDescent
from manykernels.solvers.rivals import (
    OM2,
    SILP,
    SMOMKL,
    UFO,
    GroupLassoMKL,
    Kloft,
    LevelMethod,
    SimpleMKL,
)
from manykernels.solvers.smooth import TruncatedNewton
from manykernels.solvers.spom import SPOM
from manykernels.solvers.svrg import SVRG

__all__ = [
    "OM2",
    "SILP",
    "SMOMKL",
    "SPOM",
    "SVRG",
    "UFO",
    "Auto",
    "ColumnGeneration",
    "DualAscent",
    "Epoch",
    "Expansion",
    "GroupLassoMKL",
    "InterruptedFitWarning",
    "Kloft",
    "LevelMethod",
    "Obscure",
    "OnlineProximal",
    "Pegasos",
    "Problem",
    "RandomizedMirrorDescent",
    "SimpleMKL",
    "SolveResult",
    "TruncatedNewton",
]
