"""MKLSurvival: known solutions, predictions, scores, searches, warm starts, files."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import RegressorMixin, clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import manykernels as mk
from manykernels import MKLRegressor, MKLSurvival, concordance_index
from manykernels.kernels import RBF, Linear
from manykernels.losses import CensoredEpsilonInsensitive
from manykernels.solvers.regression.ascent import RegressionAscent
from tests.sklearn_checks import exempt, run_check

KERNELS = "rbf@0-1; rbf@2-3; linear"


def simulated(n_rows=150, seed=0):
    """Times that depend on two of four columns, a third of them censored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    time = np.exp(X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.normal(size=n_rows))
    end = rng.exponential(8.0, size=n_rows)
    y = np.zeros(n_rows, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = time <= end, np.minimum(time, end)
    return X, y


X, Y = simulated()
X_NEW, Y_NEW = simulated(400, 1)


def test_it_finds_the_columns_that_matter_and_says_how_sure_it_is():
    model = MKLSurvival(KERNELS, C=3.0, random_state=0).fit(X, Y)
    assert 0.2 < 1 - Y["event"].mean() < 0.6
    assert model.score(X_NEW, Y_NEW) > 0.8
    weights = dict(zip(model.kernel_names_, model.kernel_weights_, strict=True))
    assert weights[model.kernel_names_[0]] > 3 * weights[model.kernel_names_[1]]
    assert 0.0 <= model.duality_gap_ <= 1e-2 * model.objective_
    censored = ~Y["event"][model.support_]
    assert censored.any() and (model.dual_coef_[censored] >= 0.0).all()
    assert (model.dual_coef_[~censored] < 0.0).any()


def test_default_kernels_are_smooth_on_tables_and_on_views():
    widths = "0.0625*median", "0.25*median", "median"
    smooth = ["linear", *(f"rbf(gamma={width})" for width in widths)]
    assert MKLSurvival(random_state=0).fit(X, Y).kernel_names_ == smooth
    views = {"a": X[:, :2], "b": X[:, 2:]}
    found = MKLSurvival(random_state=0).fit(views, Y).kernel_names_
    assert found == [f"{kernel}@{view}" for kernel in smooth for view in "ab"]


def test_predictions_are_times_and_risks_their_negative_logarithms():
    model = MKLSurvival(KERNELS, random_state=0).fit(X, Y)
    risk = model.predict_risk(X_NEW)
    np.testing.assert_allclose(model.predict(X_NEW), np.exp(-risk))
    np.testing.assert_allclose(
        model.kernel_contributions(X_NEW).sum(axis=1) + model.intercept_, -risk
    )
    expected = concordance_index(Y_NEW, risk)
    assert model.score(X_NEW, Y_NEW) == expected
    assert concordance_index(Y_NEW, -model.predict(X_NEW)) == pytest.approx(expected)
    plain = MKLSurvival(KERNELS, time_scale="linear", random_state=0).fit(X, Y)
    np.testing.assert_array_equal(plain.predict(X_NEW), -plain.predict_risk(X_NEW))


def test_predicted_times_never_overflow():
    model = MKLSurvival("linear", C=10.0).fit(X, Y)
    far = 1e6 * np.sign(model.predict_risk(X).mean()) * np.ones((2, 4))
    assert np.isfinite(model.predict(np.vstack([far, -far]))).all()


def test_the_coefficients_are_those_of_the_formula():
    model = MKLSurvival("rbf:gamma=0.5,normalize=none", C=2.0).fit(X, Y)
    squares = ((X_NEW[:, None] - X[model.support_]) ** 2).sum(axis=2)
    log_time = np.exp(-0.5 * squares) @ model.dual_coef_[:, 0] + model.intercept_
    np.testing.assert_allclose(log_time, -model.predict_risk(X_NEW), rtol=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_events_only_are_regression_of_log_times(epsilon):
    time = Y["time"]
    settings = {"C": 2.0, "epsilon": epsilon, "tol": 1e-7, "fit_intercept": False}
    ours = MKLSurvival(KERNELS, random_state=0, **settings)
    ours.fit(X, (time, np.ones(len(time))))
    rival = MKLRegressor(
        KERNELS, loss="epsilon_insensitive", random_state=0, **settings
    ).fit(X, np.log(time))
    np.testing.assert_array_equal(ours.dual_coef_, rival.dual_coef_)
    np.testing.assert_array_equal(-ours.predict_risk(X_NEW), rival.predict(X_NEW))
    assert ours.duality_gap_ == rival.duality_gap_


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_intercept_is_the_constant_that_costs_least(epsilon, weighted):
    weight = np.random.default_rng(3).uniform(0.1, 2.0, len(Y)) if weighted else None
    model = MKLSurvival("rbf", epsilon=epsilon).fit(X, Y, weight)
    loss = CensoredEpsilonInsensitive(epsilon)
    target = np.column_stack([np.log(Y["time"]), Y["event"]])

    def cost(constant):
        losses = loss.value(np.full((len(Y), 1), constant), target)
        return np.average(losses, weights=weight)

    best = minimize_scalar(cost, bounds=(-5, 5), method="bounded").fun
    assert cost(model.intercept_) <= best + 1e-9
    time = Y["time"]
    median = MKLSurvival("rbf").fit(X, (time, np.ones(len(time)))).intercept_
    assert median == pytest.approx(np.median(np.log(time)))
    without = MKLSurvival("rbf", fit_intercept=False).fit(X, Y)
    assert without.intercept_ == 0.0


def test_censored_rows_are_no_events():
    """Late times that are censored are worth more than events at these times."""
    honest = MKLSurvival(KERNELS, C=3.0).fit(X, Y)
    as_events = MKLSurvival(KERNELS, C=3.0).fit(X, (Y["time"], np.ones(len(Y))))
    assert honest.predict(X_NEW).mean() > 1.2 * as_events.predict(X_NEW).mean()


def test_all_shapes_of_y_give_the_same_fit():
    shapes = [
        Y,
        (Y["time"], Y["event"]),
        np.column_stack([Y["time"], Y["event"]]),
        pd.DataFrame({"event": Y["event"].astype(int), "time": Y["time"]}),
    ]
    risks = [
        MKLSurvival(KERNELS, random_state=0).fit(X, y).predict_risk(X) for y in shapes
    ]
    for risk in risks[1:]:
        np.testing.assert_array_equal(risk, risks[0])


@pytest.mark.parametrize(
    "y", [Y, np.column_stack([Y["time"], Y["event"]]), pd.DataFrame(Y)], ids=str
)
def test_searches_and_cross_validation_of_scikit_learn(y):
    model = make_pipeline(StandardScaler(), MKLSurvival(KERNELS, random_state=0))
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model, X, y, cv=folds)
    assert scores.shape == (3,) and scores.min() > 0.7
    search = GridSearchCV(model, {"mklsurvival__C": [1e-4, 1.0]}, cv=folds).fit(X, y)
    assert search.best_params_ == {"mklsurvival__C": 1.0}
    assert search.best_score_ == pytest.approx(scores.mean())
    assert cross_val_predict(model, X, y, cv=folds).shape == (len(X),)


def test_weights_are_copies_in_fit_and_score():
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    copies = np.repeat(np.arange(len(X)), counts)
    model = MKLSurvival([RBF(0.5), Linear()], p=1.5, C=0.5, tol=1e-10, random_state=0)
    weighted = clone(model).fit(X, Y, sample_weight=counts)
    repeated = clone(model).fit(X[copies], Y[copies])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-9)
    assert weighted.intercept_ == repeated.intercept_
    np.testing.assert_allclose(
        weighted.predict(X_NEW), repeated.predict(X_NEW), rtol=1e-4
    )
    found = weighted.score(X, Y, sample_weight=counts)
    assert found == pytest.approx(weighted.score(X[copies], Y[copies]))


def test_warm_starts_go_on_where_the_last_fit_ended():
    model = MKLSurvival(KERNELS, tol=1e-6, warm_start=True, random_state=0).fit(X, Y)
    before = model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ < before
    cold = MKLSurvival(KERNELS, tol=1e-6, C=1.1, random_state=0).fit(X, Y)
    warm = model.set_params(C=1.1).fit(X, Y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)


@pytest.mark.filterwarnings("ignore:The relative duality gap")
def test_checkpoints_and_callbacks(tmp_path):
    path, lines = tmp_path / "state", []
    settings = {"tol": 1e-13, "random_state": 0}
    whole = MKLSurvival(KERNELS, max_iter=6, **settings)
    stopped = MKLSurvival(
        KERNELS, max_iter=6, checkpoint=path, callback=stop_at(3, lines), **settings
    )
    whole.fit(X, Y)
    stopped.fit(X, Y)
    assert len(lines) == 3 < whole.n_iter_ and path.exists()
    stopped.set_params(callback=None).fit(X, Y)
    np.testing.assert_array_equal(stopped.dual_coef_, whole.dual_coef_)
    other = clone(stopped).set_params(epsilon=0.5)
    with pytest.raises(ValueError, match="checkpoint"):
        other.fit(X, Y)


def stop_at(count, lines):
    def watch(line):
        lines.append(line)
        return len(lines) == count

    return watch


def test_given_kernels_and_solver_objects():
    K = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2], axis=2)
    solver = RegressionAscent(tol=1e-6, random_state=0)
    model = MKLSurvival("precomputed", solver=solver).fit(K, Y)
    assert model.duality_gap_ <= 1e-6 * model.objective_
    assert model.predict(K[:7]).shape == (7,)
    assert cross_val_score(MKLSurvival("precomputed"), K, Y, cv=3).shape == (3,)
    listed = MKLSurvival("precomputed", solver=solver).fit([K[..., 0], K[..., 1]], Y)
    np.testing.assert_allclose(listed.predict(K), model.predict(K))


def test_approximate_kernels_come_close():
    exact = MKLSurvival("rbf:gamma=0.1", C=1.0).fit(X, Y)
    few = MKLSurvival("rbf:gamma=0.1", C=1.0, approximate="nystroem:60").fit(X, Y)
    assert few.score(X_NEW, Y_NEW) == pytest.approx(exact.score(X_NEW, Y_NEW), abs=0.02)


def test_a_file_holds_all_that_predictions_need(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = MKLSurvival([RBF(columns=["a", "b"]), Linear()], time_scale="linear").fit(
        frame, Y
    )
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    new = pd.DataFrame(X_NEW, columns=list("abcd"))
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    assert loaded.score(new, Y_NEW) == model.score(new, Y_NEW)
    assert loaded.time_scale == "linear"


class OnAnyTarget(MKLSurvival):
    """Times made of the plain y that scikit-learn's checks pass; a fifth is censored.

    The checks know no censored times: they pass one number or label per row, which
    MKLSurvival refuses. All that they ask of X, parameters, attributes, weights,
    clones and pickles applies.
    """

    def fit(self, X, y, sample_weight=None):
        if y is None:
            return super().fit(X, y, sample_weight)
        y = np.asarray(y)
        codes = np.unique(y, return_inverse=True)[1].reshape(len(y), -1)
        value = codes[:, 0].astype(float)
        pair = np.exp(value / (1.0 + value.max())), value % 5 != 4
        return super().fit(X, pair, sample_weight)

    def score(self, X, y, sample_weight=None):
        return RegressorMixin.score(self, X, y, sample_weight)


@parametrize_with_checks(
    [
        OnAnyTarget(),
        OnAnyTarget("precomputed", psd="clip"),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn(estimator, check):
    run_check(estimator, check)


def test_numbers_alone_are_refused():
    data, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="a time and an event for every row"):
        MKLSurvival().fit(data, y)
