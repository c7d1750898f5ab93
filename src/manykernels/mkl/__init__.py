"""Multiple kernel learning: classes, numbers, times, their searches, streams."""

from manykernels.mkl.classifier import MKLClassifier
from manykernels.mkl.classifier_cv import MKLClassifierCV
from manykernels.mkl.concordance import concordance_index
from manykernels.mkl.ranking import KernelRank, kernel_alignments, rank_kernels
from manykernels.mkl.regressor import MKLRegressor
from manykernels.mkl.regressor_cv import MKLRegressorCV
from manykernels.mkl.survival import MKLSurvival
from manykernels.mkl.warming import warm_up

__all__ = [
    "KernelRank",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "MKLSurvival",
    "concordance_index",
    "kernel_alignments",
    "rank_kernels",
    "warm_up",
]
