"""Base kernels on the training rows, and the features or matrices of their products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.device import Device, quotient
from manykernels.products.indices import Product

# A variance below this share of the mean square is rounding: the column is constant.
CONSTANT_COLUMN_RTOL = 1e-12


# Both kinds of base kernels offer the same methods. The energy of a product is a' K a.
# It is a function of <weigh(a), product of columns> for either kind, so that one
# pricing oracle serves both.


@dataclass(frozen=True)
class RankOneKernels:
    """K_j = x_j x_j': every product is one feature, the product of the columns.

    Normalized features have a mean square of one, or a variance of one if they are
    measured around their means, whatever the tails of the columns; with p = 1 the
    penalty is then the same for all of them. The sampler of mirror descent needs
    products as they are.

    Examples
    --------
    >>> base = RankOneKernels(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> base.feature((0, 1))
    array([ 2., 12.])
    """

    columns: Array  # (rows, base kernels)
    normalized: bool = False  # every product scaled to one size
    limits: Index | None = None  # how often a column may be a factor
    around_mean: bool = False  # size is the standard deviation: for an intercept
    row_weights: Array | None = None  # in means, none of them zero
    prior: Callable[[Product], float] | None = None  # factors of rho, at least one
    device: Device | None = None  # where all products are looked at

    @property
    def n_base(self) -> int:
        """Number of base kernels."""
        return int(self.columns.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.columns.shape[0])

    def weigh(self, coef: Array) -> Array:
        """Return the v whose <v, z> give energies: the coefficients themselves."""
        return coef

    def energies(self, values: Array) -> Array:
        """Return a' K a from inner products <weigh(a), z>: their squares."""
        return np.square(values)

    def largest_value(self, energy: float) -> float:
        """Return the largest inner product that has this energy."""
        return float(np.sqrt(max(energy, 0.0)))

    def feature(self, product: Product) -> Array:
        """The feature z of a product: its columns multiplied entry by entry."""
        return self.features([product])[:, 0]

    def rareness(self, product: Product) -> float:
        """What the prior multiplies rho by; then K is divided by its square."""
        factor = 1.0 if self.prior is None else float(self.prior(product))
        if not (1.0 <= factor < np.inf):
            raise ValueError(
                "prior must be a function from products to numbers of at least 1, got "
                f"{factor:g} for {product}; larger ones make a product rarer."
            )
        return factor

    def sizes(self, products: Sequence[Product]) -> Array:
        """What features were divided by: standard deviations and the like, or ones."""
        if not self.normalized:
            return np.array([self.rareness(product) for product in products])
        Z = products_of_columns(self.columns, products)
        return np.sqrt(self._square_sizes(Z, self.shares))

    def _square_sizes(self, Z: Array, shares: Array) -> Array:
        """Squares of the sizes of features side by side."""
        return self.square_sizes(shares @ np.square(Z), shares @ Z)

    @property
    def shares(self) -> Array:
        """What every row counts in a mean."""
        if self.row_weights is None:
            return np.full(self.n_rows, 1.0 / self.n_rows)
        return np.asarray(self.row_weights / self.row_weights.sum())

    def square_sizes(self, mean_squares: Any, means: Any, xp: Any = np) -> Any:
        """Squares of what normalized features are divided by; 0 where they are flat."""
        if not self.around_mean:
            return mean_squares
        variances = mean_squares - means * means
        flat = variances <= CONSTANT_COLUMN_RTOL * mean_squares
        return xp.where(flat, xp.zeros_like(variances), variances)

    def features(self, products: Sequence[Product]) -> Array:
        """Features side by side, shape (rows, products)."""
        return self._sized(products, self.shares)

    def _sized(self, products: Sequence[Product], shares: Array) -> Array:
        """Features in the size that they have where rows count by their shares."""
        Z = products_of_columns(self.columns, products)
        if self.prior is not None:
            Z /= np.array([self.rareness(product) for product in products])
        if self.normalized:
            Z *= inverse_sizes(self._square_sizes(Z, shares))
        return Z

    def matrix(self, product: Product) -> Array:
        """Return the kernel matrix of a product, z z'."""
        z = self.feature(product)
        return np.outer(z, z)

    def combined(self, products: Sequence[Product], scales: Array) -> Array:
        """Return sum_i scales_i K_i, Z diag(scales) Z' as one matrix product."""
        Z = self.features(products) * np.sqrt(scales)
        return np.asarray(Z @ Z.T)

    def take(self, rows: Index) -> RankOneKernels:
        """Return the same base kernels on some of the rows."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        return replace(self, columns=self.columns[rows], row_weights=weights)

    def scores(
        self,
        products: Sequence[Product],
        scales: Array,
        coef: Array,
        rows: Index,
        known: Index,
    ) -> Array:
        """Return sum_i scales_i K_i a between `rows` and the rows `known` of a.

        Features have the size that they have on the known rows.
        """
        shares = np.zeros(self.n_rows)
        shares[known] = self.take(known).shares
        Z = self._sized(products, shares)
        return np.asarray(Z[rows] @ (scales * (coef @ Z[known])))

    def largest_trace(self) -> float:
        """Return the largest trace of a base kernel: how much of y one can explain."""
        return float(np.square(self.columns).sum(axis=0).max(initial=0.0))

    def inner_products(self, weights: Array) -> Array:
        """Return <W, K_j> for every base kernel, x_j' W x_j."""
        return np.asarray(np.einsum("tj,tj->j", self.columns, weights @ self.columns))

    def weighted_sum(self, weights: Array, rows: Any, known: Any) -> Array:
        """Return sum_j weights_j K_j between some rows and others."""
        return np.asarray((self.columns[rows] * weights) @ self.columns[known].T)

    def power_sums(self, degree: int) -> list[Array]:
        """Return S^0, ..., S^degree entry by entry, S the sum of all base kernels."""
        if self.normalized:
            raise ValueError(
                "sums over all products need products as they are, got normalized "
                "ones; use RankOneKernels(columns) without normalized=True, or an "
                "estimator with normalize=False."
            )
        return hadamard_powers(self.columns @ self.columns.T, degree)

    def factor_masses(self, coef: Array, chosen: Product, powers: list[Array]) -> Array:
        """Return a' (K_chosen * K_j * S^k) a for every base kernel j.

        `powers` are S^0, ..., S^k, where k factors are to follow. With
        v = a * z_chosen this is the diagonal of X' (v v' * S^k) X.
        """
        z = multiply_columns(self.columns, chosen)
        weighted = self.columns * (coef * z)[:, None]
        if len(powers) == 1:
            return np.asarray(np.square(weighted.sum(axis=0)))
        if len(powers) == 2 and self.n_base < self.n_rows:
            return np.asarray(np.square(self.columns.T @ weighted).sum(axis=0))
        return np.asarray(np.einsum("tj,tj->j", weighted, powers[-1] @ weighted))

    def energy_sum(self, coef: Array, prefix: Product, power: Array) -> float:
        """Return a' (K_prefix * S^k) a, the sum over all continuations of a prefix."""
        v = coef * multiply_columns(self.columns, prefix)
        return float(v @ (power @ v))


@dataclass(frozen=True)
class DenseKernels:
    """Any base kernels, as matrices.

    With columns vec(K_j) and the vector vec(a a'), energies are inner products like
    those of single features; half of the entries suffice, by symmetry.

    Examples
    --------
    >>> base = DenseKernels(np.stack([np.eye(2), np.ones((2, 2))]))
    >>> base.weigh(np.array([1.0, 2.0])) @ base.columns
    array([5., 9.])
    """

    stack: Array  # (base kernels, rows, rows)
    device: Device | None = None  # where all products are looked at
    normalized: ClassVar[bool] = False
    limits: ClassVar[Index | None] = None

    @property
    def n_base(self) -> int:
        return len(self.stack)

    @property
    def n_rows(self) -> int:
        return int(self.stack.shape[1])

    @cached_property
    def _upper(self) -> tuple[Index, Index]:
        rows, columns = np.triu_indices(self.n_rows)
        return rows, columns

    @cached_property
    def columns(self) -> Array:
        """The upper triangles, one column per base kernel."""
        rows, columns = self._upper
        return np.ascontiguousarray(self.stack[:, rows, columns].T)

    def weigh(self, coef: Array) -> Array:
        """The upper triangle of a a', counted twice off the diagonal."""
        rows, columns = self._upper
        counts = np.where(rows == columns, 1.0, 2.0)
        return np.asarray(counts * coef[rows] * coef[columns])

    def energies(self, values: Array) -> Array:
        return np.maximum(values, 0.0)  # rounding may leave them slightly below zero

    def largest_value(self, energy: float) -> float:
        return max(energy, 0.0)

    def rareness(self, product: Product) -> float:
        return 1.0

    def matrix(self, product: Product) -> Array:
        """Entry by entry, K_1 * K_2 * ..."""
        out = np.ones(self.stack.shape[1:])
        for j in product:
            out *= self.stack[j]
        return out

    def combined(self, products: Sequence[Product], scales: Array) -> Array:
        out = np.zeros(self.stack.shape[1:])
        for product, scale in zip(products, scales, strict=True):
            out += scale * self.matrix(product)
        return out

    def take(self, rows: Index) -> DenseKernels:
        return DenseKernels(self.stack[:, rows][:, :, rows], self.device)

    def scores(
        self,
        products: Sequence[Product],
        scales: Array,
        coef: Array,
        rows: Index,
        known: Index,
    ) -> Array:
        scores, block = np.zeros(len(rows)), np.ix_(rows, known)
        for product, scale in zip(products, scales, strict=True):
            scores += scale * (self.matrix(product)[block] @ coef)
        return scores

    def largest_trace(self) -> float:
        return float(np.einsum("jtt->j", self.stack).max())

    def inner_products(self, weights: Array) -> Array:
        return np.asarray(self.stack.reshape(self.n_base, -1) @ weights.ravel())

    def weighted_sum(self, weights: Array, rows: Any, known: Any) -> Array:
        return np.tensordot(weights, self.stack[:, rows][:, :, known], 1)

    def power_sums(self, degree: int) -> list[Array]:
        return hadamard_powers(self.stack.sum(axis=0), degree)

    def factor_masses(self, coef: Array, chosen: Product, powers: list[Array]) -> Array:
        weights = np.outer(coef, coef) * self.matrix(chosen) * powers[-1]
        return self.inner_products(weights)

    def energy_sum(self, coef: Array, prefix: Product, power: Array) -> float:
        return float(coef @ ((self.matrix(prefix) * power) @ coef))


BaseKernels = RankOneKernels | DenseKernels


def inverse_sizes(squares: Any, xp: Any = np) -> Any:
    """1 / sqrt, and 0 for a feature of no size."""
    return quotient(xp, xp.ones_like(squares), xp.sqrt(squares))


def multiply_columns(columns: Array, product: Product) -> Array:
    """The product of some columns entry by entry; ones for the empty product."""
    out = np.ones(len(columns))
    for j in product:
        out *= columns[:, j]
    return out


def products_of_columns(columns: Array, products: Sequence[Product]) -> Array:
    """Products of some columns entry by entry, side by side.

    Examples
    --------
    >>> products_of_columns(np.array([[2.0, 3.0], [4.0, 5.0]]), [(0,), (0, 1), ()])
    array([[ 2.,  6.,  1.],
           [ 4., 20.,  1.]])
    """
    out = np.ones((len(columns), len(products)))
    degrees = np.array([len(product) for product in products], dtype=np.intp)
    for degree in np.unique(degrees):
        places = np.flatnonzero(degrees == degree)
        chosen = np.array([products[int(i)] for i in places], dtype=np.intp)
        for factor in chosen.reshape(len(places), degree).T:
            out[:, places] *= columns[:, factor]
    return out


def hadamard_powers(total: Array, degree: int) -> list[Array]:
    """Ones, S, S * S, ... up to the given power."""
    powers = [np.ones_like(total)]
    for _ in range(degree):
        powers.append(powers[-1] * total)
    return powers
