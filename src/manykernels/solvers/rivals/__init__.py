"""Solvers that others have published for the same problem, one file each.

They share our bank, row cache and inner SVM, so that a comparison is one of methods.
"""

from manykernels.solvers.rivals.group_lasso import GroupLassoMKL
from manykernels.solvers.rivals.kloft import Kloft
from manykernels.solvers.rivals.level import LevelMethod
from manykernels.solvers.rivals.om2 import OM2
from manykernels.solvers.rivals.silp import SILP
from manykernels.solvers.rivals.simple_mkl import SimpleMKL
from manykernels.solvers.rivals.smo_mkl import SMOMKL
from manykernels.solvers.rivals.ufo import UFO

__all__ = [
    "OM2",
    "SILP",
    "SMOMKL",
    "UFO",
    "GroupLassoMKL",
    "Kloft",
    "LevelMethod",
    "SimpleMKL",
]
