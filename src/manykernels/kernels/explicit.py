"""Explicit features, k(x, y) = <phi(x), phi(y)>: Linear, Cosine, Constant, and maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.kernels.base import Kernel
from manykernels.kernels.rows import Rows, form_diagonal, inverse_roots
from manykernels.kernels.scaling import Scaling, Side


def feature_map(kernel: Kernel, rows: Rows, offset: Values | None) -> Any:
    """phi(x) before centering and normalization, dense or CSR.

    Rows of an approximate kernel are phi(x) already, see `groups.MappedGroup`.
    """
    if kernel.approximate is not None:
        return rows.values
    if kernel.form == "constant":
        return np.ones((len(rows), 1), dtype=rows.values.dtype)
    values = rows.values if offset is None else rows.values + offset
    if kernel.form != "cosine":
        return values
    plain = form_diagonal("dot", rows)
    return scale_rows(values, inverse_roots(plain))


def mean_feature(phi: Any) -> Values:
    """Mean of phi over the rows, float64."""
    return np.asarray(phi.sum(axis=0, dtype=np.float64)).ravel() / phi.shape[0]


def scaled_features(phi: Any, scaling: Scaling, side: Side, dtype: Any) -> Any:
    """Features after centering and normalization: phi phi^T is the final kernel."""
    if scaling.direction is not None:
        phi = phi - scaling.direction
    if side.norms is not None:
        phi = scale_rows(phi, side.norms)
    elif scaling.factor != 1.0:
        phi = phi * np.sqrt(scaling.factor)
    return phi.astype(dtype, copy=True)


def scale_rows(phi: Any, factors: Values) -> Any:
    """Row i times factors[i], dense or CSR."""
    if sp.issparse(phi):
        return sp.csr_array(sp.diags_array(factors.astype(phi.dtype)) @ phi)
    return phi * factors.astype(phi.dtype)[:, None]
