"""MKLRegressor: known solutions, targets, inputs, files."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels import MKLRegressor
from manykernels.kernels import RBF, Linear
from manykernels.losses import Huber
from tests.mkl.test_bad_input import refused

KERNELS = [RBF(0.1, columns=[0, 1]), RBF(0.05, columns=[2, 3, 4]), Linear()]
LOSSES = ["squared", "huber", "epsilon_insensitive"]


@pytest.fixture(scope="module")
def sugar():
    """Diabetes, standardized; two targets."""
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - 150.0) / 77.0
    Y = np.column_stack([y, X[:, 0] * X[:, 1] + 2.0])
    A, B, a, b = train_test_split(X, Y, train_size=150, random_state=0)
    return A, a, B, b


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_one_kernel_is_kernel_ridge(sugar, fit_intercept):
    X, Y, X_new, _ = sugar
    Y = Y + 7.0
    model = MKLRegressor(
        [RBF(0.1)], p=2.0, C=4.0, fit_intercept=fit_intercept, tol=1e-10
    ).fit(X, Y)
    mean = Y.mean(axis=0) if fit_intercept else np.zeros(2)
    rival = KernelRidge(alpha=0.25, kernel="rbf", gamma=0.1).fit(X, Y - mean)
    np.testing.assert_allclose(
        model.predict(X_new), rival.predict(X_new) + mean, rtol=1e-8
    )
    np.testing.assert_allclose(model.intercept_, mean)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [1.0, 1.1, 2.0])
def test_certified_and_useful(sugar, loss, p):
    X, Y, X_new, Y_new = sugar
    model = MKLRegressor(KERNELS, p=p, loss=loss, C=0.3, random_state=0)
    model.fit(X, Y[:, 0])
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.score(X_new, Y_new[:, 0]) > 0.3
    assert model.kernel_weights_.shape == (3,)
    assert model.kernel_weights_.sum() == pytest.approx(1.0)
    assert len(model.history_) == model.n_iter_
    assert model.predict(X_new).shape == (len(X_new),)


def test_losses_react_to_outliers_as_they_should(sugar):
    X, Y, X_new, Y_new = sugar
    y = Y[:, 0].copy()
    y[::10] += 30.0
    found = {
        loss: MKLRegressor(KERNELS, loss=loss, C=0.3, fit_intercept=False)
        .fit(X, y)
        .score(X_new, Y_new[:, 0])
        for loss in LOSSES
    }
    assert found["huber"] > found["squared"] + 0.5
    assert found["epsilon_insensitive"] > found["squared"] + 0.5


def test_parameters_of_the_losses_are_passed_on(sugar):
    X, Y, *_ = sugar
    wide = MKLRegressor(KERNELS, loss="epsilon_insensitive", epsilon=1.0)
    narrow = clone(wide).set_params(epsilon=0.01)
    assert len(wide.fit(X, Y).support_) < len(narrow.fit(X, Y).support_)
    given = MKLRegressor(KERNELS, loss=Huber(0.2)).fit(X, Y)
    named = MKLRegressor(KERNELS, loss="huber", threshold=0.2).fit(X, Y)
    assert given.objective_ == named.objective_


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_share_weights_or_do_not(sugar, loss):
    X, Y, X_new, _ = sugar
    options = {"p": 1.2, "loss": loss, "tol": 1e-7, "random_state": 0}
    shared = MKLRegressor(KERNELS, **options).fit(X, Y)
    own = MKLRegressor(KERNELS, per_target_weights=True, **options).fit(X, Y)
    assert shared.kernel_weights_.shape == (3,)
    assert own.kernel_weights_.shape == (2, 3)
    np.testing.assert_allclose(own.kernel_weights_.sum(axis=1), 1.0)
    for k in range(2):
        alone = MKLRegressor(KERNELS, **options).fit(X, Y[:, k])
        np.testing.assert_allclose(
            own.predict(X_new)[:, k], alone.predict(X_new), atol=2e-3
        )
        np.testing.assert_allclose(
            own.kernel_weights_[k], alone.kernel_weights_, atol=2e-3
        )
        assert own.objective_[k] == pytest.approx(alone.objective_, rel=1e-6)
        assert own.duality_gap_[k] <= 1e-7 * own.objective_[k]
    assert own.objective_.sum() < shared.objective_ * (1.0 - 1e-3)


@pytest.mark.parametrize("per_target", [False, True])
def test_contributions_add_up(sugar, per_target):
    X, Y, X_new, _ = sugar
    model = MKLRegressor(KERNELS, per_target_weights=per_target).fit(X, Y)
    parts = model.kernel_contributions(X_new)
    assert parts.shape == (len(X_new), 3, 2)
    np.testing.assert_allclose(
        parts.sum(axis=1) + model.intercept_, model.predict(X_new), atol=1e-10
    )
    single = MKLRegressor(KERNELS).fit(X, Y[:, 0])
    assert single.kernel_contributions(X_new).shape == (len(X_new), 3)


def test_prediction_follows_the_documented_formula(sugar):
    X, Y, X_new, _ = sugar
    model = MKLRegressor([RBF(0.1), RBF(0.01)], p=1.3).fit(X, Y)
    K = [rbf_kernel(X_new, X[model.support_], gamma) for gamma in (0.1, 0.01)]
    combined = np.tensordot(model.kernel_weights_, K, 1)
    np.testing.assert_allclose(
        combined @ model.dual_coef_ + model.intercept_, model.predict(X_new)
    )


@pytest.mark.parametrize("storage", ["gram", "on_demand", "memmap", "features"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_storage_gives_the_same_fit(sugar, storage, loss):
    X, Y, X_new, _ = sugar
    kernels = [Linear(columns=[0, 1, 2]), Linear(columns=[3, 4, 5, 6])]
    options = {"loss": loss, "tol": 1e-9, "random_state": 0}
    expected = MKLRegressor(kernels, storage="gram", **options).fit(X, Y)
    model = MKLRegressor(kernels, storage=storage, **options).fit(X, Y)
    np.testing.assert_allclose(model.predict(X_new), expected.predict(X_new), atol=1e-4)


@pytest.mark.parametrize("per_target", [False, True])
def test_approximate_kernels_keep_no_rows(sugar, per_target):
    X, Y, X_new, Y_new = sugar
    model = MKLRegressor(
        "rbf@0-4; rbf@5-9",
        approximate="nystroem:40",
        per_target_weights=per_target,
        random_state=0,
    ).fit(X, Y)
    assert isinstance(model._model, mk.mkl.models.model.FeatureModel)
    assert model.predict(X_new).shape == Y_new.shape
    parts = model.kernel_contributions(X_new)
    np.testing.assert_allclose(
        parts.sum(axis=1) + model.intercept_, model.predict(X_new)
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_dense_and_sparse_tables(sugar, form):
    X, Y, X_new, _ = sugar
    expected = MKLRegressor(KERNELS).fit(X, Y).predict(X_new)
    got = MKLRegressor(KERNELS).fit(form(X), Y).predict(form(X_new))
    np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(sugar, frame):
    X, Y, X_new, _ = sugar
    names = list("abcdefghij")

    def table(values):
        return frame(dict(zip(names, values.T, strict=True)))

    kernels = [RBF(columns=["a", "b"]), Linear(columns=["c"])]
    model = MKLRegressor(kernels).fit(table(X), frame({"u": Y[:, 0]}))
    assert model.feature_names_in_.tolist() == names
    kernels = [RBF(columns=[0, 1]), Linear(columns=[2])]
    expected = MKLRegressor(kernels).fit(X, Y[:, [0]])
    np.testing.assert_allclose(model.predict(table(X_new)), expected.predict(X_new))


def test_given_matrices(sugar):
    X, Y, X_new, _ = sugar

    def matrices(A):
        return [rbf_kernel(A, X, gamma) for gamma in (0.1, 0.01)]

    model = MKLRegressor("precomputed").fit(matrices(X), Y)
    expected = MKLRegressor([RBF(0.1), RBF(0.01)]).fit(X, Y)
    np.testing.assert_allclose(
        model.predict(matrices(X_new)), expected.predict(X_new), atol=1e-6
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_of_zero_is_a_row_left_out(sugar, loss):
    X, Y, X_new, _ = sugar
    weight = np.ones(len(Y))
    weight[::4] = 0.0
    options = {"loss": loss, "tol": 1e-9, "random_state": 0}
    weighted = MKLRegressor(KERNELS, **options).fit(X, Y, weight)
    without = MKLRegressor(KERNELS, **options).fit(X[weight > 0], Y[weight > 0])
    np.testing.assert_allclose(
        weighted.predict(X_new), without.predict(X_new), atol=1e-6
    )
    assert not np.isin(np.flatnonzero(weight == 0), weighted.support_).any()


@pytest.mark.parametrize("per_target", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_saved_and_loaded(sugar, tmp_path, loss, per_target):
    X, Y, X_new, _ = sugar
    model = MKLRegressor(KERNELS, loss=loss, per_target_weights=per_target, p=1.3)
    model.fit(X, Y).save(tmp_path / "model")
    again = mk.load(tmp_path / "model")
    assert isinstance(again, MKLRegressor)
    assert str(again) == str(model)
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))
    np.testing.assert_array_equal(
        again.kernel_contributions(X_new), model.kernel_contributions(X_new)
    )
    for name in vars(model):
        # The dual point speaks of all the training rows, the file of support rows.
        if name.endswith("_") and name != "dual_point_":
            found, expected = getattr(again, name), getattr(model, name)
            if name == "history_":
                assert found == expected
            else:
                np.testing.assert_array_equal(found, expected)


def test_saved_with_one_target(sugar, tmp_path):
    X, Y, X_new, _ = sugar
    model = MKLRegressor(KERNELS).fit(X, Y[:, 0])
    model.save(tmp_path / "model")
    again = mk.load(tmp_path / "model")
    assert isinstance(again.intercept_, float)
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))
    with pytest.raises(NotFittedError):
        MKLRegressor().save(tmp_path / "other")


def test_a_killed_fit_goes_on(sugar, tmp_path):
    X, Y, *_ = sugar
    path = tmp_path / "state"
    model = MKLRegressor(KERNELS, p=1.05, tol=1e-11, checkpoint=path, max_iter=2)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, Y)
    resumed = clone(model).set_params(max_iter=50).fit(X, Y)
    whole = clone(model).set_params(max_iter=50, checkpoint=None).fit(X, Y)
    assert [line.objective for line in resumed.history_] == [
        line.objective for line in whole.history_
    ]
    np.testing.assert_array_equal(resumed.dual_coef_, whole.dual_coef_)


def test_warm_starts_are_shorter(sugar):
    X, Y, *_ = sugar
    for per_target in (False, True):
        model = MKLRegressor(
            KERNELS, p=1.1, warm_start=True, tol=1e-7, per_target_weights=per_target
        )
        first = model.fit(X, Y).n_iter_
        assert model.set_params(C=1.1).fit(X, Y).n_iter_ <= first
        assert model.fit(X, Y).n_iter_ == 1
    # From weights per target to shared ones, and to another number of targets.
    assert model.set_params(per_target_weights=False).fit(X, Y).n_iter_ <= first + 1
    assert model.fit(X, Y[:, 0]).dual_coef_.shape[1] == 1


def test_the_direct_path_is_said_aloud(sugar, capsys, caplog):
    X, Y, *_ = sugar
    MKLRegressor(KERNELS).fit(X, Y)
    assert capsys.readouterr().err == ""
    MKLRegressor(KERNELS, verbose=1).fit(X, Y)
    shown = capsys.readouterr().err
    assert "direct path, exact solves" in shown and "epoch   1" in shown
    caplog.clear()
    with caplog.at_level(logging.INFO, "manykernels"):
        MKLRegressor(KERNELS, loss="huber").fit(X, Y)
    assert "direct path" not in caplog.text


def test_a_callback_stops_the_fit(sugar):
    X, Y, *_ = sugar
    lines = []

    def stop(line):
        lines.append(line)
        return len(lines) == 2

    MKLRegressor(KERNELS, p=1.05, tol=0.0, callback=stop).fit(X, Y)
    assert len(lines) == 2


def test_in_pipelines_and_searches(sugar):
    X, Y, X_new, Y_new = sugar
    model = make_pipeline(StandardScaler(), MKLRegressor(KERNELS))
    model.fit(X, Y[:, 0], mklregressor__sample_weight=np.ones(len(X)))
    assert model.score(X_new, Y_new[:, 0]) > 0.3
    search = GridSearchCV(MKLRegressor(KERNELS), {"C": [0.01, 1.0], "p": [1.0, 2.0]})
    search.fit(X, Y)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 4


def test_bad_input(sugar):
    X, Y, *_ = sugar
    bad = Y.copy()
    bad[3, 1] = np.nan
    with refused("y must hold finite numbers", "NaN", "row 3", "drop"):
        MKLRegressor().fit(X, bad)
    worse = X.copy()
    worse[4, 2] = np.inf
    with refused("X must hold finite numbers", "inf", "column 2"):
        MKLRegressor().fit(worse, Y)
    with refused("loss must be 'squared'", "'hinge'"):
        MKLRegressor(loss="hinge").fit(X, Y)
    with refused("solver must be 'auto'", "'obscure'"):
        MKLRegressor(solver="obscure").fit(X, Y)
    with refused("epsilon must be a number in [0, inf)", "-1"):
        MKLRegressor(loss="epsilon_insensitive", epsilon=-1).fit(X, Y)
    with refused("threshold must be a number", "0"):
        MKLRegressor(loss="huber", threshold=0).fit(X, Y)
    with refused("C must be a number", "-2"):
        MKLRegressor(C=-2).fit(X, Y)
    with refused("p must be a number in [1, 2]", "3"):
        MKLRegressor(p=3).fit(X, Y)
    with refused("y must have the shape", "(2, 3, 4)"):
        MKLRegressor().fit(X[:2], np.zeros((2, 3, 4)))
    with refused("checkpoint keeps", "per_target_weights=True"):
        MKLRegressor(checkpoint="x", per_target_weights=True).fit(X, Y)
    with refused("sample_weight must not be negative", "row 0"):
        MKLRegressor().fit(X, Y, -np.ones(len(X)))
    with refused("Ridge handles the squared loss only", "'huber'"):
        MKLRegressor(loss="huber", solver="ridge").fit(X, Y)


def test_a_constant_target_is_predicted(sugar):
    X, *_ = sugar
    for loss in LOSSES:
        model = MKLRegressor(KERNELS, loss=loss).fit(X, np.full(len(X), 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)
