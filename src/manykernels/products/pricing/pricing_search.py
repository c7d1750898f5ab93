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
from manykernels.products.indices import Product, allows, zero_disallowed
from manykernels.products.pricing.best_products import (
    BestProducts,
    ExactEnergies,
    PrefixBounds,
    Prices,
    ProductTile,
)
from manykernels.products.pricing.device_pricing import DevicePricing

# Multiply-adds of an exhaustive search that are affordable: some ten seconds on two
# cores.
AFFORDABLE = 4e11
DEVICE_SPEEDUP = 100.0  # matrix products of a GPU, relative to two cores
MIN_THREADED_WORK = 1e7  # multiply-adds; less is done before threads start
MAX_REMEMBERED_SCALES_BYTES = 10**9
# Rounding error of an inner product in single precision, relative to both lengths.
FLOAT32_SUM_RTOL = 2.4e-7
# Base kernels of a tile. Larger tiles hold more products twice, smaller ones make
# matrix products too small for BLAS.
PRICING_TILE = 256


@dataclass
class Pricing:
    """Find the products with the largest a' K_i a / rho_i^2.

    The search is exhaustive where this takes at most `affordable` multiply-adds, and
    then a certificate: no other product is larger. Otherwise it is branch and bound
    over prefixes, the most promising first, until as much work is done;
    `Prices.largest` then also bounds the products that were not visited.

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
        Search normalized products in single precision, which is twice as fast. The
        best ones are computed again, and the bound allows for rounding of the others.

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
        """Multiply-adds of an exhaustive search on a processor of equal speed."""
        rows, r = self.base.columns.shape
        device = self.base.device
        fast = device is not None and device.seconds_per_value is not None
        speed = DEVICE_SPEEDUP if fast else 1.0
        return float(rows * float(r) ** self.degree / max(self.degree, 1)) / speed

    @property
    def exhaustive(self) -> bool:
        """Whether all products are computed."""
        return self.degree <= 2 or self.work <= self.affordable

    def search(self, coef: Array, top: int, power: float | None = None) -> Prices:
        """Return the `top` products for dual coefficients.

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
            found.exact = ExactEnergies(
                self.base, coef, FLOAT32_SUM_RTOL if self._single else 0
            )
        self._small(weighted, found)
        bound = 0.0
        with one_blas_thread():
            if self.degree >= 2 and self.exhaustive:
                self._exhaust(weighted, found)
            elif self.degree >= 2:
                bound = self._branch_and_bound(coef, weighted, found)
        return found.prices(bound)

    @property
    def _single(self) -> bool:
        return self.single and self.base.normalized and self.exhaustive

    @cached_property
    def _columns(self) -> Array:
        """The columns in the precision of the search."""
        columns = self.base.columns
        return np.asarray(columns, dtype=np.float32) if self._single else columns

    @cached_property
    def _on_device(self) -> DevicePricing:
        """The search on the device of the base kernels, which keeps the columns."""
        assert self.base.device is not None
        return DevicePricing(
            self.base, self.base.device, self._single, self.memory_limit
        )

    def _exhaust(self, weighted: Array, found: BestProducts) -> None:
        """Visit every prefix, on the processor or on a device."""
        limits = self.base.limits
        for degree in range(2, self.degree + 1):
            prefixes = [p for p in self._prefixes(degree) if allows(limits, p)]
            if self.base.device is None or found.sums_powers:
                self._exhaust_in_threads(prefixes, weighted, found)
                continue
            with self.base.device.out_of_memory_error():
                batches = self._on_device.best(prefixes, weighted, found.top)
                for products, values in batches:
                    found.add_values(products, values, degree)

    def _exhaust_in_threads(
        self, prefixes: list[Product], weighted: Array, found: BestProducts
    ) -> None:
        """Visit prefixes in threads, each with single-threaded BLAS.

        Threads of BLAS would wait for each other after each small product.
        """
        n_threads = min(available_threads(), len(prefixes))
        if n_threads <= 1 or self.work < MIN_THREADED_WORK:
            for prefix in prefixes:
                self._visit(prefix, weighted, found)
            return
        parts = [found.twin() for _ in range(n_threads)]

        def visit(k: int) -> None:
            for prefix in prefixes[k::n_threads]:
                self._visit(prefix, weighted, parts[k])

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(visit, range(n_threads)))
        for part in parts:
            found.merge(part)

    def _small(self, weighted: Array, found: BestProducts) -> None:
        """Visit the products of degrees 0 and 1."""
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

    def _visit(self, prefix: Product, weighted: Array, found: BestProducts) -> None:
        for tile in self._tiles(prefix, weighted):
            found.add_tile(tile)

    def _tiles(self, prefix: Product, weighted: Array) -> Iterator[ProductTile]:
        """Yield all continuations of a prefix by two factors that are not smaller."""
        columns = self._columns
        first = prefix[-1] if prefix else 0
        v = weighted * multiply_columns(self.base.columns, prefix)
        v = v.astype(columns.dtype, copy=False)
        for row in range(first, self.base.n_base, PRICING_TILE):
            rows = slice(row, row + PRICING_TILE)
            values = self._product(columns[:, rows], columns[:, row:], v)
            if self.base.normalized:
                values *= self._tile_scales(prefix, row)
            if self.base.limits is not None:
                zero_disallowed(values, prefix, row, self.base.limits)
            yield ProductTile(prefix, row, row, values)

    def _tile_scales(self, prefix: Product, row: int) -> NDArray[np.float32]:
        """Return 1 / size of the features of a tile, remembered if memory allows.

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
        return self._product(columns[:, row : row + PRICING_TILE], columns[:, row:], v)

    @cached_property
    def _block_bytes(self) -> int:
        return int(allowed_bytes(self.memory_limit) // 4)

    @cached_property
    def _scale_bytes(self) -> int:
        return min(MAX_REMEMBERED_SCALES_BYTES, allowed_bytes(self.memory_limit) // 3)

    def _product(self, left: Array, right: Array, v: Array) -> Array:
        """Return left' diag(v) right, in as many parts as memory needs."""
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
        """Visit the most promising prefixes first; return a bound on all others."""
        rows, r = self.base.columns.shape
        n_visits = max(1, int(self.affordable / (rows * float(r) * r)))
        bounds = PrefixBounds(self.base, self.rho, coef, weighted)
        queue: list[tuple[float, Product, int]] = [
            (-bounds.of((), d), (), d) for d in range(2, self.degree + 1)
        ]
        heapq.heapify(queue)
        while queue and n_visits > 0:
            bound, prefix, degree = heapq.heappop(queue)
            if -bound <= found.threshold:
                return 0.0  # nothing left can be among the best
            if len(prefix) == degree - 2:
                self._visit(prefix, weighted, found)
                n_visits -= 1
                continue
            for j in range(prefix[-1] if prefix else 0, r):
                longer = (*prefix, j)
                heapq.heappush(queue, (-bounds.of(longer, degree), longer, degree))
        return -queue[0][0] if queue else 0.0
