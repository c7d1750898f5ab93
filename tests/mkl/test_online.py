"""partial_fit: rows that arrive in parts."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from manykernels import MKLClassifier
from manykernels.kernels import RBF, Linear

CLASSES = np.arange(10)


def chunks(n, size):
    return [slice(i, i + size) for i in range(0, n, size)]


def learned(digits, model, passes=1, size=50):
    for _ in range(passes):
        for part in chunks(len(digits.y), size):
            model.partial_fit(digits.X[part], digits.y[part], classes=CLASSES)
    return model


@pytest.fixture(scope="module")
def online(digits):
    return learned(digits, MKLClassifier(random_state=0), passes=2)


def test_chunks_learn_nearly_as_well_as_fit(online, digits):
    whole = MKLClassifier(random_state=0).fit(digits.X, digits.y)
    best = whole.score(digits.X_new, digits.y_new)
    assert best > 0.93
    assert online.score(digits.X_new, digits.y_new) > best - 0.03


def test_a_first_chunk_may_lack_classes(digits):
    few = digits.y < 5
    model = MKLClassifier(random_state=0)
    model.partial_fit(digits.X[few], digits.y[few], classes=CLASSES)
    assert model.decision_function(digits.X_new).shape == (600, 10)
    assert model.predict(digits.X_new).max() < 5
    model.partial_fit(digits.X[~few], digits.y[~few])
    assert {5, 6, 7, 8, 9} <= set(model.predict(digits.X_new))


def test_fit_is_continued_without_forgetting(digits):
    half, rest = slice(0, 200), slice(200, None)
    model = MKLClassifier(random_state=0).fit(digits.X[half], digits.y[half])
    before = model.score(digits.X[half], digits.y[half])
    alone = model.score(digits.X_new, digits.y_new)
    untrained = model.score(digits.X[rest], digits.y[rest])
    epochs = model.n_iter_
    model.partial_fit(digits.X[rest], digits.y[rest])
    assert model.n_iter_ == epochs + 1
    assert model.score(digits.X[half], digits.y[half]) > before - 0.02
    assert model.score(digits.X[rest], digits.y[rest]) > untrained
    assert model.score(digits.X_new, digits.y_new) > alone - 0.02


@pytest.mark.parametrize("p", [1.05, 1.5, 2.0])
def test_nothing_new_changes_nothing(p, digits):
    """Rows with a large margin make no update, so the model stays what fit found."""
    model = MKLClassifier(p=p, C=100.0, tol=1e-5, storage="float64", random_state=0)
    model.fit(digits.X, digits.y)
    before = model.decision_function(digits.X_new)
    scores = model.decision_function(digits.X)
    own = scores[np.arange(len(scores)), digits.y]
    scores[np.arange(len(scores)), digits.y] = -np.inf
    easy = own - scores.max(axis=1) > 1.0 + 1e-3
    assert easy.any()
    model.partial_fit(digits.X[easy], digits.y[easy])
    assert model.history_[-1].updates == 0
    # Kernel weights follow from block norms, optimal only to the solver's tolerance.
    np.testing.assert_allclose(model.decision_function(digits.X_new), before, atol=0.02)


def test_same_seed_same_model(online, digits):
    again = learned(digits, clone(online), passes=2)
    np.testing.assert_array_equal(again.dual_coef_, online.dual_coef_)


def test_fitted_attributes(online, digits):
    assert online.n_iter_ == len(online.history_) == 16
    assert all(line.time > 0 and line.updates >= 0 for line in online.history_)
    assert online.kernel_weights_.sum() == pytest.approx(1.0)
    assert 0.0 <= online.duality_gap_ <= online.objective_
    proba = online.predict_proba(digits.X_new)
    np.testing.assert_array_equal(proba.argmax(axis=1), online.predict(digits.X_new))
    parts = online.kernel_contributions(digits.X_new)
    np.testing.assert_allclose(
        parts.sum(axis=1), online.decision_function(digits.X_new), atol=1e-10
    )


def test_single_rows(iris):
    model = MKLClassifier([Linear(), RBF(0.5)], random_state=0)
    for _ in range(2):
        for row, label in zip(iris.X, iris.y, strict=True):
            model.partial_fit([row], [label], classes=[0, 1, 2])
    assert model.score(iris.X_new, iris.y_new) > 0.85


def test_weights_of_rows_and_classes(iris):
    options = {"kernels": [RBF(0.5)], "random_state": 0, "storage": "float64"}
    weights = {0: 1.0, 1: 2.0, 2: 0.5}
    by_class = MKLClassifier(class_weight=weights, **options)
    by_row = MKLClassifier(**options)
    factors = np.array([1.0, 2.0, 0.5])
    # One class at a time: a dictionary may name classes that a chunk lacks.
    for k in (0, 1, 2):
        X, y = iris.X[iris.y == k], iris.y[iris.y == k]
        by_class.partial_fit(X, y, classes=[0, 1, 2])
        by_row.partial_fit(X, y, [0, 1, 2], sample_weight=factors[y])
    np.testing.assert_array_equal(by_class.dual_coef_, by_row.dual_coef_)


def test_rows_of_weight_zero_are_left_out(iris):
    weight = (np.arange(len(iris.y)) % 2).astype(float)
    options = {"kernels": [RBF(0.5)], "random_state": 0}
    weighted = MKLClassifier(**options)
    weighted.partial_fit(iris.X, iris.y, [0, 1, 2], sample_weight=weight)
    halved = MKLClassifier(**options)
    halved.partial_fit(iris.X[1::2], iris.y[1::2], [0, 1, 2])
    np.testing.assert_array_equal(weighted.dual_coef_, halved.dual_coef_)


def test_fit_starts_afresh(online, digits):
    model = clone(online).partial_fit(digits.X[:50], digits.y[:50], classes=CLASSES)
    model.fit(digits.X, digits.y)
    fresh = clone(online).fit(digits.X, digits.y)
    np.testing.assert_array_equal(model.dual_coef_, fresh.dual_coef_)
    assert model.n_iter_ == fresh.n_iter_


def test_partial_fit_after_fit_does_not_hurt():
    """Mean over eight splits of digits, none of which was used to choose the step."""
    X, y = load_digits(return_X_y=True)
    X, changes = X / 16.0, []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(len(X))
        learn, more, unseen = np.split(order, [250, 650])
        model = MKLClassifier(random_state=0).fit(X[learn], y[learn])
        before = model.score(X[unseen], y[unseen])
        for part in np.array_split(more, 4):
            model.partial_fit(X[part], y[part])
        changes.append(model.score(X[unseen], y[unseen]) - before)
    assert np.mean(changes) > 0.0 and min(changes) > -0.01


def test_a_row_gets_its_margin_and_no_more():
    """At fixed kernel weights, one step makes up for what the margin lacks."""
    X, y = load_digits(n_class=2, return_X_y=True)
    model = MKLClassifier("rbf", p=2.0, random_state=0).fit(X[:40], y[:40])
    scores = model.decision_function(X[40:]) * np.where(y[40:] == 1, 1.0, -1.0)
    row = 40 + int(np.argmin(np.where(scores > 0.5, scores, np.inf)))
    assert scores[row - 40] < 1.0
    model.partial_fit(X[[row]], y[[row]])
    margin = model.decision_function(X[[row]])[0] * (1.0 if y[row] == 1 else -1.0)
    np.testing.assert_allclose(margin, 1.0, rtol=1e-5)
