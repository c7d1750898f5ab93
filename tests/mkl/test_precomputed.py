"""Given kernels and distances: every accepted form gives the same model."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import pairwise

from manykernels import MKLClassifier
from manykernels.kernels import RBF, Distance, Precomputed


def as_list(X):
    return [X[..., f] for f in range(X.shape[-1])]


def as_view(X):
    """A view of an (F, n, n) array, as people store kernels."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(X, -1, 0)), 0, -1)


@pytest.fixture(scope="module")
def fitted(stack):
    return MKLClassifier("precomputed", random_state=0).fit(stack.X, stack.y)


@pytest.fixture(scope="module")
def precise(stack):
    """Forms are read in ways that differ by rounding, so that is made small."""
    model = MKLClassifier("precomputed", tol=1e-8, storage="float64", random_state=0)
    return model.fit(stack.X, stack.y)


def test_given_values_equal_computed_ones(stack, iris):
    options = {"tol": 1e-8, "storage": "float64", "random_state": 0}
    kernels = [RBF(1.0, columns=[j]) for j in range(4)]
    on_columns = MKLClassifier(kernels, **options).fit(iris.X, iris.y)
    given = MKLClassifier("precomputed", **options).fit(stack.X, stack.y)
    np.testing.assert_allclose(
        given.decision_function(stack.X_new),
        on_columns.decision_function(iris.X_new),
        atol=1e-8,
    )
    np.testing.assert_allclose(given.kernel_weights_, on_columns.kernel_weights_)
    assert given.kernel_names_ == [f"precomputed@{f}" for f in range(4)]


@pytest.mark.parametrize(
    "form", [as_list, as_view, np.asfortranarray, lambda X: tuple(as_list(X))]
)
def test_every_form_of_a_stack(form, precise, stack):
    model = clone(precise).fit(form(stack.X), stack.y)
    assert model.n_features_in_ == len(stack.X)
    for new in (form(stack.X_new), stack.X_new):
        np.testing.assert_allclose(
            model.decision_function(new),
            precise.decision_function(stack.X_new),
            atol=1e-8,
        )


def test_one_matrix(stack, iris):
    K, K_new = stack.X[..., 2], stack.X_new[..., 2]
    models = [
        MKLClassifier("precomputed", random_state=0).fit(given, stack.y)
        for given in (K, K[..., None], [K], K.tolist())
    ]
    for model in models:
        np.testing.assert_allclose(
            model.decision_function(K_new), models[0].decision_function(K_new)
        )
    assert models[0].score(K_new, stack.y_new) > 0.85


def test_the_scores_formula_holds_from_public_attributes(fitted, stack):
    support = stack.X_new[:, fitted.support_]  # all diagonals are 1
    combined = support @ fitted.kernel_weights_
    np.testing.assert_allclose(
        fitted.decision_function(stack.X_new), combined @ fitted.dual_coef_, atol=1e-6
    )


def test_a_stack_is_not_changed(stack):
    before = stack.X.copy()
    MKLClassifier("precomputed").fit(stack.X, stack.y).predict(stack.X_new)
    np.testing.assert_array_equal(stack.X, before)


def test_integers_and_single_precision(stack):
    counts = np.rint(100 * stack.X[..., :2]).astype(np.int32)
    model = MKLClassifier("precomputed", psd="clip").fit(counts, stack.y)
    assert model.predict(counts).shape == stack.y.shape
    single = MKLClassifier("precomputed", random_state=0)
    single.fit(stack.X.astype(np.float32), stack.y)
    assert single.score(stack.X_new.astype(np.float32), stack.y_new) > 0.9


def test_zero_weight_rows_keep_their_columns(stack):
    weight = (np.arange(len(stack.y)) % 3 > 0).astype(float)
    kept = np.flatnonzero(weight)
    options = {"tol": 1e-8, "storage": "float64", "random_state": 0}
    model = MKLClassifier("precomputed", **options).fit(stack.X, stack.y, weight)
    small = MKLClassifier("precomputed", **options)
    small.fit(stack.X[kept][:, kept], stack.y[kept])
    np.testing.assert_allclose(
        model.decision_function(stack.X_new),
        small.decision_function(stack.X_new[:, kept]),
        atol=1e-9,
    )
    assert not weight[model.support_].min() == 0.0


def test_kernels_may_pick_matrices(precise, stack):
    kernels = [Precomputed(columns=3, name="petal"), Precomputed(columns=0)]
    model = clone(precise).set_params(kernels=kernels).fit(stack.X, stack.y)
    assert model.kernel_names_ == ["petal", "precomputed@0"]
    same = clone(precise).fit(stack.X[..., [3, 0]], stack.y)
    np.testing.assert_allclose(
        model.decision_function(stack.X_new),
        same.decision_function(stack.X_new[..., [3, 0]]),
        atol=1e-5,  # a gap of 1e-8 leaves the model this much room
    )


def test_distances(iris):
    def distances(A, B):
        parts = [pairwise.manhattan_distances(A[:, [j]], B[:, [j]]) for j in range(4)]
        return np.stack(parts, axis=-1)

    D, D_new = distances(iris.X, iris.X), distances(iris.X_new, iris.X)
    model = MKLClassifier([Distance()], tol=1e-6, storage="float64", random_state=0)
    model.fit(D, iris.y)
    assert model.score(D_new, iris.y_new) > 0.9
    off = ~np.eye(len(D), dtype=bool)
    scale = D[off].mean(axis=0)
    given = MKLClassifier("precomputed", tol=1e-6, storage="float64", random_state=0)
    given.fit(np.exp(-D / scale), iris.y)
    np.testing.assert_allclose(
        model.decision_function(D_new),
        given.decision_function(np.exp(-D_new / scale)),
        atol=1e-6,
    )
