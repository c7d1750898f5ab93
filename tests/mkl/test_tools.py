"""scikit-learn's tools: pipelines, searches, cross-validation, calibration."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.kernels import RBF, Linear

FOLDS = StratifiedKFold(3)


def given(**options):
    return MKLClassifier("precomputed", random_state=0, **options)


def by_hand(stack, model):
    """Train on the training part of both axes, test against the training columns."""
    for train, test in FOLDS.split(stack.X, stack.y):
        # As scikit-learn slices: other spellings lie in memory in another order, and
        # sums in another order are rounded otherwise.
        fitted = clone(model).fit(stack.X[np.ix_(train, train)], stack.y[train])
        yield test, fitted, stack.X[np.ix_(test, train)]


def test_pipeline(iris):
    model = make_pipeline(StandardScaler(), MKLClassifier(random_state=0))
    model.fit(iris.X, iris.y, mklclassifier__sample_weight=np.ones(len(iris.y)))
    assert model.score(iris.X_new, iris.y_new) > 0.9
    scaler = StandardScaler().fit(iris.X)
    alone = MKLClassifier(random_state=0).fit(scaler.transform(iris.X), iris.y)
    np.testing.assert_allclose(
        model.decision_function(iris.X_new),
        alone.decision_function(scaler.transform(iris.X_new)),
    )


def test_pipeline_with_named_columns(iris):
    frame = pytest.importorskip("pandas").DataFrame(iris.X, columns=list("abcd"))
    scale = make_column_transformer((StandardScaler(), ["c", "a"]))
    scale.set_output(transform="pandas")
    model = make_pipeline(scale, MKLClassifier("rbf@*__c", random_state=0))
    model.fit(frame, iris.y)
    assert model[-1].feature_names_in_.tolist() == [
        "standardscaler__c",
        "standardscaler__a",
    ]
    assert model.score(frame, iris.y) > 0.9


def test_search_over_parameters_and_kernels(iris):
    grid = {
        "p": [1.0, 1.5],
        "C": [0.01, 10.0],
        "kernels": ["linear", [RBF(columns=[j]) for j in range(4)], [Linear(), RBF()]],
    }
    search = GridSearchCV(MKLClassifier(random_state=0), grid, cv=FOLDS)
    search.fit(iris.X, iris.y)
    assert len(search.cv_results_["params"]) == 12
    assert search.best_score_ > 0.9
    scores = search.cv_results_["mean_test_score"]
    assert len(np.unique(scores)) > 2, "the grid made no difference"
    best = clone(search.best_estimator_).fit(iris.X, iris.y)
    np.testing.assert_array_equal(search.predict(iris.X_new), best.predict(iris.X_new))


def test_cross_validation_slices_a_stack(stack):
    scores = cross_val_score(given(), stack.X, stack.y, cv=FOLDS)
    expected = [m.score(X, stack.y[test]) for test, m, X in by_hand(stack, given())]
    np.testing.assert_array_equal(scores, expected)


def test_search_slices_a_stack(stack):
    search = GridSearchCV(given(), {"C": [1e-3, 10.0]}, cv=FOLDS)
    search.fit(stack.X, stack.y)
    for j, C in enumerate([1e-3, 10.0]):
        expected = [
            m.score(X, stack.y[test]) for test, m, X in by_hand(stack, given(C=C))
        ]
        got = [search.cv_results_[f"split{k}_test_score"][j] for k in range(3)]
        np.testing.assert_array_equal(got, expected)
    assert search.score(stack.X_new, stack.y_new) > 0.9


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
def test_cross_val_predict(method, stack, iris):
    got = cross_val_predict(given(), stack.X, stack.y, cv=FOLDS, method=method)
    for test, model, X in by_hand(stack, given()):
        np.testing.assert_array_equal(got[test], getattr(model, method)(X))
    model = MKLClassifier(random_state=0)
    on_table = cross_val_predict(model, iris.X, iris.y, cv=FOLDS, method=method)
    assert on_table.shape == got.shape


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated(method, iris, stack):
    model = CalibratedClassifierCV(MKLClassifier(random_state=0), method=method, cv=3)
    model.fit(iris.X, iris.y)
    assert model.score(iris.X_new, iris.y_new) > 0.9


def test_one_against_the_rest(iris):
    model = OneVsRestClassifier(MKLClassifier(random_state=0)).fit(iris.X, iris.y)
    assert model.score(iris.X_new, iris.y_new) > 0.9
