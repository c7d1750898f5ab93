"""scikit-learn's own estimator checks, and what stands in for the exempted ones."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from manykernels import MKLClassifier
from manykernels.kernels import RBF, Linear

# Two fits to a gap of 1e-2 agree within their gaps (below), not to seven digits: the
# rows come in another order. To a gap of 1e-14 the same checks pass, below.
WEIGHTS = "the check expects seven digits, of a solution that is known to two"
# What these checks pass is no kernel matrix.
NOT_SQUARE = "the check passes a feature table where a square matrix is due"
# exp(-distance^2) of points that are far apart is zero, and without an intercept a
# zero row has no score; the test below adds the constant kernel.
NO_INTERCEPT = "the check expects an intercept to answer where the kernel vanishes"

EXEMPT = {
    "columns": {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    },
    "given": {
        "check_estimators_nan_inf": NOT_SQUARE,
        "check_decision_proba_consistency": NOT_SQUARE,
        "check_class_weight_classifiers": NO_INTERCEPT,
    },
}


def exempt(model):
    return EXEMPT["given" if model.kernels == "precomputed" else "columns"]


@parametrize_with_checks(
    [
        MKLClassifier(),
        MKLClassifier([Linear(), RBF()], p=1.0),
        MKLClassifier(solver="obscure"),
        # Some checks round or shift a kernel matrix, which makes it indefinite.
        MKLClassifier("precomputed", psd="clip"),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn(estimator, check):
    check(estimator)


FIXED = [Linear(), RBF(0.1), RBF(1.0)]


# Scores equal to 1e-7 need a gap close to rounding, because the gap bounds a square.
@pytest.mark.filterwarnings("ignore:The relative duality gap")
@pytest.mark.parametrize(
    ("kernels", "p"),
    # Without the default kernels at p = 1: all weight goes to the narrowest Gaussian,
    # and probabilities of weighted and repeated rows agree to 3e-5 only.
    [(None, 1.1), (None, 2.0), *(([Linear(), RBF()], p) for p in (1.0, 1.1, 2.0))],
)
@pytest.mark.parametrize(
    "check",
    [
        check_sample_weight_equivalence_on_dense_data,
        check_sample_weight_equivalence_on_sparse_data,
    ],
)
def test_weights_equal_repetitions_in_scikit_learns_check(check, kernels, p):
    """Widths of kernels, scores and probabilities."""
    model = MKLClassifier(kernels, p=p, tol=1e-14, storage="float64")
    check("MKLClassifier", model)


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_weights_equal_repetitions_within_the_certificate(p, iris):
    counts = np.random.default_rng(0).integers(0, 4, len(iris.y))
    model = MKLClassifier(FIXED, p=p, random_state=0)
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
