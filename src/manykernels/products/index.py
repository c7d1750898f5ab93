"""Products of base kernels as sorted multi-indices: counting and naming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb, factorial, prod

Product = tuple[int, ...]


def n_products(n_base: int, degree: int) -> int:
    """Distinct products of at most `degree` base kernels, the empty one included.

    Examples
    --------
    >>> n_products(100, 3), n_products(1000, 3)
    (176851, 167668501)
    """
    return comb(n_base + degree, degree)


def multiplicity(product: Product) -> int:
    """Orders in which a product can be written; all of them are one kernel.

    Examples
    --------
    >>> multiplicity((1, 2, 3)), multiplicity((1, 1, 2)), multiplicity(())
    (6, 3, 1)
    """
    repeats = prod(factorial(count) for count in Counter(product).values())
    return factorial(len(product)) // repeats


def all_products(n_base: int, degree: int) -> list[Product]:
    """Every distinct product, by degree; for small sets and tests.

    Examples
    --------
    >>> all_products(2, 2)
    [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]
    """
    return [
        product
        for d in range(degree + 1)
        for product in combinations_with_replacement(range(n_base), d)
    ]


def product_name(product: Product, names: Sequence[str]) -> str:
    """The factors of a product in words.

    Examples
    --------
    >>> product_name((0, 2, 2), ["age", "dose", "time"])
    'age * time^2'
    >>> product_name((), [])
    '1'
    """
    if not product:
        return "1"
    counts = Counter(product).items()
    return " * ".join(names[j] + (f"^{c}" if c > 1 else "") for j, c in counts)
