"""manykernels: learn which kernels to trust."""

from importlib import import_module
from typing import Any

from manykernels import banks, datasets, kernels, losses, norms, solvers
from manykernels.estimators import MKLClassifier, load

__version__ = "0.1.0"

__all__ = [
    "MKLClassifier",
    "__version__",
    "banks",
    "datasets",
    "kernels",
    "load",
    "losses",
    "norms",
    "report",
    "solvers",
]


def __getattr__(name: str) -> Any:
    """Pictures are imported when they are asked for: matplotlib takes a while."""
    if name == "report":
        return import_module("manykernels.report")
    raise AttributeError(f"module 'manykernels' has no attribute {name!r}")
