"""Interactions and coefficients of a fitted model as tables, and as a formula."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.stored import (
    Anything,
    Floats,
    ListOf,
    Maybe,
    Part,
    Wholes,
    storable,
)
from manykernels.products.indices import Product, product_name
from manykernels.products.product_models import ColumnScale, MonomialModel

# Columns of an interaction table, as a model file declares them.
INTERACTION_COLUMNS: dict[str, Any] = {
    "interaction": ListOf(Part(str), "rows"),
    "columns": ListOf(Part(tuple), "rows"),
    "kind": ListOf(Part(str), "rows"),
    "degree": Wholes("rows", low=0),
    "weight": Floats("rows", low=0.0),
    "coefficient": Floats("rows", nan=True),
    "sign": Wholes("rows", low=-1, below=2),
    "class": Maybe(ListOf(Anything(), "rows")),
}


@storable(**INTERACTION_COLUMNS)
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
        return {name: self.get(name) for name in INTERACTION_COLUMNS}

    @classmethod
    def from_stored(cls, **columns: Any) -> InteractionTable:
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
    """Return the statistical name of a product of columns.

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


def expanded(product: Product, scale: ColumnScale) -> dict[Product, float]:
    """Expand a product of scaled columns into products of the original columns.

    Examples
    --------
    >>> scale = ColumnScale(np.array([2.0, 0.0]), np.array([1.0, 10.0]))
    >>> expanded((0, 1), scale)
    {(1,): -20.0, (0, 1): 10.0}
    """
    out: dict[Product, float] = {(): 1.0}
    for j in product:
        shift, factor = float(scale.shift[j]), float(scale.factor[j])
        longer: dict[Product, float] = {}
        for known, value in out.items():
            if shift:
                longer[known] = longer.get(known, 0.0) - shift * factor * value
            with_j = tuple(sorted((*known, j)))
            longer[with_j] = longer.get(with_j, 0.0) + factor * value
        out = longer
    return out


def original_scale(model: MonomialModel) -> tuple[list[Product], Array, Array]:
    """Return monomials, the matrix that maps terms to them, and their coefficients.

    Row i of the matrix holds the contribution of every term, and last of the
    intercept, to the coefficient of monomial i. The constant monomial comes first.
    """
    terms = [tuple(int(j) for j in row if j >= 0) for row in model.products]
    scale = model.scale
    assert scale is not None
    parts = [expanded(term, scale) for term in terms]
    monomials = sorted({(), *(m for part in parts for m in part)}, key=_by_degree)
    places = {monomial: i for i, monomial in enumerate(monomials)}
    mapping = np.zeros((len(monomials), len(terms) + 1))
    mapping[0, -1] = 1.0
    for k, part in enumerate(parts):
        for monomial, value in part.items():
            mapping[places[monomial], k] += value
    return monomials, mapping, mapping @ np.vstack([model.coef, model.intercept])


def _by_degree(product: Product) -> tuple[int, Product]:
    return len(product), product


def coefficient_table(model: MonomialModel, names: list[str]) -> dict[str, Any]:
    """Return a row per monomial, intercept first, and a column per output."""
    monomials, _, values = original_scale(model)
    return {
        "term": [product_name(monomial, names) for monomial in monomials],
        "kind": [term_kind(monomial) for monomial in monomials],
        "coefficient": values[:, 0] if values.shape[1] == 1 else values,
    }


def formula_text(model: MonomialModel, names: list[str], digits: int) -> str:
    """Return the prediction as an expression for Python and pandas.eval."""
    monomials, _, values = original_scale(model)
    pieces = [
        f"{value:+.{digits}g}" + "".join(f" * {f}" for f in _factors(monomial, names))
        for monomial, value in zip(monomials, values[:, 0], strict=True)
        if value or not monomial
    ]
    text = " ".join(f"{piece[0]} {piece[1:]}" for piece in pieces)
    return text.removeprefix("+ ") if text[0] == "+" else "-" + text[2:]


def _factors(monomial: Product, names: list[str]) -> list[str]:
    return [
        _backticked(names[j]) + (f"**{count}" if count > 1 else "")
        for j, count in Counter(monomial).items()
    ]


def _backticked(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
