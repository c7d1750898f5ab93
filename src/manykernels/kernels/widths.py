"""Widths of kernels: numbers, or words that stand for a number from the training rows.

A row with k copies counts as k rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from manykernels.base.arrays import Values

# A number from the training values and how many copies each row stands for.
WidthRule: TypeAlias = Callable[[Any, Values], float]
# For every parameter that is a width, the words that it may be and their rules.
Widths: TypeAlias = Mapping[str, Mapping[str, WidthRule]]

WIDTH_ROWS = 1000  # whose pairwise distances choose a width: half a million pairs
# From so many columns on, distances from a matrix product are faster than pair by pair.
PRODUCT_COLUMNS = 128


def read_width(
    value: Any, words: tuple[str, ...], what: str
) -> tuple[float, str | None]:
    """Return the factor and the word of a number, of "scale", or of "0.1*scale".

    >>> read_width("0.1*scale", ("scale", "median"), "gamma of rbf")
    (0.1, 'scale')
    >>> read_width(0.5, ("scale", "median"), "gamma of rbf")
    (0.5, None)
    """
    factor, word = value, None
    if isinstance(value, str):
        number, star, word = value.rpartition("*")
        try:
            factor = float(number) if star else 1.0
        except ValueError:
            factor = np.nan
        word = word.strip()
    is_number = isinstance(factor, Real) and not isinstance(factor, bool)
    # A whole number may be too large for a float.
    in_range = is_number and 0 < factor <= np.finfo(float).max
    if not in_range or word not in (None, *words):
        raise ValueError(
            f"{what} must be a positive number, {' or '.join(map(repr, words))}, or a "
            f"multiple such as '0.1*{words[0]}', got {value!r}; choose one of these."
        )
    return factor, word


def row_copies(sample_weight: Any, n_rows: int) -> Values:
    """Return how many rows each row stands for, or its weight relative to the mean.

    >>> row_copies([2, 0, 1], 3), row_copies([0.5, 1.5], 2)
    (array([2., 0., 1.]), array([0.5, 1.5]))
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(
            f"sample_weight must hold one finite number >= 0 for each of the {n_rows} "
            f"rows, got shape {weight.shape}; pass one weight per row."
        )
    if not weight.any():
        raise ValueError(
            "sample_weight must be positive for some row, got zeros only; leave it out."
        )
    if (weight == np.floor(weight)).all():
        return weight
    # Only ratios of fractions have a meaning: a typical row stands for one row.
    return weight / weight[weight > 0].mean()


def inverse_variance(values: Any, copies: Values) -> float:
    """Return 1 / (n_features * variance over all entries), as scikit-learn's SVC."""
    n_columns = values.shape[1]
    shares = copies / (copies.sum() * n_columns)
    if sp.issparse(values):
        entries = values.tocoo()
        weights, data = shares[entries.coords[0]], entries.data.astype(np.float64)
        mean = weights @ data
        variance = weights @ np.square(data) - mean**2
    elif (copies == copies[0]).all():
        variance = np.var(values, dtype=np.float64)
    else:
        mean = shares @ values.sum(axis=1, dtype=np.float64)
        variance = shares @ np.square(values - mean).sum(axis=1, dtype=np.float64)
    return 1.0 / (n_columns * float(variance)) if variance > 0 else 1.0


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
