"""What may be believed of a fitted model: importance, stability, tests against chance.

Importance is measured on rows that a model has not seen.
"""

from manykernels.study.importance import Importance, kernel_importance
from manykernels.study.permutation import KernelTest, permutation_test
from manykernels.study.stability import WeightStability, weight_stability

__all__ = [
    "Importance",
    "KernelTest",
    "WeightStability",
    "kernel_importance",
    "permutation_test",
    "weight_stability",
]
