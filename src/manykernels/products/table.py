"""The interactions of a fitted model as a table of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manykernels.products.index import Product, product_name


class InteractionTable(dict[str, Any]):
    """Columns by name, strongest interaction first; pandas.DataFrame(table) reads it.

    interaction : the product in words
    columns : names of its factors
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
        degree=np.array([len(product) for product in products], dtype=np.int64),
        weight=np.array(weights, dtype=float),
        coefficient=coefficient.astype(float),
        sign=sign,
    )
    if labels is not None:
        table["class"] = list(labels)
    return table
