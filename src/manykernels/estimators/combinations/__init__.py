"""Ways to combine kernels other than multiple kernel learning, to compare with."""

from manykernels.estimators.combinations.alignment import AlignmentClassifier
from manykernels.estimators.combinations.averaged import AveragedKernelClassifier
from manykernels.estimators.combinations.best import BestKernelClassifier
from manykernels.estimators.combinations.easy import EasyMKLClassifier
from manykernels.estimators.combinations.leave_one_out import (
    LeaveOneOutKernelClassifier,
)
from manykernels.estimators.combinations.lp_beta import LPBetaClassifier
from manykernels.estimators.combinations.product import ProductKernelClassifier

__all__ = [
    "AlignmentClassifier",
    "AveragedKernelClassifier",
    "BestKernelClassifier",
    "EasyMKLClassifier",
    "LPBetaClassifier",
    "LeaveOneOutKernelClassifier",
    "ProductKernelClassifier",
]
