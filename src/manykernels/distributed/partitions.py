"""Dask collections cut into partitions that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from manykernels.inputs.wrappers import is_partitioned


@dataclass(frozen=True)
class Partitions:
    """Rows, targets and weights by partition, all of them lazy.

    Attributes
    ----------
    tables, targets : list of delayed
    weights : list of delayed or None
    row_bytes : float
        Of a row of the table in memory.
    n_bytes : float
        Of all rows; infinite where their number is unknown.
    """

    tables: list[Any]
    targets: list[Any]
    weights: list[Any]
    row_bytes: float
    n_bytes: float

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any = None) -> Partitions:
        """From collections with the same partitions, or arrays that are cut alike."""
        if y is None:
            raise ValueError(
                "This estimator requires y to be passed, but the target y is None; "
                "pass a collection with the partitions of X."
            )
        tables = pieces(X)
        weights: list[Any] = [None] * len(tables)
        if sample_weight is not None:
            weights = alongside(X, sample_weight, len(tables), "sample_weight")
        targets = alongside(X, y, len(tables), "y")
        n_rows = X.shape[0] if _sizes_known(X) else np.inf
        each = row_bytes(X)
        return cls(tables, targets, weights, each, each * n_rows)

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield (table, targets, weights) of every partition."""
        return zip(self.tables, self.targets, self.weights, strict=True)


def pieces(collection: Any) -> list[Any]:
    """The partitions one by one; rows of an array are whole."""
    if isinstance(collection, da.Array):
        whole = {axis: -1 for axis in range(1, collection.ndim)}
        collection = collection.rechunk(whole)
    # Optimized, what makes rows and targets together would be run for each of them,
    # and columns of one frame may come in other partitions than others.
    parts = collection.to_delayed(optimize_graph=False)
    return list(np.ravel(parts))


def alongside(X: Any, values: Any, n_partitions: int, name: str) -> list[Any]:
    """One piece of `values` for every partition of X."""
    sizes: Any = getattr(X, "chunks", ((np.nan,),))[0]
    known = not np.isnan(sizes).any()
    if not is_partitioned(values):
        if not known:
            raise ValueError(
                f"{name} must be a Dask collection where the sizes of X's partitions "
                f"are unknown, got {type(values).__name__}; take it from the same "
                "collection as X, or call X.compute_chunk_sizes()."
            )
        values = da.from_array(
            np.asarray(values), chunks=(sizes, -1)[: np.ndim(values)]
        )
    elif known and _sizes_known(values):
        _require_rows(sum(sizes), values.shape[0], name)
        values = values.rechunk({0: sizes})
    found = pieces(values)
    if len(found) != n_partitions:
        raise ValueError(
            f"{name} must have the partitions of X, which are {n_partitions}, got "
            f"{len(found)}; take both from the same collection."
        )
    return found


def _sizes_known(values: Any) -> bool:
    return isinstance(values, da.Array) and not np.isnan(values.chunks[0]).any()


def _require_rows(expected: int, found: int, name: str) -> None:
    if expected != found:
        raise ValueError(
            f"{name} must have a row for each of the {expected} rows of X, got {found};"
            " take both from the same collection."
        )


def row_bytes(X: Any) -> float:
    """Bytes of a row in memory; texts count as pointers."""
    if isinstance(X, da.Array):
        return float(X.dtype.itemsize * np.prod(X.shape[1:]))
    return float(sum(getattr(kind, "itemsize", 8) for kind in X.dtypes))


def in_partition(k: int, work: Callable[..., Any], *inputs: Any) -> Any:
    """The result of a call; its errors say in which partition they came up."""
    try:
        return work(*inputs)
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {k}: {error}") from error
