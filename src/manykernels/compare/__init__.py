"""Rival solvers and combinations to compare with; nothing else imports them."""

from manykernels.compare.combinations import (
    AlignmentClassifier,
    AveragedKernelClassifier,
    BestKernelClassifier,
    EasyMKLClassifier,
    LeaveOneOutKernelClassifier,
    LPBetaClassifier,
    ProductKernelClassifier,
)
from manykernels.compare.products import (
    HierarchicalKernelLearning,
    PolynomialKernelLearning,
    PowerExpansion,
    UniformCoordinateDescent,
    UniformPower,
    power_scores,
)
from manykernels.compare.solvers import (
    OM2,
    SILP,
    SMOMKL,
    UFO,
    GroupLassoMKL,
    Kloft,
    LevelMethod,
    SimpleMKL,
)
from manykernels.compare.spom import SPOM
from manykernels.compare.structured_wrappers import StructuredWrapper

__all__ = [
    "AlignmentClassifier",
    "AveragedKernelClassifier",
    "BestKernelClassifier",
    "EasyMKLClassifier",
    "GroupLassoMKL",
    "HierarchicalKernelLearning",
    "Kloft",
    "LPBetaClassifier",
    "LeaveOneOutKernelClassifier",
    "LevelMethod",
    "OM2",
    "PolynomialKernelLearning",
    "PowerExpansion",
    "ProductKernelClassifier",
    "SILP",
    "SMOMKL",
    "SPOM",
    "SimpleMKL",
    "StructuredWrapper",
    "UFO",
    "UniformCoordinateDescent",
    "UniformPower",
    "power_scores",
]
