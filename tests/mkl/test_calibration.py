"""Probabilities: one temperature from leave-one-out scores."""

import pickle

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from manykernels import MKLClassifier
from manykernels.banks import GramBank
from manykernels.mkl import calibration
from manykernels.mkl.calibration import (
    fit_temperature,
    leave_one_out_scores,
)
from manykernels.solvers import DualAscent
from manykernels.solvers.problem import Expansion
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


@pytest.mark.parametrize("most", [1000, 12])
def test_spans_are_distances_from_the_other_support_rows(most, monkeypatch):
    monkeypatch.setattr(calibration, "MOST_NEIGHBORS", most)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20, 60))
    bank = GramBank((features @ features.T)[:, None, :])
    problem = make_problem(bank, np.arange(20) % 2)
    coef = rng.normal(size=(20, 2))
    coef[[3, 11]] = 0.0
    model = Expansion(coef, np.array([2.0]))
    support = np.setdiff1d(np.arange(20), [3, 11])
    unseen = leave_one_out_scores(problem, model)
    scores = bank.scores(coef, model.weights)
    np.testing.assert_array_equal(unseen[[3, 11]], scores[[3, 11]])
    near = np.random.default_rng(0).permutation(support)[:most]
    for i in support:
        others = features[near[near != i]]
        solution, *_ = np.linalg.lstsq(others.T, features[i], rcond=None)
        distance = np.sum((features[i] - solution @ others) ** 2)
        expected = 2.0 * distance * coef[i]
        np.testing.assert_allclose(scores[i] - unseen[i], expected, rtol=1e-3)


def test_held_out_scores_are_close_to_those_of_fits_without_the_row():
    problem = toy_problem(5, n_rows=40, p=2.0, C=3.0)
    solver = DualAscent(tol=1e-8, max_iter=500, random_state=0)
    model = solver.solve(problem).model
    bank = problem.bank
    scores = bank.scores(model.coef, model.weights)
    true, span, diagonal = [], [], bank.diagonals() @ model.weights
    for i in np.flatnonzero(np.any(model.coef != 0.0, axis=1)):
        kept = np.setdiff1d(np.arange(40), [i])
        part = make_problem(bank.take(kept), problem.target[kept], p=2.0, C=3.0)
        without = solver.solve(part).model
        row = bank.combine(without.weights, np.array([i]))[0, kept]
        true.append(row @ without.coef)
        span.append(i)
    estimate = leave_one_out_scores(problem, model)
    careful = scores - diagonal[:, None] * model.coef
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
    tight = MKLClassifier("rbf:gamma=0.02", tol=1e-6, storage="float64", random_state=0)
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


def test_fit_leaves_calibration_to_those_who_ask(iris, monkeypatch):
    calls = []
    fit = calibration.fit_temperature
    monkeypatch.setattr(
        calibration, "fit_temperature", lambda *args: calls.append(1) or fit(*args)
    )
    model = MKLClassifier("rbf", random_state=0).fit(iris.X, iris.y)
    model.predict(iris.X)
    assert not calls
    pickled = pickle.loads(pickle.dumps(model))
    first = model.predict_proba(iris.X_new)
    np.testing.assert_array_equal(model.predict_proba(iris.X_new), first)
    assert len(calls) == 1
    np.testing.assert_array_equal(pickled.predict_proba(iris.X_new), first)


def same_model(name):
    """Kernels whose model keeps its rows, and the same kernels where it does not."""
    if name == "features":
        keeping = "polynomial:degree=1,gamma=1,coef0=0,normalize=none"
        return keeping, "linear:normalize=none", lambda A, B: A
    return "rbf:gamma=0.5", "precomputed", lambda A, B: rbf_kernel(A, B, gamma=0.5)


@pytest.mark.parametrize("name", ["features", "given matrices"])
def test_models_without_rows_keep_what_calibration_takes(name, iris):
    keeping, without, seen = same_model(name)
    options = {"tol": 1e-4, "random_state": 0, "storage": "float64"}
    rows = MKLClassifier(keeping, **options).fit(iris.X, iris.y)
    none = MKLClassifier(without, **options).fit(seen(iris.X, iris.X), iris.y)
    assert none._temperature.known is None and rows._temperature.known is None
    again = pickle.loads(pickle.dumps(none))
    assert none.temperature_ == pytest.approx(rows.temperature_, rel=1e-2)
    assert again.temperature_ == none.temperature_
    assert none._temperature.neighbors is None  # nothing is kept once it is known


def test_kernels_combined_once_give_the_same_temperature(iris, monkeypatch):
    stack = np.stack([rbf_kernel(iris.X, gamma=g) for g in (0.1, 1.0)], axis=2)
    model = MKLClassifier("precomputed", C=10, storage="float64", random_state=0)
    once = model.fit(stack, iris.y).temperature_
    monkeypatch.setattr(calibration, "HELD_VALUES", 0)
    assert model.fit(stack, iris.y).temperature_ == pytest.approx(once, rel=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_weight_is_as_many_copies(classes):
    """Copies are left out together, whether or not all of them have coefficients."""
    rng = np.random.default_rng(0)
    features, counts = rng.normal(size=(12, 5)), rng.integers(1, 4, 12)
    coef = rng.normal(size=(12, classes))
    coef[[2, 7]] = 0.0
    target = np.arange(12) % classes
    once = np.repeat(np.arange(12), counts)
    shares = np.where(np.diff(once, prepend=-1) > 0, 1.0, 0.0)  # the first has it all

    def temperature(rows, coef, weight):
        bank = GramBank((features[rows] @ features[rows].T)[:, None, :])
        problem = make_problem(bank, target[rows], sample_weight=weight)
        return calibration.calibrate(problem, Expansion(coef, np.ones(1)))

    weighted = temperature(np.arange(12), coef, counts.astype(float))
    uneven = temperature(once, coef[once] * shares[:, None], np.ones(len(once)))
    even = temperature(once, coef[once] / counts[once][:, None], np.ones(len(once)))
    assert uneven == pytest.approx(weighted, rel=1e-9)
    assert even == pytest.approx(weighted, rel=1e-9)


@pytest.mark.parametrize("known", [True, False], ids=["certificate", "kernels"])
def test_rows_at_the_margin_share_scores_but_are_no_copies(known):
    """The third row scores like the first two and is neither; the fourth is a copy."""
    rows = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]
    features, target = np.array(rows), np.array([0, 0, 0, 0, 2])  # of the same label
    bank = GramBank((features @ features.T)[:, None, :])
    coef = np.outer([1.0, 1.0, 0.0, 0.0, 0.0], [2.0, -1.0, -1.0]) / 3.0
    problem, model = make_problem(bank, target), Expansion(coef, np.ones(1))
    scores = bank.scores(coef, model.weights)
    np.testing.assert_allclose(scores, np.tile(scores[0], (5, 1)))
    given = scores if known else None
    training = calibration.TrainingScores.of(problem, model, scores=given)
    own_parts = np.array([[0.2, -0.1, -0.1], [0.8, -0.4, -0.4]])
    zero = np.zeros(3)
    expected = scores - np.vstack([own_parts, zero, own_parts[1], zero])
    np.testing.assert_allclose(training.unseen(own_parts), expected)


@pytest.mark.parametrize("p", [1.0, 1.1, 2.0])
@pytest.mark.parametrize("subset", [20, 1000], ids=["samples", "all rows"])
def test_scores_of_the_certificate_spare_the_kernels(p, subset, iris):
    stack = np.stack([rbf_kernel(iris.X, gamma=g) for g in (0.1, 1.0)], axis=1)
    problem = make_problem(GramBank(stack), iris.y, p=p, C=10.0)
    result = DualAscent(subset=subset, random_state=0).solve(problem)
    expected = problem.bank.scores(result.model.coef, result.model.weights)
    np.testing.assert_allclose(result.scores, expected, atol=1e-9)
    known = calibration.TrainingScores.of(problem, result.model, scores=result.scores)
    anew = calibration.TrainingScores.of(problem, result.model)
    np.testing.assert_array_equal(known.place, anew.place)
    parts = calibration._neighbors(problem, result.model).own_parts()
    assert known.temperature(parts) == pytest.approx(anew.temperature(parts), rel=1e-9)
