"""Kernels: what they are, how to name them, and their values on data."""

from manykernels.kernels.base import Kernel, reads_matrices
from manykernels.kernels.columns import select_columns
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
    as_kernels,
    default_kernels,
    format_kernel,
    parse_kernel,
)
from manykernels.kernels.kernel_set import KernelSet
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
    "KernelSet",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "approximate_kernels",
    "as_kernels",
    "default_kernels",
    "format_kernel",
    "parse_kernel",
    "reads_matrices",
    "select_columns",
]
