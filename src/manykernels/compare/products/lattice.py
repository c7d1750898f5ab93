"""The lattice of products: divisors, hulls, and what lies below a product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.index import Product


def divides(part: Product, whole: Product) -> bool:
    """Whether every factor of `part` is one of `whole`, as often at least.

    Examples
    --------
    >>> divides((1,), (1, 1, 2)), divides((2, 2), (1, 1, 2))
    (True, False)
    """
    return not Counter(part) - Counter(whole)


def parents(product: Product) -> Iterator[Product]:
    """The products with one factor less."""
    for k in range(len(product)):
        yield product[:k] + product[k + 1 :]


def ancestry(products: Sequence[Product]) -> Array:
    """Entry (v, w) is 1 where v divides w, else 0."""
    return np.array([[divides(v, w) for w in products] for v in products], dtype=float)


def sources(
    hull: Sequence[Product], n_base: int, degree: int, least: int
) -> list[Product]:
    """The products outside a hull all of whose parents are inside.

    A hull holds the divisors of all its products; `least` is the smallest degree.

    Examples
    --------
    >>> sources([(), (0,)], n_base=2, degree=2, least=0)
    [(1,), (0, 0)]
    """
    known = set(hull)
    roots: list[Product] = [(j,) for j in range(n_base)] if least else [()]
    found = {root for root in roots if root not in known}
    for product in known:
        if len(product) < degree:
            found |= {
                child
                for j in range(n_base)
                if (child := tuple(sorted((*product, j)))) not in known
                and all(i in known for i in parents(child) if len(i) >= least)
            }
    return sorted(found, key=lambda i: (len(i), i))


class Below:
    r"""Bounds :math:`\sum_{w} E_w / (\sum_v d_v)^2`, w below t, v between t and w.

    E_w = <a, z_w>^2. If the bound is at most Omega^2 for every source t, no product
    outside the hull is needed (Bach, 2008, Proposition 5). Degrees up to 3.
    """

    def __init__(self, columns: Array, weights: Array, coef: Array) -> None:
        self.columns, self.weights, self.coef = columns, weights, coef
        self.degree = len(weights) - 1

    def of(self, products: Sequence[Product]) -> tuple[Array, Array]:
        """E_t / d_t^2 and the bound of every product, which has one factor or more."""
        own, bound = np.zeros(len(products)), np.zeros(len(products))
        order = sorted(range(len(products)), key=lambda i: products[i])
        for first, places in groupby(order, key=lambda i: products[i][0]):
            v = self.coef * self.columns[:, first]
            singles = v @ self.columns
            pairs = self._pairs(v)
            for i in places:
                t = products[i]
                energy, children, grandchildren = _values(t, v.sum(), singles, pairs)
                d = self.weights[len(t) :]
                own[i] = energy**2 / d[0] ** 2
                bound[i] = own[i] + _children(children, d) + _pairs(grandchildren, d)
        return own, bound

    def _pairs(self, v: Array) -> Array:
        if self.degree < 3:
            return np.zeros((0, 0))
        return np.asarray(self.columns.T @ (self.columns * v[:, None]))


def _values(
    t: Product, single: float, singles: Array, pairs: Array
) -> tuple[float, Array, Array]:
    """<a, z> of t, of t times a factor, and of t times two factors."""
    none = np.zeros(0)
    if len(t) == 1:
        return float(single), singles, pairs
    if len(t) == 2:
        return float(singles[t[1]]), pairs[t[1]] if len(pairs) else none, none
    return float(pairs[t[1], t[2]]), none, none


def _children(values: Array, d: Array) -> float:
    return float(np.square(values).sum() / (d[0] + d[1]) ** 2) if len(d) > 1 else 0.0


def _pairs(values: Array, d: Array) -> float:
    """Two different factors come twice in `values`, and have two products between."""
    if len(d) < 3 or not len(values):
        return 0.0
    squares = np.square(values)
    same = float(np.trace(squares))
    different = 0.5 * (float(squares.sum()) - same)
    return float(
        same / (d[0] + d[1] + d[2]) ** 2 + different / (d[0] + 2 * d[1] + d[2]) ** 2
    )
