"""Kernels: what they are, how to name them, and their values on data."""

from manykernels.kernels.base import Kernel, reads_matrices
from manykernels.kernels.columns import select_columns
from manykernels.kernels.custom import Custom
from manykernels.kernels.fitted import KernelSet
from manykernels.kernels.functions import (
    RBF,
    BSpline,
    ChiSquared,
    Constant,
    Cosine,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
)
from manykernels.kernels.given import Distance, Precomputed
from manykernels.kernels.grammar import (
    approximate_kernels,
    as_kernels,
    default_kernels,
    format_kernel,
    parse_kernel,
)

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
