"""Group norms and proximity operators: pure functions on block norms."""

from manykernels.norms.group import LpGroupNorm
from manykernels.norms.prox import (
    prox_group_lasso,
    prox_sparse_mkl,
    prox_squared_l2,
)

__all__ = ["LpGroupNorm", "prox_group_lasso", "prox_sparse_mkl", "prox_squared_l2"]
