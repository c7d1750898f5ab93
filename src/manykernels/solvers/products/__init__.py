"""Learning with all products of base kernels, which are never listed."""

from manykernels.solvers.products.base import (
    BaseKernels,
    DenseKernels,
    RankOneKernels,
)
from manykernels.solvers.products.blend import BlendedProducts, ProductBlend
from manykernels.solvers.products.column_generation import ColumnGeneration
from manykernels.solvers.products.fit import FittedProducts, ProductFit
from manykernels.solvers.products.losses import Logistic, SmoothedHinge, SquaredError
from manykernels.solvers.products.mirror_descent import RandomizedMirrorDescent
from manykernels.solvers.products.path import SparsePath
from manykernels.solvers.products.potentials import Euclidean, ShiftedEntropy
from manykernels.solvers.products.pricing import Pricing
from manykernels.solvers.products.problem import ProductExpansion, ProductProblem
from manykernels.solvers.products.sampler import ProductSampler

__all__ = [
    "BaseKernels",
    "BlendedProducts",
    "ColumnGeneration",
    "DenseKernels",
    "Euclidean",
    "FittedProducts",
    "Logistic",
    "Pricing",
    "ProductBlend",
    "ProductExpansion",
    "ProductFit",
    "ProductProblem",
    "ProductSampler",
    "RandomizedMirrorDescent",
    "RankOneKernels",
    "ShiftedEntropy",
    "SmoothedHinge",
    "SparsePath",
    "SquaredError",
]
