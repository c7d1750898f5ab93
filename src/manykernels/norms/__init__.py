"""Group norms, regularizers and proximity operators: functions of block norms."""

from manykernels.norms.group import LpGroupNorm
from manykernels.norms.proximity import (
    project_simplex,
    prox_elastic_net,
    prox_entries,
    prox_group_lasso,
    prox_joint,
    prox_power,
    prox_sparse_mkl,
    prox_squared_l2,
    prox_squared_p,
)
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
from manykernels.norms.terms import (
    Term,
    kernel_weights,
    regularizer_value,
    strong_convexity,
    successive_prox,
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
    "Term",
    "kernel_weights",
    "project_simplex",
    "prox_elastic_net",
    "prox_entries",
    "prox_group_lasso",
    "prox_joint",
    "prox_power",
    "prox_sparse_mkl",
    "prox_squared_l2",
    "prox_squared_p",
    "regularizer_value",
    "strong_convexity",
    "successive_prox",
]
