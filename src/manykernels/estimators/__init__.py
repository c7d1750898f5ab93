"""Thin scikit-learn shells: validate, build a bank, solve, store."""

from manykernels.estimators.classifier import MKLClassifier
from manykernels.estimators.classifier_cv import MKLClassifierCV
from manykernels.estimators.combinations import (
    AlignmentClassifier,
    AveragedKernelClassifier,
    BestKernelClassifier,
    EasyMKLClassifier,
    LeaveOneOutKernelClassifier,
    LPBetaClassifier,
    ProductKernelClassifier,
)
from manykernels.estimators.dependency_parser import DependencyParser
from manykernels.estimators.loading import load
from manykernels.estimators.polynomial_classifier import PolynomialMKLClassifier
from manykernels.estimators.polynomial_regressor import PolynomialMKLRegressor
from manykernels.estimators.ranking import (
    KernelRank,
    kernel_alignments,
    rank_kernels,
)
from manykernels.estimators.regressor import MKLRegressor
from manykernels.estimators.regressor_cv import MKLRegressorCV
from manykernels.estimators.sequence_labeler import SequenceLabeler

__all__ = [
    "AlignmentClassifier",
    "AveragedKernelClassifier",
    "BestKernelClassifier",
    "DependencyParser",
    "EasyMKLClassifier",
    "KernelRank",
    "LPBetaClassifier",
    "LeaveOneOutKernelClassifier",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "PolynomialMKLClassifier",
    "PolynomialMKLRegressor",
    "ProductKernelClassifier",
    "SequenceLabeler",
    "kernel_alignments",
    "load",
    "rank_kernels",
]
