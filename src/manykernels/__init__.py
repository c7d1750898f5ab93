"""manykernels: learn which kernels to trust."""

from manykernels import banks, datasets, kernels, losses, norms, solvers
from manykernels.estimators import MKLClassifier

__version__ = "0.1.0"

__all__ = [
    "MKLClassifier",
    "__version__",
    "banks",
    "datasets",
    "kernels",
    "losses",
    "norms",
    "solvers",
]
