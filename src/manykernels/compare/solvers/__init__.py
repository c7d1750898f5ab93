"""Solvers that others have published for the same problem, one file each."""

from manykernels.compare.solvers.group_lasso import GroupLassoMKL
from manykernels.compare.solvers.kloft import Kloft
from manykernels.compare.solvers.level import LevelMethod
from manykernels.compare.solvers.om2 import OM2
from manykernels.compare.solvers.silp import SILP
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
