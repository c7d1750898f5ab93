"""Fitted models over products, and their interactions as a table of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.stored import (
    Anything,
    Floats,
    ListOf,
    Maybe,
    Part,
    Wholes,
    require_all,
    storable,
)
from manykernels.kernels import KernelSet
from manykernels.products.indices import Product, product_name

ROWS = 4096  # evaluated at a time
ALREADY_CENTERED = 0.25  # standard deviations between the mean and zero
NEAR_ZERO = 0.5  # standard deviations between the end of a range and zero


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
        """Unit mean square; "auto" shifts columns only whose mean is far from zero.

        A product of columns that are shifted by a little is a sum of many products,
        so that a column with a natural zero had better keep it; one of zeros and ones
        has such a zero, wherever its mean is.
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
        far = np.abs(mean) > ALREADY_CENTERED * spread
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
        """The scale of `fit`, after one that keeps zeros which it may be wrong about.

        Zero is the end of the range of an income, and may be natural or not.
        """
        scale, unit = cls.fit(X, standardize, weights), _units(X)
        X = X / unit
        low, high = X.min(axis=0), X.max(axis=0)
        near = np.minimum(np.abs(low), np.abs(high)) < NEAR_ZERO * X.std(axis=0)
        doubt = (scale.shift != 0.0) & (low * high >= 0.0) & near
        if standardize != "auto" or not doubt.any():
            return [scale]
        squares = np.average(np.square(X[:, doubt]), axis=0, weights=weights)
        shift, factor = scale.shift.copy(), scale.factor.copy()
        shift[doubt], factor[doubt] = 0.0, 1.0 / np.sqrt(squares) / unit[doubt]
        return [cls(shift, factor), scale]

    def apply(self, X: Array, columns: Any = slice(None)) -> Array:
        """Some columns of X, scaled."""
        return np.asarray((X[:, columns] - self.shift[columns]) * self.factor[columns])


def _units(X: Array) -> Array:
    """The largest value of every column: squares of huge or tiny ones have no room."""
    unit = np.abs(X).max(axis=0, initial=0.0)
    unit[unit == 0.0] = 1.0
    return np.asarray(unit)


def _are_indicators(X: Array) -> NDArray[np.bool_]:
    """Which columns hold zeros and one other value."""
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
        """Raise a ValueError where products and base kernels do not fit together."""
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
        """Raise a ValueError where products and base kernels do not fit together."""
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
    return (slice(start, start + ROWS) for start in range(0, X.shape[0], ROWS))


# The columns of a table, in a file and in memory.
TABLE: dict[str, Any] = {
    "interaction": ListOf(Part(str), "rows"),
    "columns": ListOf(Part(tuple), "rows"),
    "kind": ListOf(Part(str), "rows"),
    "degree": Wholes("rows", low=0),
    "weight": Floats("rows", low=0.0),
    "coefficient": Floats("rows", nan=True),
    "sign": Wholes("rows", low=-1, below=2),
    "class": Maybe(ListOf(Anything(), "rows")),
}


@storable(**TABLE)
class InteractionTable(dict[str, Any]):
    """Columns by name, strongest interaction first; pandas.DataFrame(table) reads it.

    interaction : the product in words
    columns : names of its factors
    kind : "main effect", "power", "interaction" (of different columns) or "constant"
    degree : number of factors
    weight : kernel weight; all sum to one
    coefficient : factor of the product of scaled columns, NaN where there is none
    sign : -1 or 1, and 0 where a product is no single feature
    class : label, only with three or more classes

    Examples
    --------
    >>> table = interaction_table([(0, 1)], ["age", "dose"], [1.0], [-0.5])
    >>> table["interaction"], table.n_rows
    (['age * dose'], 1)
    >>> print(table)
      -0.5  age * dose
    """

    def to_stored(self) -> dict[str, Any]:
        """The columns, and None where there are no classes."""
        return {name: self.get(name) for name in TABLE}

    @classmethod
    def from_stored(cls, **columns: Any) -> InteractionTable:
        """The table of a file."""
        return cls({name: v for name, v in columns.items() if v is not None})

    @property
    def n_rows(self) -> int:
        """Number of interactions."""
        return len(self["interaction"])

    def lines(self, limit: int | None = None) -> list[str]:
        """One line per interaction: coefficient, or weight where there is none."""
        return [self._line(i) for i in range(self.n_rows)[:limit]]

    def _line(self, i: int) -> str:
        value = self["coefficient"][i]
        shown = self["weight"][i] if np.isnan(value) else value
        label = f"  [{self['class'][i]}]" if "class" in self else ""
        return f"{shown:6.3g}  {self['interaction'][i]}{label}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def term_kind(product: Product) -> str:
    """What statisticians call a product of columns.

    Examples
    --------
    >>> [term_kind(i) for i in ((), (2,), (2, 2), (0, 2, 2))]
    ['constant', 'main effect', 'power', 'interaction']
    """
    if len(set(product)) > 1:
        return "interaction"
    return ("constant", "main effect", "power")[min(len(product), 2)]


def interaction_table(
    products: Sequence[Product],
    names: Sequence[str],
    weights: Any,
    coefs: Any = None,
    labels: Sequence[Any] | None = None,
) -> InteractionTable:
    """The table of some products, in the order given."""
    coefficient = np.full(len(products), np.nan) if coefs is None else np.array(coefs)
    sign = np.nan_to_num(np.sign(coefficient)).astype(np.int64)
    table = InteractionTable(
        interaction=[product_name(product, names) for product in products],
        columns=[tuple(names[j] for j in product) for product in products],
        kind=[term_kind(product) for product in products],
        degree=np.array([len(product) for product in products], dtype=np.int64),
        weight=np.array(weights, dtype=float),
        coefficient=coefficient.astype(float),
        sign=sign,
    )
    if labels is not None:
        table["class"] = list(labels)
    return table
