"""Columns of few values: a term has one name, and powers that say nothing are none."""

import numpy as np
import pytest

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.kernels import RBF
from manykernels.products import ColumnGeneration, ExplicitLpNorm
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import all_products, allows, n_products, useful_powers
from manykernels.products.pricing import Pricing
from manykernels.products.product_problem import ProductProblem

RNG = np.random.default_rng(0)
COIN = (RNG.random((400, 12)) < 0.5).astype(float)
COIN_Y = 2 * COIN[:, 0] * COIN[:, 3] - COIN[:, 5] + COIN[:, 1] * COIN[:, 2] * COIN[:, 4]
COIN_Y = COIN_Y + 0.2 * RNG.normal(size=400)
TERMS = {"x0 * x3", "x5", "x1 * x2 * x4"}
LIMITS = np.array([1, 2, 3, 1])


def test_terms_of_zeros_and_ones_are_found_by_their_lowest_names():
    fitted = PolynomialMKLRegressor().fit(COIN, COIN_Y)
    assert set(fitted.kernel_names_) == TERMS
    other_codes = PolynomialMKLRegressor().fit(7.0 * COIN, COIN_Y)
    assert set(other_codes.kernel_names_) == TERMS


def test_a_given_c_has_no_aliases_either():
    fitted = PolynomialMKLRegressor(C=1.0).fit(COIN, COIN_Y)
    factors = [[int(f[1:]) for f in row] for row in fitted.interactions_["columns"]]
    values = {tuple(COIN[:, row].prod(axis=1)) for row in factors}
    assert len(values) == len(factors)
    assert TERMS <= set(fitted.kernel_names_)
    assert not any("^" in name for name in fitted.kernel_names_)


def test_copies_of_a_column_are_one_term():
    twice = np.column_stack([COIN, COIN[:, 0], 1.0 - COIN[:, 5]])
    fitted = PolynomialMKLRegressor(standardize=True).fit(twice, COIN[:, 0])
    assert fitted.kernel_names_ == ["x0"]


def test_no_powers_on_request():
    X = RNG.normal(size=(200, 5))
    y = X[:, 0] ** 2 + X[:, 1] * X[:, 2]
    free = PolynomialMKLRegressor().fit(X, y)
    assert set(free.kernel_names_) == {"x0^2", "x1 * x2"}
    barred = PolynomialMKLRegressor(powers=False).fit(X, y)
    assert "x1 * x2" in barred.kernel_names_
    assert not any("^" in name for name in barred.kernel_names_)
    labels = PolynomialMKLClassifier(powers=False, degree=2).fit(X, y > 1.0)
    assert not any("^" in name for name in labels.kernel_names_)
    listed = PolynomialMKLRegressor(
        degree=2, p=4 / 3, C=1.0, powers=False, solver=ExplicitLpNorm()
    ).fit(X, y)
    assert len(listed.kernel_names_) == 15
    with pytest.raises(ValueError, match="Products can only be drawn with all their"):
        PolynomialMKLRegressor(p=4 / 3, C=1.0, powers=False).fit(X, y)
    with pytest.raises(ValueError, match="powers=False needs columns, or base kernels"):
        PolynomialMKLRegressor(2, [RBF(1.0)], powers=False).fit(X, y)


def test_the_allowed_products_are_counted_and_priced():
    X = RNG.normal(size=(30, 4))
    allowed = all_products(4, 3, LIMITS)
    assert n_products(4, 3, LIMITS) == len(allowed) < len(all_products(4, 3))
    for normalized in (False, True):
        base = RankOneKernels(X, normalized, LIMITS, around_mean=True)
        coef = RNG.normal(size=30)
        coef -= coef.mean()
        prices = Pricing(base, np.ones(4), 1).search(coef, 100)
        assert set(prices.products) == set(allowed) - {()}
        wanted = [float(coef @ base.feature(i)) ** 2 for i in prices.products]
        np.testing.assert_allclose(prices.energies, wanted, rtol=1e-5)


def test_powers_of_few_values_are_sums_of_lower_ones():
    x = RNG.integers(0, 3, size=50).astype(float)
    assert useful_powers(x[:, None], 5).tolist() == [2]
    lower = np.column_stack([np.ones(50), x, x**2])
    left = np.linalg.lstsq(lower, x**3, rcond=None)[1]
    assert left[0] < 1e-20
    assert allows(None, (0, 0)) and not allows(np.array([2]), (0, 0, 0))


def test_normalized_terms_have_unit_variance_beside_an_intercept():
    base = RankOneKernels(COIN, normalized=True, around_mean=True)
    products = [(0,), (0, 3), (1, 2, 4)]
    np.testing.assert_allclose(base.features(products).std(axis=0), 1.0)
    flat = RankOneKernels(np.ones((9, 1)), normalized=True, around_mean=True)
    np.testing.assert_array_equal(flat.feature((0,)), 0.0)


def test_the_certificate_holds_where_features_repeat():
    signs = 2.0 * COIN[:80, :5] - 1.0
    problem = ProductProblem(RankOneKernels(signs), COIN_Y[:80], np.ones(4), 0.5, 1.0)
    result = ColumnGeneration(tol=1e-8).solve(problem)
    assert result.converged
    features = RankOneKernels(signs).features(result.model.products)
    across = np.abs(features.T @ features) / 80
    assert np.all(across - np.eye(len(across)) < 1 - 1e-6)
