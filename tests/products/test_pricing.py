"""The pricing oracle against looking at every product."""

import numpy as np
import pytest

from manykernels.products.base import RankOneKernels
from manykernels.products.pricing import Pricing
from manykernels.products.pricing import pricing_search as pricing_module
from manykernels.products.pricing.best_products import BestProducts
from tests.products.toys import BASES, columns, energies

RHO = np.array([1.5, 1.0, 0.8, 1.2])


def ranked(listed):
    return sorted(listed.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("name", BASES)
def test_the_best_products_are_found(name, degree):
    base, rho = BASES[name](), RHO[: degree + 1]
    coef = np.random.default_rng(2).normal(size=base.n_rows)
    wanted = ranked(energies(base, coef, rho))[:4]
    prices = Pricing(base, rho).search(coef, 4)
    np.testing.assert_allclose(prices.energies, [energy for _, energy in wanted])
    assert prices.products[0] == wanted[0][0]
    assert prices.largest == pytest.approx(wanted[0][1], rel=2e-6)
    assert prices.largest >= wanted[0][1] * (1 - 1e-12)
    assert prices.power_sum is None


@pytest.mark.parametrize("name", BASES)
def test_powers_are_summed_over_distinct_products(name):
    base = BASES[name]()
    coef = np.random.default_rng(2).normal(size=base.n_rows)
    for least in (0, 1):
        listed = energies(base, coef, RHO)
        wanted = sum(e**2 for i, e in listed.items() if len(i) >= least)
        prices = Pricing(base, RHO, least).search(coef, 1, power=2.0)
        assert prices.power_sum == pytest.approx(wanted)


def test_tiles_threads_and_memory_do_not_matter(monkeypatch):
    base = RankOneKernels(columns(30, 11))
    coef = np.random.default_rng(0).normal(size=30)
    whole = Pricing(base, RHO).search(coef, 7, power=2.0)
    monkeypatch.setattr(pricing_module, "PRICING_TILE", 3)
    monkeypatch.setattr(pricing_module, "MIN_THREADED_WORK", 0.0)
    monkeypatch.setattr(pricing_module, "available_threads", lambda: 3)
    pieces = Pricing(base, RHO, memory_limit=1).search(coef, 7, power=2.0)
    assert pieces.products == whole.products
    np.testing.assert_allclose(pieces.energies, whole.energies)
    assert pieces.power_sum == pytest.approx(whole.power_sum)


@pytest.mark.parametrize("name", BASES)
def test_branch_and_bound_with_enough_work_is_exact(name):
    base = BASES[name]()
    coef = np.random.default_rng(4).normal(size=base.n_rows)
    exact = Pricing(base, RHO).search(coef, 3)
    rows, r = base.columns.shape
    searching = Pricing(base, RHO, affordable=r * rows * r * r / 3 - 1)
    assert not searching.exhaustive
    searching.affordable = rows * r * r * 10.0
    found = BestProducts(base, RHO, 3, None)
    searching._small(base.weigh(coef), found)
    bound = searching._branch_and_bound(coef, base.weigh(coef), found)
    assert bound == 0.0
    np.testing.assert_allclose(found.prices(bound).energies, exact.energies)


@pytest.mark.parametrize("degree", [3, 4])
def test_an_unfinished_search_still_bounds(degree):
    X = columns(40, 8, seed=5)
    base, rho = RankOneKernels(X), np.ones(degree + 1)
    for seed in range(5):
        coef = np.random.default_rng(seed).normal(size=40)
        largest = max(energies(base, coef, rho).values())
        prices = Pricing(base, rho, affordable=1.0).search(coef, 2)
        assert prices.largest >= largest * (1 - 1e-12)
        assert prices.energies[0] <= largest * (1 + 1e-12)


def test_scales_are_remembered_within_the_limit():
    base = RankOneKernels(columns(30, 11), normalized=True)
    coef = np.random.default_rng(0).normal(size=30)
    free, tight = Pricing(base, RHO), Pricing(base, RHO, memory_limit="1KB")
    for _ in range(2):
        one, two = free.search(coef, 5), tight.search(coef, 5)
        assert one.products == two.products
        np.testing.assert_allclose(one.energies, two.energies)
    assert 0 < sum(scales.nbytes for scales in tight._scales.values()) <= 1000
    assert len(free._scales) > len(tight._scales)


def test_fewer_products_than_asked_for():
    prices = Pricing(RankOneKernels(columns(6, 1)), np.ones(3)).search(np.ones(6), 50)
    assert sorted(prices.products) == [(), (0,), (0, 0)]


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_single_precision_finds_the_same_and_bounds_the_rest(size):
    X = np.random.default_rng(3).normal(size=(300, 12))
    base = RankOneKernels(X, normalized=True, around_mean=True)
    coef = size * np.random.default_rng(4).normal(size=300)
    coef -= coef.mean()
    rough = Pricing(base, np.ones(4), 1, single=True).search(coef, 20)
    exact = Pricing(base, np.ones(4), 1).search(coef, 20)
    assert rough.products[:10] == exact.products[:10]
    np.testing.assert_allclose(rough.energies[:10], exact.energies[:10], rtol=1e-10)
    assert exact.energies[0] <= rough.largest <= exact.energies[0] * (1 + 1e-4)
