"""Which products matter most: a' K_i a / rho_i^2 over all of them.

Values of one prefix, say (i,), with all its continuations by two more factors are one
matrix product, X' diag(v) X with v = weigh(a) * x_i. All products are never held at
once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.machine import allowed_bytes, available_threads, one_blas_thread
from manykernels.products.base import (
    BaseKernels,
    RankOneKernels,
    inverse_sizes,
    multiply_columns,
)
from manykernels.products.indices import Product, allows, bar

# Multiply-adds of one exhaustive look, some ten seconds on two cores.
AFFORDABLE = 4e11
THREADED_WORK = 1e7  # multiply-adds, below which threads are not worth their start
MOST_SCALE_BYTES = 10**9
SINGLE = 2.4e-7  # rounding of a sum in single precision, of the lengths of its factors
TILE = 256  # base kernels; larger tiles compute more of the same by symmetry


class Tile(NamedTuple):
    """Values of prefix + (row + j, column + k) in values[j, k]."""

    prefix: Product
    row: int
    column: int
    values: Array


class Prices(NamedTuple):
    """The best products found, and a bound on all of them."""

    products: list[Product]  # best first
    energies: Array  # a' K a / rho^2
    largest: float  # at least the largest of all products
    power_sum: float | None  # sum of energies^(q/2) over all, where they were all seen


@dataclass
class Pricing:
    """Finds the products with the largest a' K_i a / rho_i^2.

    Exhaustive while this takes at most `affordable` multiply-adds, and then with a
    certificate: no product is larger. Otherwise branch and bound over prefixes, the
    most promising first, until the same amount of work is done; what remains is
    bounded, and `Prices.largest` holds the bound.

    Parameters
    ----------
    base : BaseKernels
    rho : array of shape (degree + 1,)
    least_degree : int
        1 leaves the constant product out.
    affordable : float
        Multiply-adds of one search.
    memory_limit : int or str, optional
        Bytes for the blocks of one matrix product.
    single : bool
        Look at normalized products in single precision, twice as fast; the best ones
        are computed again, and the bound has room for the rounding of the others.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> X = np.sign(np.random.default_rng(0).normal(size=(50, 6)))
    >>> pricing = Pricing(RankOneKernels(X), np.ones(4))
    >>> pricing.search(X[:, 1] * X[:, 4] * X[:, 5], 1).products
    [(1, 4, 5)]
    """

    base: BaseKernels
    rho: Array
    least_degree: int = 0
    affordable: float = AFFORDABLE
    memory_limit: int | str | None = None
    single: bool = False
    _scales: dict[tuple[Product, int], NDArray[np.float32]] = field(
        default_factory=dict, repr=False
    )
    _remembered: int = field(default=0, repr=False)

    @property
    def degree(self) -> int:
        """The largest number of factors."""
        return len(self.rho) - 1

    @property
    def work(self) -> float:
        """Multiply-adds of an exhaustive search, roughly."""
        rows, r = self.base.columns.shape
        return float(rows * float(r) ** self.degree / max(self.degree, 1))

    @property
    def exhaustive(self) -> bool:
        """Whether all products are looked at."""
        return self.degree <= 2 or self.work <= self.affordable

    def search(self, coef: Array, top: int, power: float | None = None) -> Prices:
        """The `top` products for dual coefficients, as many as there are.

        Parameters
        ----------
        coef : array of shape (rows,)
        top : int
        power : float, optional
            Sum energies^power over all products as well.
        """
        if not self._single:
            return self._search(coef, top, power)
        length = float(np.linalg.norm(coef)) or 1.0  # squares of tiny ones have no room
        found = self._search(coef / length, top, power)
        square, total = length * length, found.power_sum
        if total is not None and power is not None:
            total *= square**power
        energies = square * found.energies
        return Prices(found.products, energies, square * found.largest, total)

    def _search(self, coef: Array, top: int, power: float | None) -> Prices:
        weighted = self.base.weigh(coef)
        found = BestProducts(
            self.base, self.rho, top, power if self.exhaustive else None
        )
        if self.base.normalized:
            found.exact = ExactEnergies(self.base, coef, SINGLE if self._single else 0)
        self._small(weighted, found)
        bound = 0.0
        with one_blas_thread():
            if self.degree >= 2 and self.exhaustive:
                self._everything(weighted, found)
            elif self.degree >= 2:
                bound = self._branch_and_bound(coef, weighted, found)
        return found.prices(bound)

    @property
    def _single(self) -> bool:
        return self.single and self.base.normalized and self.exhaustive

    @cached_property
    def _columns(self) -> Array:
        """The columns in the precision of the looks."""
        columns = self.base.columns
        return np.asarray(columns, dtype=np.float32) if self._single else columns

    def _everything(self, weighted: Array, found: BestProducts) -> None:
        """Every prefix in turn, shared among threads of our own.

        Threads of BLAS would wait for each other after each small product.
        """
        limits = self.base.limits
        prefixes = [
            prefix
            for d in range(2, self.degree + 1)
            for prefix in self._prefixes(d)
            if allows(limits, prefix)
        ]
        n_threads = min(available_threads(), len(prefixes))
        if n_threads <= 1 or self.work < THREADED_WORK:
            for prefix in prefixes:
                self._look(prefix, weighted, found)
            return
        parts = [found.twin() for _ in range(n_threads)]

        def look(k: int) -> None:
            for prefix in prefixes[k::n_threads]:
                self._look(prefix, weighted, parts[k])

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(look, range(n_threads)))
        for part in parts:
            found.merge(part)

    def _small(self, weighted: Array, found: BestProducts) -> None:
        """Degrees 0 and 1."""
        if self.least_degree == 0:
            found.add_values([()], np.array([weighted.sum()]), 0)
        if self.degree >= 1:
            products: list[Product] = [(j,) for j in range(self.base.n_base)]
            values = self.base.columns.T @ weighted
            if self.base.normalized:
                values *= self._small_scales()
            found.add_values(products, values, 1)

    def _small_scales(self) -> Array:
        """1 / size of the columns."""
        assert isinstance(self.base, RankOneKernels)
        columns, shares = self.base.columns, self.base.shares
        mean_squares = shares @ np.square(columns)
        return inverse_sizes(self.base.square_sizes(mean_squares, shares @ columns))

    def _prefixes(self, degree: int) -> Iterator[Product]:
        return combinations_with_replacement(range(self.base.n_base), degree - 2)

    def _look(self, prefix: Product, weighted: Array, found: BestProducts) -> None:
        for tile in self._tiles(prefix, weighted):
            found.add_tile(tile)

    def _tiles(self, prefix: Product, weighted: Array) -> Iterator[Tile]:
        """All continuations of a prefix by two factors that are not smaller."""
        columns = self._columns
        first = prefix[-1] if prefix else 0
        v = weighted * multiply_columns(self.base.columns, prefix)
        v = v.astype(columns.dtype, copy=False)
        for row in range(first, self.base.n_base, TILE):
            rows = slice(row, row + TILE)
            values = self._product(columns[:, rows], columns[:, row:], v)
            if self.base.normalized:
                values *= self._tile_scales(prefix, row)
            if self.base.limits is not None:
                bar(values, prefix, row, self.base.limits)
            yield Tile(prefix, row, row, values)

    def _tile_scales(self, prefix: Product, row: int) -> NDArray[np.float32]:
        """1 / size of the features of a tile, remembered if memory allows.

        They are the same in every search and cost as much as the values.
        """
        known = self._scales.get((prefix, row))
        if known is not None:
            return known
        assert isinstance(self.base, RankOneKernels)
        mean_squares = self._means(np.square(self.base.columns), prefix, row)
        means = self._means(self.base.columns, prefix, row)
        found = self.base.square_sizes(mean_squares, means)
        scales = inverse_sizes(found).astype(np.float32)
        if self._remembered + scales.nbytes <= self._scale_bytes:
            self._remembered += scales.nbytes
            self._scales[prefix, row] = scales
        return scales

    def _means(self, columns: Array, prefix: Product, row: int) -> Array:
        """Means of the products of a tile."""
        assert isinstance(self.base, RankOneKernels)
        v = multiply_columns(columns, prefix) * self.base.shares
        return self._product(columns[:, row : row + TILE], columns[:, row:], v)

    @cached_property
    def _block_bytes(self) -> int:
        return int(allowed_bytes(self.memory_limit) // 4)

    @cached_property
    def _scale_bytes(self) -> int:
        return min(MOST_SCALE_BYTES, allowed_bytes(self.memory_limit) // 3)

    def _product(self, left: Array, right: Array, v: Array) -> Array:
        """left' diag(v) right, over as many entries at a time as memory allows."""
        per_row = 8 * left.shape[1]
        step = max(1024, self._block_bytes // per_row)
        if len(v) <= step:
            return np.asarray((left * v[:, None]).T @ right)
        out = np.zeros((left.shape[1], right.shape[1]), left.dtype)
        for start in range(0, len(v), step):
            part = slice(start, start + step)
            out += (left[part] * v[part, None]).T @ right[part]
        return out

    def _branch_and_bound(
        self, coef: Array, weighted: Array, found: BestProducts
    ) -> float:
        """Look at prefixes, the most promising first; bound on what was not seen."""
        rows, r = self.base.columns.shape
        looks = max(1, int(self.affordable / (rows * float(r) * r)))
        bounds = PrefixBounds(self.base, self.rho, coef, weighted)
        queue: list[tuple[float, Product, int]] = [
            (-bounds.of((), d), (), d) for d in range(2, self.degree + 1)
        ]
        heapq.heapify(queue)
        while queue and looks > 0:
            bound, prefix, degree = heapq.heappop(queue)
            if -bound <= found.threshold:
                return 0.0  # nothing left can be among the best
            if len(prefix) == degree - 2:
                self._look(prefix, weighted, found)
                looks -= 1
                continue
            for j in range(prefix[-1] if prefix else 0, r):
                longer = (*prefix, j)
                heapq.heappush(queue, (-bounds.of(longer, degree), longer, degree))
        return -queue[0][0] if queue else 0.0


class ExactEnergies:
    """Energies of a few normalized products in double precision."""

    def __init__(self, base: BaseKernels, coef: Array, rounding: float) -> None:
        self.base, self.coef = base, coef
        # What the value of a product that was not computed again may lack.
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


class PrefixBounds:
    """What the products that begin with a prefix can reach at most.

    Their energies are not negative and sum to a' (K_prefix * S^left) a; and none of
    their entries exceeds that of the prefix times the largest of its row.
    """

    def __init__(
        self, base: BaseKernels, rho: Array, coef: Array, weighted: Array
    ) -> None:
        self.base, self.rho, self.coef, self.weighted = base, rho, coef, weighted
        # Of features with unit mean square only Cauchy and Schwarz know a bound.
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


class BestProducts:
    """The largest energies seen so far, and a sum of powers over all of them."""

    def __init__(
        self, base: BaseKernels, rho: Array, top: int, power: float | None
    ) -> None:
        self._base, self._rho, self._top, self._power = base, rho, top, power
        self._best: dict[Product, float] = {}
        self.exact: ExactEnergies | None = None
        self.threshold = 0.0  # energy that a product must exceed to be kept
        self._sum = 0.0

    def twin(self) -> BestProducts:
        """An empty one with the same settings."""
        return BestProducts(self._base, self._rho, self._top, self._power)

    def merge(self, other: BestProducts) -> None:
        """Take in what another has seen of other products."""
        self._best |= other._best
        self._sum += other._sum
        self._shrink()

    def add_values(self, products: list[Product], values: Array, degree: int) -> None:
        """Products of one degree with their inner products."""
        energies = self._base.energies(values) / self._rho[degree] ** 2
        if self._power is not None:
            self._sum += float((energies**self._power).sum())
        for i in np.flatnonzero(energies > self.threshold):
            self._best[products[i]] = float(energies[i])
        self._shrink()

    def add_tile(self, tile: Tile) -> None:
        """Continuations by two factors; those below the diagonal come twice."""
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
        if len(rows) > 4 * self._top:
            keep = np.argpartition(-energies, self._top)[: self._top]
            rows, columns, energies = rows[keep], columns[keep], energies[keep]
        for j, k, energy in zip(rows, columns, energies, strict=True):
            product = (*tile.prefix, int(tile.row + j), int(tile.column + k))
            self._best[product] = float(energy)
        self._shrink()

    def _tile_sum(self, tile: Tile, square: float, power: float) -> float:
        height = len(tile.values)
        powers = (self._base.energies(tile.values) / square) ** power
        inside = np.triu(powers[:, :height]).sum() + powers[:, height:].sum()
        return float(inside)

    def _shrink(self) -> None:
        if len(self._best) <= 4 * self._top:
            return
        self._best = dict(self._sorted()[: self._top])
        self.threshold = min(self._best.values())

    def _sorted(self) -> list[tuple[Product, float]]:
        return sorted(self._best.items(), key=lambda item: (-item[1], item[0]))

    def prices(self, bound: float) -> Prices:
        """What was found, best first."""
        best = self._sorted()[: self._top]
        slack, rounding = 1.0, 0.0
        if self.exact is not None:
            best = self.exact.energies(best, self._rho)
            slack += 1e-6  # sizes of others were kept in single precision
            rounding = self.exact.rounding / float(self._rho[1:].min())
        energies = np.array([energy for _, energy in best])
        largest = max([bound, *(slack * np.square(np.sqrt(energies[:1]) + rounding))])
        total = None if self._power is None else self._sum
        return Prices([product for product, _ in best], energies, largest, total)
