"""MKLClassifier with smooth losses: probabilities, options, scikit-learn's checks."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
)

import manykernels as mk
from manykernels import MKLClassifier
from manykernels.banks.build import build_bank
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers.problem import Problem
from tests.sklearn_checks import precise

SMOOTH = ["log", "smoothed_hinge", "squared_hinge"]
each_loss = pytest.mark.parametrize("loss", SMOOTH)
KERNELS = [Linear(), RBF(0.1), RBF(1.0)]


@pytest.mark.filterwarnings("ignore:The relative duality gap")
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_weights_equal_repetitions_in_scikit_learns_check(p):
    """Probabilities included: the log loss needs no leave-one-out scores."""
    model = precise(MKLClassifier(KERNELS, p=p, loss="log"))
    check_sample_weight_equivalence_on_dense_data("MKLClassifier", model)


@each_loss
@pytest.mark.parametrize("solver", ["auto", "truncated_newton", "svrg"])
def test_losses_and_solvers_by_name(loss, solver, iris):
    model = MKLClassifier(loss=loss, solver=solver, C=5, tol=1e-4, storage="float64")
    model.set_params(random_state=0).fit(iris.X, iris.y)
    assert model.duality_gap_ <= 1e-4 * model.objective_
    assert model.score(iris.X_new, iris.y_new) > 0.9
    assert model.kernel_weights_.sum() == pytest.approx(1.0)


def test_probabilities_of_the_log_loss_are_a_softmax_of_the_scores(iris):
    model = MKLClassifier(KERNELS, loss="log", C=5, tol=1e-5).fit(iris.X, iris.y)
    assert model.temperature_ == 1.0
    scores = model.decision_function(iris.X_new)
    np.testing.assert_allclose(
        model.predict_proba(iris.X_new), softmax(scores, axis=1), rtol=1e-12
    )
    # At the optimum C (1 - probability) is the coefficient of the true class.
    proba = model.predict_proba(iris.X)
    own = np.arange(len(iris.y)), iris.y
    weights = model.kernel_weights_
    norm = mk.norms.LpGroupNorm(model.p)
    factor = norm.normalize_weights(weights).sum()
    np.testing.assert_allclose(
        model.dual_coef_[own] / factor, 5 * (1 - proba[own]), atol=0.05
    )


def test_one_linear_kernel_has_the_probabilities_of_logistic_regression(pair):
    ours = MKLClassifier(
        Linear(normalize=None), loss="log", p=2, C=2.0, tol=1e-10, storage="float64"
    ).fit(pair.X, pair.y)
    theirs = LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10).fit(
        pair.X, pair.y
    )
    np.testing.assert_allclose(
        ours.predict_proba(pair.X_new), theirs.predict_proba(pair.X_new), atol=1e-4
    )


def test_log_loss_of_new_rows_is_better_than_raw_hinge_scores(digits):
    native = MKLClassifier(loss="log", C=100, random_state=0).fit(digits.X, digits.y)
    hinge = MKLClassifier(C=100, random_state=0).fit(digits.X, digits.y)
    raw = softmax(hinge.decision_function(digits.X_new), axis=1)
    found = log_loss(digits.y_new, native.predict_proba(digits.X_new))
    assert found < log_loss(digits.y_new, raw)


@each_loss
def test_weights_equal_repetitions(loss, iris):
    counts = np.random.default_rng(0).integers(0, 4, len(iris.y))
    model = MKLClassifier(KERNELS, loss=loss, tol=1e-10, storage="float64")
    weighted = model.fit(iris.X, iris.y, sample_weight=counts)
    scores = weighted.decision_function(iris.X_new)
    repeated = model.fit(np.repeat(iris.X, counts, axis=0), np.repeat(iris.y, counts))
    np.testing.assert_allclose(
        scores, repeated.decision_function(iris.X_new), atol=1e-3
    )


def test_class_weights_move_the_probabilities(pair):
    even = MKLClassifier(KERNELS, loss="log").fit(pair.X, pair.y)
    skewed = MKLClassifier(KERNELS, loss="log", class_weight={1: 10, 2: 1})
    skewed.fit(pair.X, pair.y)
    before = even.predict_proba(pair.X_new)[:, 0].mean()
    assert skewed.predict_proba(pair.X_new)[:, 0].mean() > before + 0.02


def test_a_warm_start_saves_rounds(digits):
    model = MKLClassifier(loss="log", tol=1e-5, warm_start=True, storage="float64")
    cold = model.fit(digits.X, digits.y).n_iter_
    warm = model.set_params(C=1.1).fit(digits.X, digits.y).n_iter_
    assert warm < cold


def test_checkpoints_and_files(tmp_path, iris):
    path = tmp_path / "fit"
    settings = {"loss": "log", "solver": "svrg", "random_state": 0}
    rough = MKLClassifier(**settings, tol=0.1, checkpoint=path).fit(iris.X, iris.y)
    fine = MKLClassifier(**settings, tol=1e-4, checkpoint=path).fit(iris.X, iris.y)
    assert fine.history_[: rough.n_iter_] == rough.history_
    assert fine.n_iter_ > rough.n_iter_
    fine.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict_proba(iris.X_new), fine.predict_proba(iris.X_new)
    )


@each_loss
def test_streams_are_for_the_hinge_loss(loss, iris):
    model = MKLClassifier(loss=loss)
    assert not hasattr(model, "partial_fit")
    assert hasattr(MKLClassifier(), "partial_fit")
    with pytest.raises(AttributeError) as caught:
        model.partial_fit(iris.X, iris.y, classes=[0, 1, 2])
    assert f"the hinge loss only, got the loss {loss!r}" in str(
        caught.value.__cause__ or caught.value
    )


@pytest.mark.parametrize("solver", ["obscure", "pegasos", "dual_ascent"])
def test_hinge_solvers_name_what_they_cannot_do(solver, iris):
    with pytest.raises(ValueError, match="the hinge loss only, got the loss 'log'"):
        MKLClassifier(loss="log", solver=solver).fit(iris.X, iris.y)


@pytest.mark.parametrize("solver", ["svrg", "truncated_newton"])
def test_smooth_solvers_name_what_they_cannot_do(solver, iris):
    with pytest.raises(ValueError, match="needs a smooth loss.*got the loss 'hinge'"):
        MKLClassifier(solver=solver).fit(iris.X, iris.y)


def test_unknown_losses_are_listed(iris):
    with pytest.raises(ValueError, match="'hinge', 'log', 'smoothed_hinge'"):
        MKLClassifier(loss="logistic").fit(iris.X, iris.y)


@pytest.mark.parametrize("loss", ["hinge", *SMOOTH])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_every_loss_learns_two_to_four_classes(loss, n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.arange(120) % n_classes
    X = rng.normal(size=(120, 5)) + 2.0 * np.eye(5)[y]
    model = MKLClassifier(KERNELS, loss=loss, random_state=0).fit(X, y)
    assert model.duality_gap_ <= 1e-2 * model.objective_
    assert model.score(X, y) > 0.8
    assert model.dual_point_.shape == (120, n_classes)


@pytest.mark.parametrize("solver", ["auto", "dual_ascent", "obscure", "pegasos"])
def test_the_dual_point_certifies_the_gap(solver, iris):
    model = MKLClassifier(KERNELS, p=1.5, C=2.0, solver=solver, storage="float64")
    model.set_params(random_state=0).fit(iris.X, iris.y)
    kernels = KernelSet.fit(KERNELS, iris.X)
    bank = build_bank(kernels)
    norm, loss = mk.norms.LpGroupNorm(1.5), mk.losses.MulticlassHinge()
    weight = np.ones(len(iris.y))
    problem = Problem(bank, iris.y, 3, loss, norm, 2.0, weight)
    point = model.dual_point_
    bound = problem.dual_bound(point, problem.theta_norms(point))
    assert model.objective_ - bound <= model.duality_gap_ * (1.0 + 1e-4) + 1e-9
    own = point[np.arange(len(iris.y)), iris.y]
    assert own.min() >= -1e-9
    assert own.max() <= 2.0 + 1e-6
