"""Widths chosen on the training rows: "scale", "median", "mean", "sparse"."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from manykernels.base.arrays import Values
from manykernels.kernels.base import split_factor

MAX_ROWS = 1000


def euclidean(gamma: float | str, values: Any) -> float:
    """1 / (n_features * variance) for "scale", 1 / median ||x-y||^2 for "median"."""
    if not isinstance(gamma, str):
        return float(gamma)
    factor, word = split_factor(gamma, ("scale", "median"), "gamma")
    if word == "scale":
        return factor * _inverse(values.shape[1] * variance(values))
    return factor * _inverse(_median(pair_distances(values, "sqeuclidean")))


def manhattan(gamma: float | str, values: Values) -> float:
    """1 / n_features for "scale", 1 / median ||x-y||_1 for "median"."""
    if not isinstance(gamma, str):
        return float(gamma)
    factor, word = split_factor(gamma, ("scale", "median"), "gamma")
    if word == "scale":
        return factor / values.shape[1]
    return factor * _inverse(_median(pair_distances(values, "cityblock")))


def chi_squared(gamma: float | str, values: Values) -> float:
    """1 / mean chi-squared distance for "mean"."""
    from sklearn.metrics.pairwise import additive_chi2_kernel

    if not isinstance(gamma, str):
        return float(gamma)
    factor, _ = split_factor(gamma, ("mean",), "gamma")
    rows = spread_rows(values)
    total = -additive_chi2_kernel(rows).sum()
    return factor * _inverse(total / max(1, len(rows) * (len(rows) - 1)))


def sparse_width(width: float | str, values: Any) -> float:
    """The distance below which 5 % of the pairs lie for "sparse"."""
    if not isinstance(width, str):
        return float(width)
    factor, _ = split_factor(width, ("sparse",), "width")
    distances = pair_distances(values, "euclidean")
    positive = distances[distances > 0]
    if positive.size == 0:
        return factor
    # Duplicate rows may fill the lowest 5 %: the smallest real distance is next best.
    return factor * max(float(np.quantile(distances, 0.05)), float(positive.min()))


def mean_distance(scale: float | str, matrix: Values) -> float:
    """Mean over the pairs of different rows for "mean"."""
    if not isinstance(scale, str):
        return float(scale)
    factor, _ = split_factor(scale, ("mean",), "scale")
    total = np.sum(matrix, dtype=np.float64) - np.trace(matrix, dtype=np.float64)
    n = len(matrix)
    mean = float(total) / max(1, n * (n - 1))
    return factor * (mean if mean > 0 else 1.0)


def variance(values: Any) -> float:
    """Variance over all entries, as scikit-learn's SVC computes it."""
    if not sp.issparse(values):
        return float(np.var(values, dtype=np.float64))
    size = values.shape[0] * values.shape[1]
    data = values.data.astype(np.float64)
    return float(np.square(data).sum() / size - (data.sum() / size) ** 2)


def spread_rows(values: Any) -> Values:
    """At most 1000 evenly spaced rows, dense float64."""
    n = values.shape[0]
    index = np.linspace(0, n - 1, min(n, MAX_ROWS)).round().astype(np.intp)
    rows = values[index]
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)


def pair_distances(values: Any, metric: str) -> Values:
    """Distances between different rows of the evenly spaced subset, condensed."""
    return pdist(spread_rows(values), metric)


def _median(distances: Values) -> float:
    return float(np.median(distances)) if distances.size else 0.0


def _inverse(value: float) -> float:
    # Constant columns give no scale of their own; 1.0 is scikit-learn's answer too.
    return 1.0 / value if value > 0 else 1.0
