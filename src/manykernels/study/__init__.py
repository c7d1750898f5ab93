"""What may be believed of a fitted model: importance, stability, tests against chance.

Importance is measured on unseen rows; a `Study` compares learned weights with uniform
ones and other methods, all on such rows.
"""

from manykernels.study.importance import Importance, kernel_importance
from manykernels.study.overview import Overview
from manykernels.study.permutation import KernelTest, permutation_test
from manykernels.study.result_table import ResultTable
from manykernels.study.stability import WeightStability, weight_stability
from manykernels.study.studies import Study

__all__ = [
    "Importance",
    "KernelTest",
    "Overview",
    "ResultTable",
    "Study",
    "WeightStability",
    "kernel_importance",
    "permutation_test",
    "weight_stability",
]
