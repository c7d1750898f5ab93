"""Rows that count more than others."""

import numpy as np
import pytest

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.losses.one_score import Logistic, SquaredError, Weighted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=120)
WEIGHTS = RNG.integers(0, 3, size=120)
TWICE = np.repeat(np.arange(120), WEIGHTS)


@pytest.mark.parametrize("options", [{"C": 0.05}, {"C": 0.05, "refit": True}])
def test_a_weight_of_two_is_a_row_twice(options):
    weighted = PolynomialMKLRegressor(**options).fit(X, Y, sample_weight=WEIGHTS)
    repeated = PolynomialMKLRegressor(**options).fit(X[TWICE], Y[TWICE])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-9)
    labels = PolynomialMKLClassifier(degree=2, **options)
    one = labels.fit(X, Y > 0, sample_weight=WEIGHTS).decision_function(X)
    two = labels.fit(X[TWICE], Y[TWICE] > 0).decision_function(X)
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_weights_are_relative_where_c_is_chosen():
    one = PolynomialMKLRegressor(degree=2).fit(X, Y, sample_weight=WEIGHTS)
    two = PolynomialMKLRegressor(degree=2).fit(X, Y, sample_weight=1000.0 * WEIGHTS)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-9)
    assert set(one.kernel_names_) == {"x0 * x1", "x2"}
    wrong = np.where(np.arange(120) < 30, -1.0, 1.0) * Y
    down = np.where(np.arange(120) < 30, 1e-3, 1.0)
    fitted = PolynomialMKLRegressor(degree=2).fit(X, wrong, sample_weight=down)
    assert set(fitted.kernel_names_) == {"x0 * x1", "x2"}


def test_the_certificate_knows_the_weights():
    fitted = PolynomialMKLRegressor(C=1.0).fit(X, Y, sample_weight=1.0 + WEIGHTS)
    assert 0.0 <= fitted.duality_gap_ <= 1e-3 * fitted.objective_


def test_where_weights_have_no_place():
    for options in ({"p": 4 / 3}, {"base_kernels": "rbf"}):
        with pytest.raises(ValueError, match="sample_weight needs p=1 and columns"):
            PolynomialMKLRegressor(C=1.0, **options).fit(X, Y, sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        PolynomialMKLRegressor(C=1.0).fit(X, Y, sample_weight=-1.0 - WEIGHTS)


@pytest.mark.parametrize("loss", [SquaredError(), Logistic()], ids=lambda x: x.name)
def test_a_weighted_loss_keeps_its_promises(loss):
    weights, scores = RNG.uniform(0.5, 2.0, size=20), RNG.normal(size=20)
    target = np.sign(RNG.normal(size=20))
    weighted, step = Weighted(loss, weights), 1e-6
    up, down = (weighted.value(scores + h, target) for h in (step, -step))
    slope = weighted.gradient(scores, target)
    np.testing.assert_allclose((up - down) / (2 * step), slope, atol=1e-6)
    fenchel = weighted.value(scores, target) + weighted.conjugate(-slope, target)
    np.testing.assert_allclose(fenchel, scores * slope, atol=1e-9)
    few = weighted.take(np.array([3, 4]))
    np.testing.assert_array_equal(few.weights, weights[3:5])
    assert few.mean(np.array([1.0, 1.0])) == pytest.approx(1.0)
