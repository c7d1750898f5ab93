"""Kernels: what they are, how to name them, and their values on data."""

from manykernels.kernels.base import Kernel
from manykernels.kernels.functions import (
    RBF,
    BSpline,
    ChiSquared,
    Constant,
    Cosine,
    Custom,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
)
from manykernels.kernels.grammar import (
    approximate_kernels,
    default_kernels,
    format_kernel,
    parse_kernel,
)
from manykernels.kernels.matrices import Distance, Precomputed

__all__ = [
    "RBF",
    "BSpline",
    "ChiSquared",
    "Constant",
    "Cosine",
    "Custom",
    "Distance",
    "Intersection",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "approximate_kernels",
    "default_kernels",
    "format_kernel",
    "parse_kernel",
]
