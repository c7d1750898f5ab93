"""Widths of kernels from distances between training rows; a row's copies count."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from manykernels.base.arrays import Values
from manykernels.kernels.base import WidthRule

WIDTH_ROWS = 1000  # whose pairwise distances choose a width: half a million pairs
# From so many columns on, distances from a matrix product are faster than pair by pair.
PRODUCT_COLUMNS = 128


def inverse_columns(values: Any, copies: Values) -> float:
    """Return 1 / n_features."""
    return 1.0 / float(values.shape[1])


def inverse_median(metric: str) -> WidthRule:
    """Return the rule for 1 / median distance between different rows."""
    return partial(_inverse_median, metric=metric)


def _inverse_median(values: Any, copies: Values, metric: str) -> float:
    return inverse(distance_quantile(values, copies, metric, 0.5)[0])


def low_distance(values: Any, copies: Values) -> float:
    """Return the distance below which 5 % of the pairs lie."""
    low, smallest = distance_quantile(values, copies, "euclidean", 0.05)
    # Duplicate rows may fill the lowest 5 %: the smallest real distance is next best.
    return max(low, smallest) or 1.0


def inverse(value: float) -> float:
    """Return 1 / value, or 1 for zero, as scikit-learn does for constant columns."""
    return 1.0 / value if value > 0 else 1.0


def distance_quantile(
    values: Any, copies: Values, metric: str, q: float
) -> tuple[float, float]:
    """Return a quantile of distances between different rows, and the least above zero.

    Two copies of a row are different rows at distance zero.
    """
    rows, copies = spread_rows(values, copies)
    distances = _pair_distances(rows, metric)
    smallest = float(np.min(distances, where=distances > 0, initial=np.inf))
    smallest = smallest if smallest < np.inf else 0.0
    if (copies == 1).all():
        return (float(np.quantile(distances, q)) if distances.size else 0.0), smallest
    left, right = np.triu_indices(len(rows), 1)
    # Copies of one row are k (k - 1) / 2 more pairs at distance zero.
    among = np.maximum(copies * (copies - 1.0) / 2.0, 0.0).sum()
    counts = np.append(copies[left] * copies[right], among)
    distances = np.append(distances, 0.0)
    order = np.argsort(distances)
    ends = np.cumsum(counts[order])
    # As np.quantile would have it, were every pair written out.
    position = q * max(float(ends[-1]) - 1.0, 0.0)
    whole = np.floor(position) + np.array([0.0, 1.0])
    pair = np.minimum(np.searchsorted(ends, whole, side="right"), len(ends) - 1)
    low, high = distances[order[pair]]
    return float(low + (position - whole[0]) * (high - low)), smallest


def spread_rows(values: Any, copies: Values) -> tuple[Values, Values]:
    """Return at most 1000 evenly spaced rows, dense float64, and their copies."""
    index, total = np.flatnonzero(copies), float(copies.sum())
    copies = copies[index]
    if total > WIDTH_ROWS:
        # Evenly spaced among all copies, so that weights count and seeds do not.
        places = np.linspace(0, total - 1, WIDTH_ROWS).round()
        drawn = np.searchsorted(np.cumsum(copies), places, side="right")
        drawn, copies = np.unique(drawn, return_counts=True)
        index = index[drawn]
    rows = values[index]
    dense = rows.toarray() if sp.issparse(rows) else rows
    return np.asarray(dense, dtype=np.float64), copies


def _pair_distances(rows: Values, metric: str) -> Values:
    """Return the distances of all pairs, in the order of scipy's `pdist`."""
    if metric != "sqeuclidean" or rows.shape[1] < PRODUCT_COLUMNS:
        return np.asarray(pdist(rows, metric))
    # Around their mean, rows are as small as their distances: few digits cancel.
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    left, right = np.triu_indices(len(rows), 1)
    sums = squares[left] + squares[right]
    distances = sums - 2.0 * (rows @ rows.T)[left, right]
    distances[distances <= 1e-13 * sums] = 0.0  # what rounding leaves of equal rows
    return np.asarray(distances)
