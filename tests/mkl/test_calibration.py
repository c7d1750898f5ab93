"""Probabilities: one temperature from leave-one-out scores."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss

from manykernels import MKLClassifier
from manykernels.banks import GramBank
from manykernels.mkl import calibration
from manykernels.mkl.calibration import (
    fit_temperature,
    held_out_scores,
    support_spans,
)
from manykernels.solvers import DualAscent, Expansion
from tests.oracles.toys import make_problem, toy_problem


@pytest.fixture(scope="module")
def fitted(digits):
    return MKLClassifier(random_state=0).fit(digits.X, digits.y)


def test_log_loss_of_new_rows(fitted, digits):
    ours = log_loss(digits.y_new, fitted.predict_proba(digits.X_new))
    raw = softmax(fitted.decision_function(digits.X_new), axis=1)
    assert ours < log_loss(digits.y_new, raw)
    costly = CalibratedClassifierCV(MKLClassifier(random_state=0), cv=3)
    costly.fit(digits.X, digits.y)
    theirs = log_loss(digits.y_new, costly.predict_proba(digits.X_new))
    assert ours <= 1.3 * theirs


def test_temperature_is_that_of_the_documentation(fitted, digits):
    proba = softmax(
        fitted.decision_function(digits.X_new) / fitted.temperature_, axis=1
    )
    np.testing.assert_allclose(fitted.predict_proba(digits.X_new), proba)


def test_held_out_scores_remove_the_own_part():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 3))
    K, coef = A @ A.T, rng.normal(size=(6, 2))
    held_out = held_out_scores(K @ coef, coef, np.diag(K))
    for i in range(6):
        others = np.arange(6) != i
        np.testing.assert_allclose(held_out[i], K[i, others] @ coef[others])


@pytest.mark.parametrize("most", [1000, 12])
def test_spans_are_distances_from_the_other_support_rows(most, monkeypatch):
    monkeypatch.setattr(calibration, "MOST_NEIGHBORS", most)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20, 60))
    bank = GramBank((features @ features.T)[:, None, :])
    problem = make_problem(bank, np.arange(20) % 2)
    coef = rng.normal(size=(20, 2))
    coef[[3, 11]] = 0.0
    spans = support_spans(problem, Expansion(coef, np.array([2.0])))
    support = np.setdiff1d(np.arange(20), [3, 11])
    near = np.random.default_rng(0).permutation(support)[:most]
    for i in support:
        others = features[near[near != i]]
        solution, *_ = np.linalg.lstsq(others.T, features[i], rcond=None)
        distance = np.sum((features[i] - solution @ others) ** 2)
        assert spans[i] == pytest.approx(2.0 * distance, rel=1e-3)
    assert np.all(spans[[3, 11]] == 0.0)


def test_held_out_scores_are_close_to_those_of_fits_without_the_row():
    problem = toy_problem(5, n_rows=40, p=2.0, C=3.0)
    solver = DualAscent(tol=1e-8, max_iter=500, random_state=0)
    model = solver.solve(problem).model
    bank = problem.bank
    scores = bank.scores(model.coef, model.weights)
    true, span, diagonal = [], [], bank.diagonals() @ model.weights
    for i in np.flatnonzero(np.any(model.coef != 0.0, axis=1)):
        kept = np.setdiff1d(np.arange(40), [i])
        part = make_problem(bank.subset(kept), problem.target[kept], p=2.0, C=3.0)
        without = solver.solve(part).model
        row = bank.combine(without.weights, np.array([i]))[0, kept]
        true.append(row @ without.coef)
        span.append(i)
    estimate = held_out_scores(scores, model.coef, support_spans(problem, model))
    careful = held_out_scores(scores, model.coef, diagonal)
    error = np.abs(estimate[span] - true).mean()
    assert error < 0.5 * np.abs(careful[span] - true).mean()


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
def test_probabilities_are_useful_whatever_C(C, iris):
    model = MKLClassifier(C=C, random_state=0).fit(iris.X, iris.y)
    ours = log_loss(iris.y_new, model.predict_proba(iris.X_new))
    scores = model.decision_function(iris.X_new)
    grid = [softmax(scores / t, axis=1) for t in np.geomspace(0.01, 100, 60)]
    assert ours < 1.5 * min(log_loss(iris.y_new, proba) for proba in grid) + 0.05


def test_leaving_out_a_row_without_coefficients_changes_nothing(digits):
    tight = MKLClassifier("rbf:gamma=0.02", tol=1e-6, dtype="float64", random_state=0)
    whole = tight.fit(digits.X, digits.y)
    idle = np.setdiff1d(np.arange(len(digits.y)), whole.support_)
    assert len(idle), "every row is a support row"
    kept = np.arange(len(digits.y)) != idle[0]
    row = digits.X[idle[:1]]
    scores = whole.decision_function(row)
    without = tight.fit(digits.X[kept], digits.y[kept]).decision_function(row)
    np.testing.assert_allclose(scores, without, atol=5e-3)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_temperature_undoes_a_scale(scale):
    """Labels drawn from softmax(s) ask for the temperature `scale` on scale * s."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3))
    noise = rng.gumbel(size=scores.shape)
    target = np.argmax(scores + noise, axis=1)
    found = fit_temperature(scale * scores, target, np.ones(len(target)))
    assert found == pytest.approx(scale, rel=0.1)


def test_temperature_counts_weights_as_repetitions():
    rng = np.random.default_rng(1)
    scores, target = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    counts = rng.integers(1, 4, 40)
    weighted = fit_temperature(scores, target, counts.astype(float))
    repeated = fit_temperature(
        np.repeat(scores, counts, axis=0),
        np.repeat(target, counts),
        np.ones(counts.sum()),
    )
    assert weighted == pytest.approx(repeated, rel=1e-3)
