"""manykernels: learn which kernels to trust."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manykernels import (
        datasets,
        kernels,
        losses,
        norms,
        products,
        solvers,
        structured,
    )
    from manykernels.banks import Storage
    from manykernels.files import load
    from manykernels.inputs.gmt import read_gmt
    from manykernels.inputs.groups import group_kernels
    from manykernels.inputs.views import Views
    from manykernels.mkl import (
        MKLClassifier,
        MKLClassifierCV,
        MKLRegressor,
        MKLRegressorCV,
        MKLSurvival,
        combined_kernel,
        concordance_index,
        consensus_kernel,
        kernel_alignments,
        rank_kernels,
        warm_up,
    )
    from manykernels.products import PolynomialMKLClassifier, PolynomialMKLRegressor
    from manykernels.solvers.online import Budget
    from manykernels.structured import DependencyParser, SequenceLabeler
    from manykernels.study import (
        Study,
        kernel_importance,
        permutation_test,
        weight_stability,
    )

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "DependencyParser",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "MKLSurvival",
    "PolynomialMKLClassifier",
    "PolynomialMKLRegressor",
    "SequenceLabeler",
    "Storage",
    "Study",
    "Views",
    "__version__",
    "combined_kernel",
    "compare",
    "concordance_index",
    "consensus_kernel",
    "datasets",
    "group_kernels",
    "kernel_alignments",
    "kernel_importance",
    "kernels",
    "load",
    "losses",
    "norms",
    "permutation_test",
    "products",
    "rank_kernels",
    "read_gmt",
    "solvers",
    "structured",
    "warm_up",
    "weight_stability",
]

# Imported when asked for: a fit needs few of the rooms, and `load` only one.
HOMES = {
    "Budget": "solvers.online",
    "DependencyParser": "structured",
    "MKLClassifier": "mkl",
    "MKLClassifierCV": "mkl",
    "MKLRegressor": "mkl",
    "MKLRegressorCV": "mkl",
    "MKLSurvival": "mkl",
    "PolynomialMKLClassifier": "products",
    "PolynomialMKLRegressor": "products",
    "SequenceLabeler": "structured",
    "Storage": "banks",
    "Study": "study",
    "Views": "inputs.views",
    "group_kernels": "inputs.groups",
    "combined_kernel": "mkl",
    "concordance_index": "mkl",
    "consensus_kernel": "mkl",
    "kernel_alignments": "mkl",
    "kernel_importance": "study",
    "load": "files",
    "permutation_test": "study",
    "rank_kernels": "mkl",
    "read_gmt": "inputs.gmt",
    "warm_up": "mkl",
    "weight_stability": "study",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'manykernels' has no attribute {name!r}")
    if name in HOMES:
        found = getattr(import_module(f"manykernels.{HOMES[name]}"), name)
    else:
        found = import_module(f"manykernels.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
