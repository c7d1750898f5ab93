"""Prepared rows and the pairwise quantities that kernels share.

One quantity per family is computed for all kernels on the same columns: the inner
products serve Linear, Polynomial, Cosine, RBF and BSpline alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel

from manykernels.base.arrays import Values
from manykernels.base.stored import Floats, Maybe, Table, storable


@storable(
    values=Table("rows", "columns"),
    squares=Floats("rows", low=0.0),
    shifts=Maybe(Floats("rows")),
)
@dataclass
class Rows:
    """Rows of one table on the columns of one group.

    Attributes
    ----------
    values : array or CSR of shape (n, d)
        Entries, minus the group's offset where there is one.
    squares : array of shape (n,)
        Squared norms of ``values``, float64.
    shifts : array of shape (n,) or None
        s(x) with <x, y> = <x - o, y - o> + s(x) + s(y) for the offset o.
    """

    values: Any
    squares: Values
    shifts: Values | None = None

    def __len__(self) -> int:
        """Count the rows."""
        return int(self.values.shape[0])

    def take(self, index: Values | slice) -> Rows:
        """Return the chosen rows (views if `index` is a slice)."""
        shifts = None if self.shifts is None else self.shifts[index]
        return Rows(self.values[index], self.squares[index], shifts)


def prepare_rows(values: Any, offset: Values | None = None, dtype: Any = None) -> Rows:
    """Subtract the offset and compute squared norms in float64."""
    dtype = values.dtype if dtype is None else dtype
    if offset is None:
        return Rows(_cast(values, dtype), squared_norms(values))
    centered = values - offset
    shifts = centered @ offset + 0.5 * (offset @ offset)
    return Rows(_cast(centered, dtype), squared_norms(centered), shifts)


def squared_norms(values: Any) -> Values:
    """||x_i||^2 in float64, without a float64 copy of the whole table."""
    if sp.issparse(values):
        squared = values.astype(np.float64)
        return np.asarray(squared.multiply(squared).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)


def pairwise(family: str, a: Rows, b: Rows) -> Values:
    """The family's quantity for all pairs of rows, shape (len(a), len(b))."""
    return _PAIRWISE[family](a.values, b.values)


def derive(form: str, shared: Values, a: Rows, b: Rows) -> Values:
    """A new block of one kernel's form from the shared quantity."""
    if form == "squared_distance":
        return _squared_distances(shared, a, b)
    block = shared.copy()
    if form in ("dot", "cosine") and a.shifts is not None and b.shifts is not None:
        add_outer(block, a.shifts, b.shifts)
    if form == "cosine":
        scale_outer(block, inverse_roots(_plain(a)), inverse_roots(_plain(b)))
    return block


def form_diagonal(form: str, rows: Rows) -> Values:
    """The form's value of each row with itself, float64."""
    if form == "dot":
        return _plain(rows)
    if form == "cosine":
        return (_plain(rows) > 0).astype(np.float64)
    if form == "intersection":
        return _row_sums(rows.values)
    return np.full(len(rows), 1.0 if form == "constant" else 0.0)


def add_outer(block: Values, left: Values, right: Values) -> None:
    """block[i, j] += left[i] + right[j], in place and in the block's precision."""
    block += left.astype(block.dtype)[:, None]
    block += right.astype(block.dtype)[None, :]


def scale_outer(block: Values, left: Values, right: Values) -> None:
    """block[i, j] *= left[i] * right[j], in place and in the block's precision."""
    block *= left.astype(block.dtype)[:, None]
    block *= right.astype(block.dtype)[None, :]


def inverse_roots(squares: Values) -> Values:
    """1 / sqrt(s), and 0 where s is 0."""
    roots = np.sqrt(squares)
    return np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)


def _plain(rows: Rows) -> Values:
    """Squared norms with the offset put back."""
    if rows.shifts is None:
        return rows.squares
    return np.maximum(rows.squares + 2.0 * rows.shifts, 0.0)


def _squared_distances(shared: Values, a: Rows, b: Rows) -> Values:
    block = shared * shared.dtype.type(-2.0)
    add_outer(block, a.squares, b.squares)
    # Rounding may leave a tiny negative number between equal rows.
    return np.maximum(block, 0.0, out=block)


def _dot(a: Any, b: Any) -> Values:
    if sp.issparse(a) or sp.issparse(b):
        return _dense(sp.csr_array(a) @ sp.csr_array(b).T)
    return a @ b.T


def _manhattan(a: Values, b: Values) -> Values:
    return cdist(a, b, "cityblock").astype(a.dtype, copy=False)


def _chi_squared(a: Values, b: Values) -> Values:
    return -additive_chi2_kernel(a, b)


def _intersection(a: Values, b: Values) -> Values:
    # min(x, y) = (x + y - |x - y|) / 2 turns the sum into an L1 distance.
    total = cdist(a, b, "cityblock")
    total *= -0.5
    add_outer(total, 0.5 * _row_sums(a), 0.5 * _row_sums(b))
    return np.maximum(total, 0.0, out=total).astype(a.dtype, copy=False)


def _constant(a: Any, b: Any) -> Values:
    return np.ones((a.shape[0], b.shape[0]), dtype=a.dtype)


def _row_sums(values: Values) -> Values:
    return np.asarray(values.sum(axis=1, dtype=np.float64))


def _dense(product: Any) -> Values:
    return product.toarray() if sp.issparse(product) else np.asarray(product)


def _cast(values: Any, dtype: Any) -> Any:
    if sp.issparse(values):
        return values.astype(dtype, copy=False)
    return np.ascontiguousarray(values, dtype=dtype)


_PAIRWISE = {
    "dot": _dot,
    "manhattan": _manhattan,
    "chi_squared": _chi_squared,
    "intersection": _intersection,
    "constant": _constant,
}
