"""Multi-epoch variance-reduced gradients."""

from manykernels.solvers.svrg.solver import SVRG

__all__ = [
    "SVRG",
]
