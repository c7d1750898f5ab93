"""Solvers that others have published for the same problem, one file per idea."""

from manykernels.compare.solvers.closed_form import GroupLassoMKL, Kloft
from manykernels.compare.solvers.cutting_planes import SILP, LevelMethod
from manykernels.compare.solvers.om2 import OM2
from manykernels.compare.solvers.simple_mkl import SimpleMKL
from manykernels.compare.solvers.smo_mkl import SMOMKL
from manykernels.compare.solvers.ufo import UFO

__all__ = [
    "GroupLassoMKL",
    "Kloft",
    "LevelMethod",
    "OM2",
    "SILP",
    "SMOMKL",
    "SimpleMKL",
    "UFO",
]
