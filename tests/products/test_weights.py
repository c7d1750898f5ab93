"""Rows that count more than others."""

import numpy as np
import pytest

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.compare import HierarchicalKernelLearning
from manykernels.losses.one_score import Logistic, SquaredError, Weighted
from manykernels.products import (
    ColumnGeneration,
    ExplicitLpNorm,
    RandomizedMirrorDescent,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=120)
WEIGHTS = RNG.integers(0, 3, size=120)
TWICE = np.repeat(np.arange(120), WEIGHTS)


@pytest.mark.parametrize("options", [{"C": 0.05}, {"C": 0.05, "refit": True}])
def test_a_weight_of_two_is_a_row_twice(options):
    weighted = PolynomialMKLRegressor(**options).fit(X, Y, sample_weight=WEIGHTS)
    repeated = PolynomialMKLRegressor(**options).fit(X[TWICE], Y[TWICE])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)
    labels = PolynomialMKLClassifier(degree=2, **options)
    one = labels.fit(X, Y > 0, sample_weight=WEIGHTS).decision_function(X)
    two = labels.fit(X[TWICE], Y[TWICE] > 0).decision_function(X)
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_weights_are_relative_where_c_is_chosen():
    one = PolynomialMKLRegressor(degree=2).fit(X, Y, sample_weight=WEIGHTS)
    two = PolynomialMKLRegressor(degree=2).fit(X, Y, sample_weight=1000.0 * WEIGHTS)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-7)
    assert set(one.kernel_names_) == {"x0 * x1", "x2"}
    wrong = np.where(np.arange(120) < 30, -1.0, 1.0) * Y
    down = np.where(np.arange(120) < 30, 1e-3, 1.0)
    fitted = PolynomialMKLRegressor(degree=2).fit(X, wrong, sample_weight=down)
    assert set(fitted.kernel_names_) == {"x0 * x1", "x2"}


def test_the_certificate_knows_the_weights():
    fitted = PolynomialMKLRegressor(C=1.0).fit(X, Y, sample_weight=1.0 + WEIGHTS)
    assert 0.0 <= fitted.duality_gap_ <= 1e-3 * fitted.objective_


MODES = {
    "mirror descent": {
        "p": 4 / 3,
        "solver": RandomizedMirrorDescent(60),
        "random_state": 0,
    },
    "listed": {"p": 4 / 3, "solver": ExplicitLpNorm(tol=1e-7)},
    "matrices": {
        "base_kernels": "rbf@0-1; rbf@2",
        "solver": ColumnGeneration(tol=1e-7),
    },
    "matrices drawn": {
        "base_kernels": "rbf@0-1; rbf@2",
        "p": 4 / 3,
        "solver": RandomizedMirrorDescent(20),
        "random_state": 0,
    },
    "single features": {
        "base_kernels": "linear@0; linear@1; linear@2",
        "solver": ColumnGeneration(tol=1e-7),
    },
}


@pytest.mark.parametrize("name", MODES)
def test_a_weight_of_two_is_a_row_twice_in_all_modes(name):
    options = {"degree": 2, "C": 0.5, **MODES[name]}
    weighted = PolynomialMKLRegressor(**options).fit(X, Y, sample_weight=WEIGHTS)
    repeated = PolynomialMKLRegressor(**options).fit(X[TWICE], Y[TWICE])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    unweighted = PolynomialMKLRegressor(**options).fit(X, Y)
    assert np.abs(weighted.predict(X) - unweighted.predict(X)).max() > 1e-3


@pytest.mark.parametrize("p", [1, 4 / 3])
def test_weights_of_rows_whose_labels_are_learned_from_matrices(p):
    solver = ColumnGeneration(tol=1e-7) if p == 1 else ExplicitLpNorm(tol=1e-9)
    options = {"degree": 2, "base_kernels": "rbf@0-1; rbf@2", "C": 1.0, "p": p}
    model = PolynomialMKLClassifier(**options, solver=solver)
    one = model.fit(X, Y > 0, sample_weight=WEIGHTS).decision_function(X)
    two = model.fit(X[TWICE], Y[TWICE] > 0).decision_function(X)
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_given_matrices_keep_the_columns_of_rows_without_weight():
    stack = np.stack([X @ X.T, np.square(X @ X.T)], axis=-1)
    options = {"degree": 2, "base_kernels": "precomputed", "C": 0.5}
    model = PolynomialMKLRegressor(**options, solver=ColumnGeneration(tol=1e-7))
    one = model.fit(stack, Y, sample_weight=WEIGHTS).predict(stack)
    two = model.fit(stack[TWICE][:, TWICE], Y[TWICE]).predict(stack[:, TWICE])
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_a_blend_knows_weights():
    """Rows that count little are as good as absent."""
    wrong = np.where(np.arange(120) < 40, -3.0, 1.0) * Y
    down = np.where(np.arange(120) < 40, 1e-6, 1.0)
    blend = PolynomialMKLRegressor(degree=2, p="blend", random_state=0)
    few = blend.fit(X, wrong, sample_weight=down).score(X, Y)
    assert few > 0.8 > blend.fit(X, wrong).score(X, Y)


def test_where_weights_have_no_place():
    rival = PolynomialMKLRegressor(
        C=1.0, normalize=False, solver=HierarchicalKernelLearning()
    )
    with pytest.raises(ValueError, match="needs a solver that knows weights of rows"):
        rival.fit(X, Y, sample_weight=WEIGHTS)
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
    np.testing.assert_allclose(fenchel, scores * slope, atol=1e-7)
    few = weighted.take(np.array([3, 4]))
    np.testing.assert_array_equal(few.weights, weights[3:5])
    assert few.mean(np.array([1.0, 1.0])) == pytest.approx(1.0)
