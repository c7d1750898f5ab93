"""The best products of a search, and bounds on the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manykernels.base.arrays import Array
from manykernels.products.base import (
    BaseKernels,
    RankOneKernels,
    multiply_columns,
)
from manykernels.products.indices import Product


class ProductTile(NamedTuple):
    """Values of prefix + (row + j, column + k) in values[j, k]."""

    prefix: Product
    row: int
    column: int
    values: Array


class Prices(NamedTuple):
    """The best products, and a bound on all others."""

    products: list[Product]  # best first
    energies: Array  # a' K a / rho^2
    largest: float  # at least the largest of all products
    power_sum: (
        float | None
    )  # of energies^(q/2) over all products; None unless exhaustive


class ExactEnergies:
    """Energies of the best normalized products, computed again in double precision."""

    def __init__(self, base: BaseKernels, coef: Array, rounding: float) -> None:
        self.base, self.coef = base, coef
        # Largest rounding error of a value in single precision.
        self.rounding = rounding * float(np.linalg.norm(coef)) * np.sqrt(len(coef))

    def energies(
        self, rough: list[tuple[Product, float]], rho: Array
    ) -> list[tuple[Product, float]]:
        assert isinstance(self.base, RankOneKernels)
        products = [product for product, _ in rough]
        squares = np.square(self.coef @ self.base.features(products)).tolist()
        exact = zip(products, squares, strict=True)
        scaled = [(i, energy / float(rho[len(i)]) ** 2) for i, energy in exact]
        return sorted(scaled, key=lambda item: (-item[1], item[0]))


class BestProducts:
    """The largest energies so far, and a sum of powers over all products."""

    def __init__(
        self, base: BaseKernels, rho: Array, top: int, power: float | None
    ) -> None:
        self._base, self._rho, self.top, self._power = base, rho, top, power
        self._best: dict[Product, float] = {}
        self.exact: ExactEnergies | None = None
        self.threshold = 0.0  # energy that a product must exceed to be kept
        self._sum = 0.0

    def twin(self) -> BestProducts:
        """Return an empty collection with the same settings."""
        return BestProducts(self._base, self._rho, self.top, self._power)

    @property
    def sums_powers(self) -> bool:
        """Whether a search must add all products, not only the best."""
        return self._power is not None

    def merge(self, other: BestProducts) -> None:
        """Add the products of another collection, which are other products."""
        self._best |= other._best
        self._sum += other._sum
        self._shrink()

    def add_values(self, products: list[Product], values: Array, degree: int) -> None:
        """Add products of one degree by their inner products."""
        energies = self._base.energies(values) / self._rho[degree] ** 2
        if self._power is not None:
            self._sum += float((energies**self._power).sum())
        for i in np.flatnonzero(energies > self.threshold):
            self._best[products[i]] = float(energies[i])
        self._shrink()

    def add_tile(self, tile: ProductTile) -> None:
        """Add continuations by two factors; those below the diagonal are doubles."""
        square = float(self._rho[len(tile.prefix) + 2]) ** 2
        if self._power is not None:
            self._sum += self._tile_sum(tile, square, self._power)
        limit = self._base.largest_value(self.threshold * square)
        rows, columns = np.nonzero(np.abs(tile.values) > limit)
        upper = columns >= rows  # both offsets are the same
        rows, columns = rows[upper], columns[upper]
        if not len(rows):
            return
        energies = self._base.energies(tile.values[rows, columns]) / square
        if len(rows) > 4 * self.top:
            keep = np.argpartition(-energies, self.top)[: self.top]
            rows, columns, energies = rows[keep], columns[keep], energies[keep]
        for j, k, energy in zip(rows, columns, energies, strict=True):
            product = (*tile.prefix, int(tile.row + j), int(tile.column + k))
            self._best[product] = float(energy)
        self._shrink()

    def _tile_sum(self, tile: ProductTile, square: float, power: float) -> float:
        height = len(tile.values)
        powers = (self._base.energies(tile.values) / square) ** power
        inside = np.triu(powers[:, :height]).sum() + powers[:, height:].sum()
        return float(inside)

    def _shrink(self) -> None:
        if len(self._best) <= 4 * self.top:
            return
        self._best = dict(self._sorted()[: self.top])
        self.threshold = min(self._best.values())

    def _sorted(self) -> list[tuple[Product, float]]:
        return sorted(self._best.items(), key=lambda item: (-item[1], item[0]))

    def prices(self, bound: float) -> Prices:
        """Return the result of the search, best product first."""
        best = self._sorted()[: self.top]
        slack, rounding = 1.0, 0.0
        if self.exact is not None:
            best = self.exact.energies(best, self._rho)
            slack += 1e-6  # sizes of others were kept in single precision
            rounding = self.exact.rounding / float(self._rho[1:].min())
        energies = np.array([energy for _, energy in best])
        largest = max([bound, *(slack * np.square(np.sqrt(energies[:1]) + rounding))])
        total = None if self._power is None else self._sum
        return Prices([product for product, _ in best], energies, largest, total)


class PrefixBounds:
    """Upper bounds of the energies of all products that begin with a prefix.

    These energies are non-negative and sum to a' (K_prefix * S^left) a, and no entry
    of such a product exceeds that of the prefix times the largest of its row.
    """

    def __init__(
        self, base: BaseKernels, rho: Array, coef: Array, weighted: Array
    ) -> None:
        self.base, self.rho, self.coef, self.weighted = base, rho, coef, weighted
        # Of features with unit mean square only the Cauchy-Schwarz bound is known.
        self.normalized = base.normalized
        self.powers = [] if self.normalized else base.power_sums(len(rho) - 1)
        self.largest = np.abs(base.columns).max(axis=1)

    def of(self, prefix: Product, degree: int) -> float:
        if self.normalized:
            energy = len(self.coef) * float(self.coef @ self.coef)
            return energy / float(self.rho[degree]) ** 2
        left = degree - len(prefix)
        v = np.abs(self.weighted * multiply_columns(self.base.columns, prefix))
        by_entries = self.base.energies(np.array([v @ self.largest**left]))[0]
        by_sum = self.base.energy_sum(self.coef, prefix, self.powers[left])
        return float(min(by_entries, by_sum)) / float(self.rho[degree]) ** 2
