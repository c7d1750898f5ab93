"""Multiple kernel learning: classes, numbers, times, their searches, streams."""

from manykernels.mkl.classifier import MKLClassifier
from manykernels.mkl.classifier_cv import MKLClassifierCV
from manykernels.mkl.combined_kernels import (
    Consensus,
    combined_kernel,
    consensus_kernel,
)
from manykernels.mkl.ranking import KernelRank, kernel_alignments, rank_kernels
from manykernels.mkl.regressor import MKLRegressor
from manykernels.mkl.regressor_cv import MKLRegressorCV
from manykernels.mkl.survival_estimator import MKLSurvival
from manykernels.mkl.warming import warm_up
from manykernels.targets import concordance_index

__all__ = [
    "Consensus",
    "KernelRank",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "MKLSurvival",
    "combined_kernel",
    "concordance_index",
    "consensus_kernel",
    "kernel_alignments",
    "rank_kernels",
    "warm_up",
]
