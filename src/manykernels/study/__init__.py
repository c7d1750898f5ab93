"""What may be believed of a fitted model: importance, stability, tests against chance.

Importance is measured on rows that a model has not seen; a `Study` compares learned
weights with uniform ones and other methods, all on such rows.
"""

from manykernels.study.importance import Importance, kernel_importance
from manykernels.study.overview import Overview
from manykernels.study.permutation import KernelTest, permutation_test
from manykernels.study.stability import WeightStability, weight_stability
from manykernels.study.study import Study
from manykernels.study.table import Table

__all__ = [
    "Importance",
    "KernelTest",
    "Overview",
    "Study",
    "Table",
    "WeightStability",
    "kernel_importance",
    "permutation_test",
    "weight_stability",
]
