"""What may be believed of learned weights: stability, tests against chance."""

from manykernels.study.permutation import KernelTest, permutation_test
from manykernels.study.stability import WeightStability, weight_stability

__all__ = [
    "KernelTest",
    "WeightStability",
    "permutation_test",
    "weight_stability",
]
