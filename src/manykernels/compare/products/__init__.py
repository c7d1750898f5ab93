"""Other ways to learn from products of base kernels."""

from manykernels.compare.products.hierarchical import HierarchicalKernelLearning
from manykernels.compare.products.powers import (
    PolynomialKernelLearning,
    PowerExpansion,
    UniformPower,
    power_scores,
)
from manykernels.compare.products.uniform_coordinates import UniformCoordinateDescent

__all__ = [
    "HierarchicalKernelLearning",
    "PolynomialKernelLearning",
    "PowerExpansion",
    "UniformCoordinateDescent",
    "UniformPower",
    "power_scores",
]
