"""Models that predict with products of columns or of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.stored import (
    Floats,
    Maybe,
    Part,
    Wholes,
    require_all,
    storable,
)
from manykernels.kernels.kernel_set import KernelSet
from manykernels.products.indices import Product

# Rows that are evaluated at a time: their terms stay in the cache of the processor.
PREDICTION_ROWS = 4096
# A mean within this many standard deviations of zero counts as zero, and the end of a
# range within the other number of them as a natural zero. A shift by little turns one
# product into a sum of many.
CENTERED_MEAN_SD = 0.25
NATURAL_ZERO_SD = 0.5


@storable(shift=Floats("columns"), factor=Floats("columns"))
@dataclass(frozen=True)
class ColumnScale:
    """x -> (x - shift) * factor, column by column.

    Examples
    --------
    >>> ColumnScale.fit(np.array([[10.0], [14.0]])).apply(np.array([[14.0]]))
    array([[1.]])
    """

    shift: Array
    factor: Array

    @classmethod
    def fit(
        cls, X: Array, standardize: bool | str = "auto", weights: Array | None = None
    ) -> ColumnScale:
        """Scale to unit mean square; "auto" centers columns whose mean is far from 0.

        A product of shifted columns is a sum of many products of the original ones, so
        a column with a natural zero keeps it. Columns of zeros and ones always do.
        """
        columns = X.shape[1]
        if standardize is False:
            return cls(np.zeros(columns), np.ones(columns))
        unit = _units(X)
        X = X / unit
        mean = np.average(X, axis=0, weights=weights)
        spread = np.sqrt(np.average(np.square(X - mean), axis=0, weights=weights))
        flat = spread <= 1e-12
        spread[flat] = 0.0
        far = np.abs(mean) > CENTERED_MEAN_SD * spread
        far &= ~_are_indicators(X)
        shift = np.where(far | (standardize is True) | flat, mean, 0.0)
        size = np.sqrt(np.square(spread) + np.square(mean - shift))
        size[flat] = 0.0
        factor = np.divide(1.0, size, out=np.zeros(columns), where=size > 0.0)
        return cls(unit * shift, factor / unit)

    @classmethod
    def choices(
        cls, X: Array, standardize: bool | str = "auto", weights: Array | None = None
    ) -> list[ColumnScale]:
        """Return the scale of `fit`, after one that keeps zeros that may be natural.

        An income has zero at the end of its range, and a date may have it as well.
        """
        scale, unit = cls.fit(X, standardize, weights), _units(X)
        X = X / unit
        low, high = X.min(axis=0), X.max(axis=0)
        near = np.minimum(np.abs(low), np.abs(high)) < NATURAL_ZERO_SD * X.std(axis=0)
        doubt = (scale.shift != 0.0) & (low * high >= 0.0) & near
        if standardize != "auto" or not doubt.any():
            return [scale]
        squares = np.average(np.square(X[:, doubt]), axis=0, weights=weights)
        shift, factor = scale.shift.copy(), scale.factor.copy()
        shift[doubt], factor[doubt] = 0.0, 1.0 / np.sqrt(squares) / unit[doubt]
        return [cls(shift, factor), scale]

    def apply(self, X: Array, columns: Any = slice(None)) -> Array:
        """Return some columns of X, scaled."""
        return np.asarray((X[:, columns] - self.shift[columns]) * self.factor[columns])


def _units(X: Array) -> Array:
    """Return the largest value of every column: squares of others may overflow."""
    unit = np.abs(X).max(axis=0, initial=0.0)
    unit[unit == 0.0] = 1.0
    return np.asarray(unit)


def _are_indicators(X: Array) -> NDArray[np.bool_]:
    """Return which columns hold zeros and one other value only."""
    extreme = np.where(X.max(axis=0) > 0.0, X.max(axis=0), X.min(axis=0))
    return np.asarray(((X == 0.0) | (X == extreme)).all(axis=0))


@storable(
    scale=Maybe(Part(ColumnScale)),
    kernels=Maybe(Part(KernelSet)),
    products=Wholes("products", "degree", low=-1),
    coef=Floats("products", "outputs"),
    intercept=Floats("outputs"),
)
@dataclass(frozen=True)
class MonomialModel:
    """scores(x) = intercept + sum_i coef_i prod_j column_j(x), few terms i.

    A row costs its active terms and the columns that they use, nothing else.

    Examples
    --------
    >>> scale = ColumnScale(np.zeros(3), np.ones(3))
    >>> model = MonomialModel(scale, None, np.array([[0, 2]]), np.array([[2.0]]),
    ...                       np.array([1.0]))
    >>> model.scores(np.array([[3.0, 0.0, 5.0]]))
    array([[31.]])
    """

    scale: ColumnScale | None
    kernels: KernelSet | None  # whose single features are the columns, if not X's own
    products: NDArray[np.int64]  # (terms, degree), filled up with -1
    coef: Array  # (terms, outputs)
    intercept: Array  # (outputs,)

    def scores(self, X: Any) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        parts = [self.terms(X, rows) @ self.coef for rows in _blocks(X)]
        return np.concatenate([*parts, np.empty((0, len(self.intercept)))]) + (
            self.intercept
        )

    def terms(self, X: Any, rows: slice = slice(None)) -> Array:
        """Values of the terms, shape (rows, terms)."""
        used, places = np.unique(self.products, return_inverse=True)
        places = places.reshape(self.products.shape)
        offset = int(len(used) > 0 and used[0] < 0)
        columns = self._columns(X[rows], used[offset:])
        out = np.ones((len(columns), len(self.products)))
        for i, row in enumerate(places):
            for place in row[row >= offset]:
                out[:, i] *= columns[:, place - offset]
        return out

    def _columns(self, X: Array, used: NDArray[np.int64]) -> Array:
        if self.kernels is None:
            return X[:, used] if self.scale is None else self.scale.apply(X, used)
        scaled = X if self.scale is None else self.scale.apply(X)
        return single_features(self.kernels.only(used).new_features(scaled), used)

    def require_sound(self) -> None:
        """Raise where products and base kernels disagree, as in a damaged file."""
        single = self.kernels is None or (
            self.kernels.is_explicit and set(self.kernels.n_feature_columns()) == {1}
        )
        checks = {"products": are_filled(self.products), "single features": single}
        require_all("a sum of products", checks)


@storable(
    scale=Maybe(Part(ColumnScale)),
    kernels=Part(KernelSet),
    products=Wholes("products", "degree", low=-1),
    weights=Floats("products", "outputs"),
    coef=Floats("support", "outputs"),
    intercept=Floats("outputs"),
)
@dataclass(frozen=True)
class ProductKernelModel:
    """scores(x) = intercept + sum_i weights_i sum_t prod_j k_j(x, x_t) coef_t."""

    scale: ColumnScale | None
    kernels: KernelSet  # reference rows are the support rows
    products: NDArray[np.int64]  # (products, degree), filled up with -1
    weights: Array  # (products, outputs)
    coef: Array  # (support rows, outputs)
    intercept: Array  # (outputs,)

    def scores(self, X: Any) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        used = np.unique(self.products)
        kernels = self.kernels.only(used[used >= 0]).astype(np.float64)
        scaled = X if self.scale is None else self.scale.apply(X)
        outputs = len(self.intercept)
        parts = [np.empty((0, outputs))]
        for _, block in kernels.cross(scaled):
            parts.append(self._block_scores(block))
        return np.concatenate(parts) + self.intercept

    def require_sound(self) -> None:
        """Raise where products and base kernels disagree, as in a damaged file."""
        require_all(
            "a sum of product kernels",
            {
                "products": are_filled(self.products),
                "coefficients": len(self.coef) == self.kernels.n_reference,
                "rows": self.kernels.holds_rows,
            },
        )

    def _block_scores(self, block: Array) -> Array:
        """From base kernel values, shape (base kernels, rows, support rows)."""
        out = np.zeros((block.shape[1], len(self.intercept)))
        for i, row in enumerate(self.products):
            values = np.ones(block.shape[1:])
            for j in row[row >= 0]:
                values *= block[j]
            out += (values @ self.coef) * self.weights[i]
        return out


PolynomialModel = MonomialModel | ProductKernelModel


def padded(products: Sequence[Product], degree: int) -> NDArray[np.int64]:
    """Products as one array, -1 where a product has fewer factors.

    Examples
    --------
    >>> padded([(0, 2), ()], 3)
    array([[ 0,  2, -1],
           [-1, -1, -1]])
    """
    out = np.full((len(products), degree), -1, dtype=np.int64)
    for i, product in enumerate(products):
        out[i, : len(product)] = product
    return out


def are_filled(products: NDArray[np.int64]) -> bool:
    """Whether -1 stands only to the right of the factors."""
    empty = products < 0
    return not np.any(empty[:, :-1] & ~empty[:, 1:])


def single_features(features: list[Any], used: NDArray[np.int64]) -> Array:
    """The one column of every used kernel's features, side by side."""
    return np.column_stack([np.asarray(features[j])[:, 0] for j in used])


def _blocks(X: Any) -> Iterator[slice]:
    return (
        slice(start, start + PREDICTION_ROWS)
        for start in range(0, X.shape[0], PREDICTION_ROWS)
    )
