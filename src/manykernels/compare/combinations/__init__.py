"""Ways to combine kernels other than multiple kernel learning."""

from manykernels.compare.combinations.aligned import AlignmentClassifier
from manykernels.compare.combinations.averaged import AveragedKernelClassifier
from manykernels.compare.combinations.best import BestKernelClassifier
from manykernels.compare.combinations.easy import EasyMKLClassifier
from manykernels.compare.combinations.leave_one_out import LeaveOneOutKernelClassifier
from manykernels.compare.combinations.lp_beta import LPBetaClassifier
from manykernels.compare.combinations.product import ProductKernelClassifier

__all__ = [
    "AlignmentClassifier",
    "AveragedKernelClassifier",
    "BestKernelClassifier",
    "EasyMKLClassifier",
    "LPBetaClassifier",
    "LeaveOneOutKernelClassifier",
    "ProductKernelClassifier",
]
