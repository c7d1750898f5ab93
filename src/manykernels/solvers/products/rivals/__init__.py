"""Other ways to learn from products of base kernels, to compare with."""

from manykernels.solvers.products.rivals.cortes import PolynomialKernelLearning
from manykernels.solvers.products.rivals.hierarchical import HierarchicalKernelLearning
from manykernels.solvers.products.rivals.kloft import ExplicitLpNorm
from manykernels.solvers.products.rivals.power import PowerExpansion, power_scores
from manykernels.solvers.products.rivals.uniform import UniformPower
from manykernels.solvers.products.rivals.uniform_coordinates import (
    UniformCoordinateDescent,
)

__all__ = [
    "ExplicitLpNorm",
    "HierarchicalKernelLearning",
    "PolynomialKernelLearning",
    "PowerExpansion",
    "UniformCoordinateDescent",
    "UniformPower",
    "power_scores",
]
