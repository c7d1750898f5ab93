"""Learning with all products of base kernels, which are never listed."""

from manykernels.products.blend import ProductBlend
from manykernels.products.explicit_lp_norm import ExplicitLpNorm
from manykernels.products.inference import term_intervals, term_stability
from manykernels.products.mirror_descent import (
    Euclidean,
    RandomizedMirrorDescent,
    ShiftedEntropy,
)
from manykernels.products.polynomial_classifier import PolynomialMKLClassifier
from manykernels.products.polynomial_regressor import PolynomialMKLRegressor
from manykernels.products.sparse.column_generation import ColumnGeneration

__all__ = [
    "ColumnGeneration",
    "Euclidean",
    "ExplicitLpNorm",
    "PolynomialMKLClassifier",
    "PolynomialMKLRegressor",
    "ProductBlend",
    "RandomizedMirrorDescent",
    "ShiftedEntropy",
    "term_intervals",
    "term_stability",
]
