"""A short list, many shrunken terms or none: what left-out rows decide."""

import numpy as np
import pytest
from sklearn.linear_model import LassoCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from manykernels import PolynomialMKLRegressor
from manykernels.products.product_models import ColumnScale


def few_rows(seed, n=100, r=12, n_terms=10):
    """Many weak terms and as much noise: no list is to be had from so few rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 1000, r))
    y = rng.normal(size=n + 1000)
    for _ in range(n_terms):
        j, k = rng.choice(r, size=2, replace=False)
        y += 0.3 * X[:, j] + 0.3 * X[:, j] * X[:, k]
    return (X[:n], y[:n]), (X[n:], y[n:])


def main_effects(seed, n=120, r=25):
    """Six columns that matter and two pairs, among many."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 1000, r))
    y = X[:, :6].sum(axis=1) + X[:, 6] * X[:, 7] - X[:, 0] * X[:, 8]
    y += 2.0 * rng.normal(size=n + 1000)
    return (X[:n], y[:n]), (X[n:], y[n:])


def test_products_of_two_must_pull_more_than_columns():
    """By as much more as the best of so many pulls by luck."""
    gains = []
    for seed in range(2):
        (X, y), (A, b) = main_effects(seed)
        pairs = PolynomialFeatures(2, include_bias=False)
        lasso = make_pipeline(pairs, StandardScaler(), LassoCV(cv=5))
        ours = PolynomialMKLRegressor().fit(X, y)
        gains.append(ours.score(A, b) - lasso.fit(X, y).score(A, b))
    assert np.mean(gains) > 0.02


@pytest.mark.parametrize("seed", range(2))
def test_few_rows_are_predicted_as_well_as_by_a_lasso(seed):
    (X, y), (A, b) = few_rows(seed)
    pairs = PolynomialFeatures(2, include_bias=False)
    lasso = make_pipeline(pairs, StandardScaler(), LassoCV(cv=5))
    ours = PolynomialMKLRegressor().fit(X, y)
    assert ours.score(A, b) >= lasso.fit(X, y).score(A, b) - 0.05
    assert {row["model"] for row in ours.candidates_} >= {"none", "shrunken"}
    short = PolynomialMKLRegressor(C="bic").fit(X, y)
    assert not hasattr(short, "candidates_")
    assert short.interactions_.n_rows <= ours.interactions_.n_rows


def log_normal(seed, n=200, r=15):
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(size=(n + 1000, r))), np.exp(rng.normal(size=n + 1000))


@pytest.mark.parametrize("seed", range(4))
def test_heavy_tails_invent_no_terms(seed):
    X, y = log_normal(seed)
    fitted = PolynomialMKLRegressor().fit(X[:200], y[:200])
    assert fitted.interactions_.n_rows == 0
    assert fitted.score(X[200:], y[200:]) >= -0.05
    assert fitted.candidates_[0] == {"model": "none", "loss": 1.0}


def test_the_criterion_alone_is_fooled_by_heavy_tails():
    found = [
        PolynomialMKLRegressor(C="bic").fit(*(part[:200] for part in log_normal(seed)))
        for seed in range(4)
    ]
    assert max(model.interactions_.n_rows for model in found) > 0


def test_terms_in_heavy_tails_are_found():
    X, y = log_normal(7, n=300)
    y = X[:, 0] * X[:, 3] + 0.3 * y
    fitted = PolynomialMKLRegressor().fit(X[:300], y[:300])
    assert "x0 * x3" in fitted.kernel_names_
    assert fitted.score(X[300:], y[300:]) > 0.8


@pytest.mark.parametrize("natural", [True, False])
def test_left_out_rows_say_whether_a_zero_is_natural(natural):
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(400, 8))
    A = X if natural else X - 1.0
    y = A[:, 0] * A[:, 1] + A[:, 2] * A[:, 5] + 0.5 * rng.normal(size=400)
    fitted = PolynomialMKLRegressor(degree=2).fit(X, y)
    assert set(fitted.kernel_names_[:2]) == {"x0 * x1", "x2 * x5"}
    assert fitted.interactions_.n_rows <= (2 if natural else 4)
    shifts = fitted._model.scale.shift
    assert np.all(shifts == 0.0) if natural else np.all(shifts > 0.5)


def test_which_zeros_are_in_doubt():
    rng = np.random.default_rng(0)
    income, age = rng.exponential(size=50), rng.uniform(20, 80, size=50)
    coin = np.arange(50) % 2.0
    assert len(ColumnScale.choices(age[:, None])) == 1
    assert len(ColumnScale.choices(coin[:, None])) == 1
    assert len(ColumnScale.choices(income[:, None], standardize=True)) == 1
    kept, moved = ColumnScale.choices(np.column_stack([income, age, coin]))
    assert moved.shift[0] > 0.0 and kept.shift.tolist() == [0.0, moved.shift[1], 0.0]
    np.testing.assert_allclose(np.square(kept.apply(income[:, None], [0])).mean(), 1.0)


def test_the_same_data_give_the_same_model():
    (X, y), _ = few_rows(0)
    one, two = (PolynomialMKLRegressor().fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_too_few_rows_to_leave_any_out():
    X = np.random.default_rng(0).normal(size=(20, 3))
    fitted = PolynomialMKLRegressor().fit(X, X[:, 0] * X[:, 1])
    assert fitted.kernel_names_ == ["x0 * x1"]
    assert not hasattr(fitted, "candidates_")
