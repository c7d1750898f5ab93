"""Group norms, regularizers and proximity operators: functions of block norms."""

from manykernels.norms.group import LpGroupNorm
from manykernels.norms.regularizers import (
    ElasticNetMKL,
    GroupLasso,
    OverlappingGroups,
    PowerNorm,
    Regularizer,
    SparseGroupLasso,
    SparseMKL,
    SquaredL2,
    SquaredPNorm,
    SumOf,
)

__all__ = [
    "ElasticNetMKL",
    "GroupLasso",
    "LpGroupNorm",
    "OverlappingGroups",
    "PowerNorm",
    "Regularizer",
    "SparseGroupLasso",
    "SparseMKL",
    "SquaredL2",
    "SquaredPNorm",
    "SumOf",
]
