"""Algorithm 3 draws from the distribution that it promises."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from manykernels.products.base import RankOneKernels
from manykernels.products.indices import all_products, multiplicity, n_products
from manykernels.products.product_sampler import ProductSampler
from tests.products.toys import BASES as ALL
from tests.products.toys import as_matrices, columns, energies

# The sampler needs products as they are.
BASES = {name: base for name, base in ALL.items() if "normalized" not in name}
RHO = {1: np.array([1.0, 0.5]), 2: np.array([2.0, 1.0, 0.7]), 3: np.ones(4)}


@pytest.mark.parametrize("degree", RHO)
@pytest.mark.parametrize("name", BASES)
def test_draws_follow_the_gradient(name, degree):
    base, rho = BASES[name](), RHO[degree]
    rng = np.random.default_rng(1)
    coef = rng.normal(size=base.n_rows)
    sampler = ProductSampler.of(base, rho)
    n_draws = 3000
    counts = Counter(sampler.draw(coef, rng).product for _ in range(n_draws))
    masses = {i: multiplicity(i) * e for i, e in energies(base, coef, rho).items()}
    total = sum(masses.values())
    assert set(counts) <= set(masses)
    # Rare products share a cell, as the test demands.
    expected = {i: n_draws * mass / total for i, mass in masses.items()}
    common = [i for i, e in expected.items() if e >= 8]
    observed = [counts[i] for i in common]
    wanted = [expected[i] for i in common]
    observed.append(n_draws - sum(observed))
    wanted.append(n_draws - sum(wanted))
    if wanted[-1] < 1e-6:
        assert observed.pop() == 0
        wanted.pop()
    assert chisquare(observed, wanted, sum_check=False).pvalue > 1e-3


@pytest.mark.parametrize("name", BASES)
def test_total_is_the_sum_over_ordered_products(name):
    base, rho = BASES[name](), RHO[2]
    coef = np.random.default_rng(0).normal(size=base.n_rows)
    listed = energies(base, coef, rho)
    wanted = sum(multiplicity(i) * energy for i, energy in listed.items())
    assert ProductSampler.of(base, rho).total(coef) == pytest.approx(wanted)


@pytest.mark.parametrize("name", BASES)
def test_the_estimate_is_unbiased(name):
    """Exactly: the sum over products of probability times estimate."""
    base, rho = BASES[name](), RHO[2]
    rng = np.random.default_rng(0)
    coef = rng.normal(size=base.n_rows)
    listed = energies(base, coef, rho)
    sampler = ProductSampler.of(base, rho)
    total = sampler.total(coef)
    seen = {}
    for _ in range(2000):
        draw = sampler.draw(coef, rng)
        seen[draw.product] = draw.gradient
    assert len(seen) > 5
    for product, estimate in seen.items():
        probability = multiplicity(product) * listed[product] / total
        assert probability * estimate == pytest.approx(-0.5 * listed[product])


def test_the_mean_of_many_estimates_is_the_gradient():
    base, rho = RankOneKernels(columns(r=3)), RHO[2]
    rng = np.random.default_rng(3)
    coef = rng.normal(size=base.n_rows)
    sampler = ProductSampler.of(base, rho)
    products = all_products(3, 2)
    sums, squares = np.zeros(len(products)), np.zeros(len(products))
    n_draws = 4000
    for _ in range(n_draws):
        draw = sampler.draw(coef, rng)
        i = products.index(draw.product)
        sums[i] += draw.gradient
        squares[i] += draw.gradient**2
    mean = sums / n_draws
    error = np.sqrt(np.maximum(squares / n_draws - mean**2, 0.0) / n_draws)
    gradient = np.array([-0.5 * e for e in energies(base, coef, rho).values()])
    rounding = 1e-12 * np.abs(gradient).max()
    assert np.all(np.abs(mean - gradient) <= 5.0 * error + rounding)


def test_factor_masses_of_columns_equal_those_of_matrices():
    for n, r in [(5, 9), (9, 5)]:  # more or fewer columns than rows
        base = RankOneKernels(columns(n, r))
        dense = as_matrices(base)
        coef = np.random.default_rng(0).normal(size=n)
        powers = dense.power_sums(2)
        for chosen in [(), (1,), (2, 2)]:
            for left in range(3):
                np.testing.assert_allclose(
                    base.factor_masses(coef, chosen, powers[: left + 1]),
                    dense.factor_masses(coef, chosen, powers[: left + 1]),
                )


def test_normalized_products_are_refused():
    with pytest.raises(ValueError, match="products as they are, got normalized"):
        ProductSampler.of(RankOneKernels(columns(), normalized=True), np.ones(3))


def test_no_gradient_no_draw():
    sampler = ProductSampler.of(RankOneKernels(columns()), np.ones(3))
    assert sampler.draw(np.zeros(12), np.random.default_rng(0)) is None


@pytest.mark.parametrize(("r", "degree"), [(3, 2), (2, 4), (5, 1)])
def test_products_are_counted(r, degree):
    products = all_products(r, degree)
    assert len(products) == len(set(products)) == n_products(r, degree)
    ordered = sum(multiplicity(product) for product in products)
    assert ordered == sum(r**d for d in range(degree + 1))
