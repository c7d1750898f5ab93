"""Products of base kernels as sorted indices: how many, which ones, their names.

x^2 = x for a column of zeros and ones: with it as a square, a term has several names.
So it may be limited how often a column is a factor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array, Index

Product = tuple[int, ...]


def n_products(n_base: int, degree: int, limits: Index | None = None) -> int:
    """Distinct products of at most `degree` base kernels, the empty one included.

    `limits` says how often each base kernel may be a factor.

    Examples
    --------
    >>> n_products(100, 3), n_products(1000, 3)
    (176851, 167668501)
    >>> n_products(100, 3, np.ones(100))
    166751
    """
    if limits is None:
        return comb(n_base + degree, degree)
    return count_products(limits, degree)


def multiplicity(product: Product) -> int:
    """Orders in which a product can be written; all of them are one kernel.

    Examples
    --------
    >>> multiplicity((1, 2, 3)), multiplicity((1, 1, 2)), multiplicity(())
    (6, 3, 1)
    """
    repeats = prod(factorial(count) for count in Counter(product).values())
    return factorial(len(product)) // repeats


def all_products(
    n_base: int, degree: int, limits: Index | None = None
) -> list[Product]:
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
        if allows(limits, product)
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


def useful_powers(columns: Array, degree: int) -> Index:
    """How many powers of each column are no sum of lower ones, at most `degree`.

    A column of v different values has v - 1 of them: any further power is a polynomial
    of lower degree on these values.

    Examples
    --------
    >>> useful_powers(np.array([[0.0, 0.0, 3.0], [1.0, 1.0, 3.0], [1.0, 2.0, 3.0]]), 3)
    array([1, 2, 1])
    """
    powers = [_n_values(x, degree + 1) - 1 for x in columns.T]
    return np.maximum(np.array(powers, dtype=np.intp), 1)


def _n_values(x: Array, most: int) -> int:
    """Different values of a column, counted no further than `most`."""
    count, left = 0, x
    while count < most and len(left):
        count, left = count + 1, left[left != left[0]]
    return count


def count_products(limits: Sequence[int] | Index, degree: int) -> int:
    """Products of at most `degree` factors, column j at most limits[j] times.

    Examples
    --------
    >>> count_products([1, 1, 1], 3), count_products([3, 3, 3], 3)
    (8, 20)
    """
    by_degree = [1] + [0] * degree
    for limit in limits:
        by_degree = [
            sum(by_degree[d - k] for k in range(min(int(limit), d) + 1))
            for d in range(degree + 1)
        ]
    return sum(by_degree)


def allows(limits: Index | None, product: Product) -> bool:
    """Whether no column is a factor more often than it may be.

    Examples
    --------
    >>> allows(np.array([1, 2]), (0, 1, 1)), allows(np.array([1, 2]), (0, 0))
    (True, False)
    """
    if limits is None:
        return True
    return all(count <= limits[j] for j, count in Counter(product).items())


def free_factors(
    n_base: int, limits: Index | None, degree: int, prefixes: Sequence[Product]
) -> Index:
    """Return how often every column may follow a prefix, in the order of columns.

    Examples
    --------
    >>> free_factors(3, np.array([1, 1, 2]), 3, [(1,)])
    array([[0, 0, 2]])
    """
    limit = np.full(n_base, degree, dtype=np.intp) if limits is None else limits
    n_free = np.tile(limit, (len(prefixes), 1))
    for k, prefix in enumerate(prefixes):
        np.subtract.at(n_free[k], list(prefix), 1)
        n_free[k, : prefix[-1] if prefix else 0] = 0
    return n_free


def zero_disallowed(values: Array, prefix: Product, row: int, limits: Index) -> None:
    """Set zeros where prefix + (row + j, row + k) repeats a column too often."""
    n_free = limits - np.bincount(
        np.array(prefix, dtype=np.intp), minlength=len(limits)
    )
    height = len(values)
    values[n_free[row : row + height] < 1] = 0.0
    values[:, n_free[row:] < 1] = 0.0
    squares: NDArray[np.intp] = np.flatnonzero(n_free[row : row + height] < 2)
    values[squares, squares] = 0.0
