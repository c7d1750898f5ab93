"""manykernels: learn which kernels to trust."""

from importlib import import_module
from typing import Any

from manykernels import banks, datasets, kernels, losses, norms, solvers
from manykernels.banks import Storage
from manykernels.chains import SequenceLabeler
from manykernels.files import load
from manykernels.mkl import (
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    kernel_alignments,
    rank_kernels,
)
from manykernels.products import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.solvers.budget import Budget
from manykernels.trees import DependencyParser

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "DependencyParser",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "PolynomialMKLClassifier",
    "PolynomialMKLRegressor",
    "SequenceLabeler",
    "Storage",
    "Storage",
    "__version__",
    "banks",
    "chains",
    "compare",
    "datasets",
    "kernel_alignments",
    "kernels",
    "load",
    "losses",
    "norms",
    "products",
    "rank_kernels",
    "report",
    "solvers",
    "trees",
]

LAZY = ("compare", "report")  # imported when asked for: most fits need neither


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return import_module(f"manykernels.{name}")
    raise AttributeError(f"module 'manykernels' has no attribute {name!r}")
