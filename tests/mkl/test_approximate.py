"""The same specification, exact or approximate."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import manykernels as mk
from manykernels.kernels import RBF, Polynomial
from manykernels.mkl.models.model import BlockModel, FeatureModel

X, y = load_digits(return_X_y=True)
X, NEW, y, y_new = X[:200] / 16.0, X[200:300] / 16.0, y[:200], y[200:300]
KERNELS = ["rbf@0-31", "rbf@32-63", "polynomial:degree=2,gamma=scale", "linear"]
FLAT = ["rbf", "polynomial:degree=2,gamma=scale"]


def learner(kernels=KERNELS, **params):
    return mk.MKLClassifier(kernels, **({"random_state": 0, "C": 10.0} | params))


def test_all_rows_as_landmarks_give_the_exact_fit():
    exact = learner(storage="float64").fit(X, y)
    close = learner(storage="float64", approximate="nystroem:200").fit(X, y)
    assert close.objective_ == pytest.approx(exact.objective_, rel=1e-6)
    np.testing.assert_allclose(close.kernel_weights_, exact.kernel_weights_, atol=1e-5)
    np.testing.assert_array_equal(close.predict(NEW), exact.predict(NEW))


@pytest.mark.parametrize("how", ["nystroem", "random_features"])
def test_a_few_columns_learn_digits(how):
    model = learner(approximate=f"{how}:100").fit(X, y)
    assert model.score(NEW, y_new) > 0.9
    assert isinstance(model._model, FeatureModel)
    parts = model.kernel_contributions(NEW)
    np.testing.assert_allclose(
        parts.sum(axis=1), model.decision_function(NEW), atol=1e-10
    )
    assert "approximate" not in model.kernel_names_[3]  # linear has its own features
    assert f"approximate={how}" in model.kernel_names_[0]


@pytest.mark.parametrize("storage", ["gram", "features", "on_demand"])
def test_storage_does_not_change_what_is_learnt(storage):
    settings = {
        "approximate": "nystroem:20",
        "tol": 1e-6,
    }
    model = learner(storage=f"{storage}:float64", **settings).fit(X, y)
    expected = learner(storage="float64", **settings).fit(X, y)
    assert model.objective_ == pytest.approx(expected.objective_, rel=2e-6)
    np.testing.assert_array_equal(model.predict(NEW), expected.predict(NEW))


def test_a_kernels_own_setting_comes_first():
    mixed = learner([RBF(approximate="nystroem", rank=20), RBF("0.1*scale")]).fit(X, y)
    assert isinstance(mixed._model, BlockModel)
    assert mixed.score(NEW, y_new) > 0.85
    both = learner(
        [RBF(approximate="nystroem", rank=20), RBF("0.1*scale")],
        approximate="random_features:30",
    ).fit(X, y)
    assert both._model.kernels.n_feature_columns() == [20, 30]


def test_seeds_and_clones():
    model = learner(FLAT, approximate="nystroem:15")
    assert clone(model).get_params() == model.get_params()
    one, two = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(
        one.decision_function(NEW), two.decision_function(NEW)
    )
    other = clone(model).set_params(random_state=1).fit(X, y)
    assert not np.allclose(one.decision_function(NEW), other.decision_function(NEW))


def test_a_grid_over_exact_and_approximate():
    grid = GridSearchCV(learner(FLAT), {"approximate": [None, "nystroem:20"]}, cv=2)
    grid.fit(X, y)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


def test_frames_and_sparse_rows():
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    new = pd.DataFrame(NEW, columns=frame.columns)
    kernel = "rbf:approximate=nystroem,rank=30@pixel*"
    by_name = learner(kernel).fit(frame, y)
    plain = learner("rbf:approximate=nystroem,rank=30").fit(X, y)
    np.testing.assert_array_equal(by_name.predict(new), plain.predict(NEW))
    sparse = learner("rbf:approximate=nystroem,rank=30", storage="float64")
    sparse.fit(sp.csr_matrix(X), y)
    assert np.mean(sparse.predict(sp.csr_matrix(NEW)) == plain.predict(NEW)) > 0.97


def test_warm_start_goes_on_without_rows():
    model = learner(approximate="nystroem:50", warm_start=True, tol=1e-4)
    first = model.fit(X, y).history_
    again = model.fit(X, y).history_
    assert len(again) < len(first)
    exact = learner("linear", warm_start=True, tol=1e-3).fit(X, y)
    assert isinstance(exact._model, FeatureModel)
    assert len(exact.history_) > 1
    assert len(exact.fit(X, y).history_) == 1


@pytest.mark.parametrize("kernels", ["linear; cosine", FLAT], ids=["linear", "rbf"])
def test_partial_fit_begins_and_goes_on(kernels):
    def fresh():
        return learner(kernels, approximate="nystroem:40", p=1.2)

    streamed = fresh().partial_fit(X[:100], y[:100], classes=np.unique(y))
    streamed.partial_fit(X[100:], y[100:])
    assert streamed.score(NEW, y_new) > 0.7  # one pass over 200 rows of 10 classes
    summed_up = fresh().fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="earlier ones that were kept"):
        summed_up.partial_fit(X[100:], y[100:])


def test_memory_limits_lead_to_features(caplog):
    rows = np.random.default_rng(0).normal(size=(400, 3))
    target = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    with caplog.at_level("INFO", "manykernels"):
        model = learner("rbf; laplacian", approximate="random_features:50")
        model.set_params(memory_limit=400 * 400 * 4).fit(rows, target)
    assert "as features" in caplog.text
    assert model.score(rows, target) > 0.9


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"approximate": "nystrom"}, "approximate must be 'nystroem', 'random_feat"),
        ({"approximate": "nystroem:0"}, "such as 'nystroem:500', or None, got"),
        ({"approximate": "nystroem:2.5"}, "got 'nystroem:2.5'; choose"),
        ({"approximate": 300}, "approximate must be 'nystroem', .* got 300"),
        (
            {"approximate": "random_features", "kernels": "chi2"},
            "got chi_squared, which has none; use approximate='nystroem'",
        ),
        (
            {"approximate": "nystroem", "kernels": "precomputed"},
            "needs a kernel on feature columns, got precomputed",
        ),
    ],
)
def test_clear_errors(params, message):
    rows = X @ X.T if params.get("kernels") == "precomputed" else X
    with pytest.raises(ValueError, match=message):
        learner().set_params(**params).fit(rows, y)


def test_kernels_are_not_changed_by_a_fit():
    kernels = [RBF(), Polynomial(2)]
    model = learner(kernels, approximate="nystroem:10").fit(X, y)
    assert model.kernels == [RBF(), Polynomial(2)]
