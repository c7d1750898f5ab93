"""Blocks of kernel values: their tiles, and what they are made of.

One pairwise quantity per family serves all kernels on the same columns: the inner
products serve Linear, Polynomial, Cosine, RBF and BSpline alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel

from manykernels.base.arrays import Selection, Values
from manykernels.hot.curves import add_values
from manykernels.kernels.base import inverse_roots

if TYPE_CHECKING:
    from manykernels.kernels.feature_group import FeatureGroup, TableRows
    from manykernels.kernels.kernel_values import KernelValues

KERNEL_BLOCK_BYTES = 2**22  # of one kernel's values at a time: they stay in the cache
# Not a power of two: rows of a tile would then compete for the same cache lines.
KERNEL_TILE = 384


def row_blocks(n_rows: int, n_columns: int, itemsize: int, n_bytes: int) -> list[slice]:
    """Return row slices of blocks with `n_columns` columns that fit in `n_bytes`."""
    size = max(1, n_bytes // max(1, n_columns * itemsize))
    if 0 < n_rows <= size:
        return [slice(0, n_rows)]
    starts = range(0, n_rows, size)
    return list(map(slice, starts, [*starts[1:], n_rows]))


def in_both(
    every: Values, rows: Selection, columns: Selection
) -> tuple[Values, Values, Values]:
    """Return rows that are columns too, their places in rows and in columns."""
    ids, others = every[rows], every[columns]
    order = np.argsort(others, kind="stable")
    at = np.searchsorted(others, ids, sorter=order)
    at = order[np.minimum(at, len(others) - 1)]
    both = np.flatnonzero(others[at] == ids)
    return ids[both], both, at[both]


class FusedTile:
    """Rows of a fused group on two sides, and their inner products."""

    def __init__(
        self,
        fitted: KernelValues,
        group: FeatureGroup,
        rows: Selection,
        columns: Selection,
    ) -> None:
        self.fitted = fitted
        self.sides = fitted.ids(group, rows), fitted.ids(group, columns)
        self.rows = [group.rows.take(ids) for ids in self.sides]
        self.products = inner_products(self.rows[0].values, self.rows[1].values)

    def add(self, f: int, weight: float, out: Values) -> Values:
        """out += weight * K_f, and out."""
        curve = self.fitted.kernels[f].curve()
        assert curve is not None
        (left, left_scale), (right, right_scale) = self._terms(f, 0), self._terms(f, 1)
        left += np.float32(curve.offset)
        left_scale *= np.float32(weight * self.fitted.scalings[f].factor)
        slope, scales = np.float32(curve.slope), (left_scale, right_scale)
        add_values(self.products, slope, left, right, curve.degree, *scales, out)
        return out

    def _terms(self, f: int, side: int) -> tuple[Values, Values]:
        """Return l(x) and s(x) of the rows on one side, in single precision."""
        norms = self.fitted.scalings[f].of_rows(self.sides[side]).norms
        added, scale = self.rows[side].curve_terms(self.fitted.kernels[f], norms)
        return added.astype(np.float32), scale.astype(np.float32)


def derive(form: str, shared: Values, a: TableRows, b: TableRows) -> Values:
    """Return a new block of one kernel's form from the shared quantity."""
    if form == "squared_distance":
        # ||x - y||^2 = ||x||^2 + ||y||^2 - 2 <x, y>: one matrix product for all pairs.
        block = shared * shared.dtype.type(-2.0)
        add_outer(block, a.squares, b.squares)
        # Rounding may leave a tiny negative number between equal rows.
        return np.maximum(block, 0.0, out=block)
    block = shared.copy()
    # Rows that lost an offset: <x, y> = <x - o, y - o> + s(x) + s(y).
    if form in ("dot", "cosine") and a.shifts is not None and b.shifts is not None:
        add_outer(block, a.shifts, b.shifts)
    if form == "cosine":
        left, right = inverse_roots(a.plain_squares()), inverse_roots(b.plain_squares())
        scale_outer(block, left, right)
    return block


def add_outer(block: Values, left: Values, right: Values) -> None:
    """block[i, j] += left[i] + right[j], in place and in the block's precision."""
    block += left.astype(block.dtype, copy=False)[:, None]
    block += right.astype(block.dtype, copy=False)


def scale_outer(block: Values, left: Values, right: Values) -> None:
    """block[i, j] *= left[i] * right[j], in place and in the block's precision."""
    block *= left.astype(block.dtype, copy=False)[:, None]
    block *= right.astype(block.dtype, copy=False)


def make_symmetric(block: Values, diagonal: Values) -> None:
    """Copy the upper triangle of a square block to the lower; set the diagonal."""
    # A product of matrices need not be symmetric to the last bit.
    below = np.tri(len(block), k=-1, dtype=bool)
    np.copyto(block, block.T.copy(), where=below)
    np.fill_diagonal(block, diagonal)


def scale_rows(phi: Any, factors: Values) -> Any:
    """Multiply row i by factors[i], dense or CSR."""
    if sp.issparse(phi):
        return sp.csr_array(sp.diags_array(factors.astype(phi.dtype)) @ phi)
    return phi * factors.astype(phi.dtype)[:, None]


def inner_products(a: Any, b: Any) -> Values:
    """Return <x, y> of all pairs of rows, dense."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.dot(a, b.T)  # for a single row faster than @
    product = sp.csr_array(a) @ sp.csr_array(b).T
    return product.toarray() if sp.issparse(product) else np.asarray(product)


def _manhattan(a: Values, b: Values) -> Values:
    return cdist(a, b, "cityblock").astype(a.dtype, copy=False)


def _chi_squared(a: Values, b: Values) -> Values:
    return -additive_chi2_kernel(a, b)


def _intersection(a: Values, b: Values) -> Values:
    # min(x, y) = (x + y - |x - y|) / 2 turns the sum into an L1 distance.
    total = cdist(a, b, "cityblock")
    total *= -0.5
    add_outer(total, 0.5 * row_sums(a), 0.5 * row_sums(b))
    return np.maximum(total, 0.0, out=total).astype(a.dtype, copy=False)


def _constant(a: Any, b: Any) -> Values:
    return np.ones((a.shape[0], b.shape[0]), dtype=a.dtype)


def row_sums(values: Values) -> Values:
    """Return the sum of every row in float64."""
    return np.asarray(values.sum(axis=1, dtype=np.float64))


PAIRWISE = {
    "dot": inner_products,
    "manhattan": _manhattan,
    "chi_squared": _chi_squared,
    "intersection": _intersection,
    "constant": _constant,
}
