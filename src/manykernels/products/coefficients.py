"""Fitted terms in the units of the table: coefficients, intercept and a formula."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.indices import Product, product_name
from manykernels.products.product_models import ColumnScale, MonomialModel, term_kind

Polynomial = dict[Product, Array]  # coefficients of every output by monomial


def expanded(product: Product, scale: ColumnScale) -> dict[Product, float]:
    """The product of scaled columns as a sum of products of columns as they were.

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
    """Monomials, the matrix that maps terms and intercept to them, coefficients.

    Row i of the matrix holds what every term, and last the intercept, adds to the
    coefficient of monomial i; the constant monomial comes first.
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
    """One row per monomial, intercept first; one column per output where several."""
    monomials, _, values = original_scale(model)
    return {
        "term": [product_name(monomial, names) for monomial in monomials],
        "kind": [term_kind(monomial) for monomial in monomials],
        "coefficient": values[:, 0] if values.shape[1] == 1 else values,
    }


def formula_text(model: MonomialModel, names: list[str], digits: int) -> str:
    """The prediction as arithmetic, which Python and pandas.eval can read."""
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
        _quoted(names[j]) + (f"**{count}" if count > 1 else "")
        for j, count in Counter(monomial).items()
    ]


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
