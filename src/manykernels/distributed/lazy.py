"""Predictions of Dask collections, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from manykernels.distributed.engine import Engine
from manykernels.distributed.partitioned_fit import shell_of
from manykernels.distributed.partitions import in_partition, pieces

Method = Callable[[Any, Any], np.ndarray]


def lazily(method: Method, estimator: Any, X: Any) -> Any:
    """method(estimator, partition) for all partitions of X, as one lazy array.

    Sizes of partitions that X does not know are unknown in the result.
    """
    estimator._require_fitted()
    engine, shell = Engine(), shell_of(estimator)
    like = method(shell, blank_rows(X))[:0]
    shared = engine.shared(shell)
    tables = pieces(X)
    sizes = getattr(X, "chunks", ((np.nan,) * len(tables),))[0]
    parts = [
        da.from_delayed(
            engine.task(predict_partition, k, method, shared, table, like),
            (size, *like.shape[1:]),
            meta=like,
        )
        for k, (table, size) in enumerate(zip(tables, sizes, strict=True))
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def blank_rows(X: Any) -> Any:
    """A row or two of the columns and types of X."""
    if isinstance(X, da.Array):
        return np.zeros((1, *X.shape[1:]), X.dtype)
    return X._meta_nonempty


def predict_partition(
    k: int, method: Method, estimator: Any, table: Any, like: np.ndarray
) -> np.ndarray:
    """The result for one partition, which may be empty."""
    return in_partition(k, method, estimator, table) if len(table) else like
