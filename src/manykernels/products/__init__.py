"""Learning with all products of base kernels, which are never listed."""

from manykernels.losses.one_score import BinarySmoothedHinge, Logistic, SquaredError
from manykernels.products.base import BaseKernels, DenseKernels, RankOneKernels
from manykernels.products.blend import BlendedProducts, ProductBlend
from manykernels.products.explicit_lp_norm import ExplicitLpNorm
from manykernels.products.fitted_products import FittedProducts
from manykernels.products.inference import term_intervals, term_stability
from manykernels.products.mirror_descent import (
    Euclidean,
    RandomizedMirrorDescent,
    ShiftedEntropy,
)
from manykernels.products.polynomial_classifier import PolynomialMKLClassifier
from manykernels.products.polynomial_regressor import PolynomialMKLRegressor
from manykernels.products.pricing import Pricing
from manykernels.products.product_fit import ProductFit
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.product_sampler import ProductSampler
from manykernels.products.sparse.column_generation import ColumnGeneration
from manykernels.products.sparse.sparse_path import SparsePath

__all__ = [
    "BaseKernels",
    "BlendedProducts",
    "ColumnGeneration",
    "DenseKernels",
    "Euclidean",
    "ExplicitLpNorm",
    "FittedProducts",
    "Logistic",
    "PolynomialMKLClassifier",
    "PolynomialMKLRegressor",
    "Pricing",
    "ProductBlend",
    "ProductExpansion",
    "ProductFit",
    "ProductProblem",
    "ProductSampler",
    "RandomizedMirrorDescent",
    "RankOneKernels",
    "ShiftedEntropy",
    "BinarySmoothedHinge",
    "SparsePath",
    "SquaredError",
    "term_intervals",
    "term_stability",
]
