"""Weights of rows are copies of rows, where scikit-learn's own check is exempted."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
)

from manykernels import MKLClassifier, MKLRegressor
from manykernels.kernels import RBF, Linear
from tests.sklearn_checks import precise

FIXED = [Linear(), RBF(0.1), RBF(1.0)]


# Without the default kernels at p = 1: there the level method ends at a relative gap of
# 2e-8 however many rounds it has (200, 1000 and 5000 end at the same digits), because
# the planes rule out all LEVELS above the bound of the mixed dual points, and weights
# stand still; with levels of 0.99 and 0.999 too, they do at 2e-10. So weights of
# kernels, (0.1541, 0.8459) of the narrowest two, agree to 1e-4, the temperature to
# 5e-5 and probabilities to 3e-5, as gaps of that size allow.
@pytest.mark.filterwarnings("ignore:The relative duality gap")
@pytest.mark.parametrize(
    ("kernels", "p"), [(None, 2.0), ([Linear(), RBF()], 1.1), ([Linear(), RBF()], 2.0)]
)
def test_weights_equal_repetitions_in_scikit_learns_check(kernels, p):
    """Widths of kernels, scores and probabilities."""
    model = precise(MKLClassifier(kernels, p=p))
    check_sample_weight_equivalence_on_dense_data("MKLClassifier", model)


@pytest.mark.parametrize("solver", ["auto", "obscure"])
@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_weights_equal_repetitions_within_the_certificate(p, solver, iris):
    counts = np.random.default_rng(0).integers(0, 4, len(iris.y))
    model = MKLClassifier(FIXED, p=p, solver=solver, random_state=0)
    weighted = clone(model).fit(iris.X, iris.y, sample_weight=counts)
    repeated = clone(model).fit(
        np.repeat(iris.X, counts, axis=0), np.repeat(iris.y, counts)
    )
    gaps = np.array([weighted.duality_gap_, repeated.duality_gap_])
    assert abs(weighted.objective_ - repeated.objective_) <= gaps.max() + 1e-12
    # Half the squared norm is (p - 1)-strongly convex, and kernels have unit diagonal.
    reg = 1.0 / (model.C * counts.sum())
    to_optimum = np.sqrt(2.0 * gaps / (reg * (p - 1.0)))
    bound = to_optimum.sum() * len(FIXED) ** (1.0 - 1.0 / p)
    difference = weighted.decision_function(iris.X_new) - repeated.decision_function(
        iris.X_new
    )
    assert np.abs(difference).max() <= bound


def test_zero_weight_is_the_same_as_leaving_out(iris):
    weight = np.ones(len(iris.y))
    weight[::4] = 0.0
    kept = weight > 0
    options = {"storage": "float64", "tol": 1e-10, "random_state": 0}
    weighted = MKLClassifier(**options).fit(iris.X, iris.y, weight)
    without = MKLClassifier(**options).fit(iris.X[kept], iris.y[kept])
    np.testing.assert_allclose(
        weighted.predict_proba(iris.X_new), without.predict_proba(iris.X_new)
    )
    np.testing.assert_array_equal(
        weighted.support_, np.flatnonzero(kept)[without.support_]
    )


def test_class_weights_decide_with_a_constant_kernel(pair):
    def with_constant(A):
        K = rbf_kernel(A, pair.X, gamma=50.0)
        return np.stack([K, np.ones_like(K)], axis=-1)

    model = MKLClassifier("precomputed", class_weight={1: 1000, 2: 0.0001})
    model.fit(with_constant(pair.X), pair.y)
    assert np.mean(model.predict(with_constant(pair.X_new)) == 1) > 0.87


# Predictions equal to 1e-7 need a gap close to rounding, which bounds a square.
@pytest.mark.filterwarnings("ignore:The relative duality gap")
@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
@pytest.mark.parametrize("p", [1.0, 1.1, 2.0])
def test_weights_of_a_regressor_equal_repetitions(p, loss):
    model = precise(MKLRegressor(FIXED, p=p, loss=loss))
    check_sample_weight_equivalence_on_dense_data("MKLRegressor", model)
