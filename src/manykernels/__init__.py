"""manykernels: learn which kernels to trust."""

from importlib import import_module
from typing import Any

from manykernels import banks, datasets, kernels, losses, norms, solvers
from manykernels.estimators import (
    AlignmentClassifier,
    AveragedKernelClassifier,
    BestKernelClassifier,
    DependencyParser,
    EasyMKLClassifier,
    LeaveOneOutKernelClassifier,
    LPBetaClassifier,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    PolynomialMKLClassifier,
    PolynomialMKLRegressor,
    ProductKernelClassifier,
    SequenceLabeler,
    kernel_alignments,
    load,
    rank_kernels,
)

__version__ = "0.1.0"

__all__ = [
    "AlignmentClassifier",
    "AveragedKernelClassifier",
    "BestKernelClassifier",
    "DependencyParser",
    "EasyMKLClassifier",
    "LPBetaClassifier",
    "LeaveOneOutKernelClassifier",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "PolynomialMKLClassifier",
    "PolynomialMKLRegressor",
    "ProductKernelClassifier",
    "SequenceLabeler",
    "__version__",
    "banks",
    "datasets",
    "kernel_alignments",
    "kernels",
    "load",
    "losses",
    "norms",
    "rank_kernels",
    "report",
    "solvers",
]


def __getattr__(name: str) -> Any:
    """Pictures are imported when they are asked for: matplotlib takes a while."""
    if name == "report":
        return import_module("manykernels.report")
    raise AttributeError(f"module 'manykernels' has no attribute {name!r}")
