"""Distances between training rows, from which kernels choose their widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from manykernels.base.arrays import Values

MAX_ROWS = 1000  # whose pairwise distances choose a width
MANY_COLUMNS = 128  # from which on a matrix product is faster than a loop over pairs
ROUNDING = 1e-13  # of squared norms: what squared distances below it are


def distance_quantile(
    values: Any, copies: Values, metric: str, q: float
) -> tuple[float, float]:
    """A quantile of distances between different rows, and the smallest above zero.

    Two copies of a row are different rows at distance zero.
    """
    rows, copies = spread_rows(values, copies)
    distances = _distances(rows, metric)
    smallest = float(np.min(distances, where=distances > 0, initial=np.inf))
    smallest = smallest if smallest < np.inf else 0.0
    if (copies == 1).all():
        return (float(np.quantile(distances, q)) if distances.size else 0.0), smallest
    left, right = np.triu_indices(len(rows), 1)
    among = np.maximum(copies * (copies - 1.0) / 2.0, 0.0).sum()
    counts = np.append(copies[left] * copies[right], among)
    distances = np.append(distances, 0.0)
    order = np.argsort(distances)
    ends = np.cumsum(counts[order])
    # As np.quantile would have it, were every pair written out.
    position = q * max(float(ends[-1]) - 1.0, 0.0)
    whole = np.floor(position) + np.array([0.0, 1.0])
    found = np.minimum(np.searchsorted(ends, whole, side="right"), len(ends) - 1)
    low, high = distances[order[found]]
    return float(low + (position - whole[0]) * (high - low)), smallest


def spread_rows(values: Any, copies: Values) -> tuple[Values, Values]:
    """At most 1000 evenly spaced rows, dense float64, and the copies of each."""
    index, total = np.flatnonzero(copies), float(copies.sum())
    copies = copies[index]
    if total > MAX_ROWS:
        places = np.linspace(0, total - 1, MAX_ROWS).round()
        drawn = np.searchsorted(np.cumsum(copies), places, side="right")
        drawn, copies = np.unique(drawn, return_counts=True)
        index = index[drawn]
    rows = values[index]
    dense = rows.toarray() if sp.issparse(rows) else rows
    return np.asarray(dense, dtype=np.float64), copies


def _distances(rows: Values, metric: str) -> Values:
    """Of all pairs, in the order of scipy's `pdist`."""
    if metric != "sqeuclidean" or rows.shape[1] < MANY_COLUMNS:
        return np.asarray(pdist(rows, metric))
    # Around their mean, rows are as small as their distances: few digits cancel.
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    left, right = np.triu_indices(len(rows), 1)
    sums = squares[left] + squares[right]
    distances = sums - 2.0 * (rows @ rows.T)[left, right]
    distances[distances <= ROUNDING * sums] = 0.0  # equal rows have none
    return np.asarray(distances)
