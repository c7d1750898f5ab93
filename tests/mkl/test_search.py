"""MKLClassifierCV and MKLRegressorCV: the same scores as a search by hand."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, mean_absolute_error, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.search import Grid
from tests.mkl.test_bad_input import refused

# Numbers in place of "scale", and no normalization that looks at other rows: then a
# search that computes kernels anew in every fold has the same ones.
FIXED = [RBF(0.1, columns=[0, 1]), RBF(0.3, columns=[2, 3]), Linear(normalize=None)]
CS, PS = [0.1, 1.0, 10.0], [1.1, 2.0]


@pytest.fixture(scope="module")
def sugar():
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:90], (y[:90] - 150.0) / 77.0
    return X, np.column_stack([y, X[:, 0] * X[:, 1] + 2.0])


def by_hand(model, X, y, cv, **options):
    search = GridSearchCV(model, {"p": PS, "C": CS}, cv=cv, refit=False, **options)
    return search.fit(X, y).cv_results_


def same_scores(found, expected, atol):
    order = {(r["p"], r["C"]): i for i, r in enumerate(expected["params"])}
    places = [order[r["p"], r["C"]] for r in found["params"]]
    for name in ("split0_test_score", "split2_test_score", "mean_test_score"):
        np.testing.assert_allclose(found[name], expected[name][places], atol=atol)


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
def test_regression_scores_are_those_of_a_grid_search(sugar, loss, scoring):
    X, Y = sugar
    cv = KFold(3, shuffle=True, random_state=0)
    options = {"loss": loss, "tol": 1e-8, "random_state": 0}
    model = MKLRegressorCV(FIXED, PS, CS, cv=cv, scoring=scoring, **options).fit(X, Y)
    expected = by_hand(MKLRegressor(FIXED, **options), X, Y, cv, scoring=scoring)
    same_scores(model.cv_results_, expected, atol=1e-4)
    best = MKLRegressor(FIXED, p=model.best_p_, C=model.best_C_, **options).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), best.predict(X), atol=1e-4)
    place = model.best_index_
    assert model.cv_results_["rank_test_score"][place] == 1
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_classification_scores_are_those_of_a_grid_search(iris, loss):
    cv = StratifiedKFold(3)
    kernels = FIXED[:2]
    options = {"loss": loss, "tol": 1e-6, "random_state": 0, "storage": "float64"}
    scoring = "neg_log_loss" if loss == "log" else None
    model = MKLClassifierCV(kernels, PS, CS, cv=cv, scoring=scoring, **options)
    model.fit(iris.X, iris.y)
    plain = MKLClassifier(kernels, **options)
    expected = by_hand(plain, iris.X, iris.y, cv, scoring=scoring)
    same_scores(model.cv_results_, expected, atol=2e-3)
    assert model.score(iris.X_new, iris.y_new) > 0.9
    assert not hasattr(model, "partial_fit")


def test_probabilities_are_judged_where_every_fold_has_them(iris):
    model = MKLClassifierCV("rbf", 1.1, CS, cv=3, scoring="neg_log_loss")
    with refused("loss='log'", "GridSearchCV"):
        model.fit(iris.X, iris.y)
    two = iris.y > 0
    model.set_params(scoring="roc_auc").fit(iris.X, two)  # needs scores, no more
    assert model.best_score_ > 0.9


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_in_closed_form(sugar, weighted):
    """p = 2 has no weights to learn, so that the closed form is exact."""
    X, Y = sugar
    X, Y = X[:40], Y[:40]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 40) if weighted else None
    model = MKLRegressorCV(FIXED, 2.0, [0.3, 3.0]).fit(X, Y, weight)
    for place, C in enumerate([0.3, 3.0]):
        plain = MKLRegressor(FIXED, p=2.0, C=C)
        params = {} if weight is None else {"params": {"sample_weight": weight}}
        predicted = cross_val_predict(plain, X, Y, cv=LeaveOneOut(), **params)
        score = r2_score(Y, predicted, sample_weight=weight)
        found = model.cv_results_["mean_test_score"][place]
        assert found == pytest.approx(score, abs=1e-8)


def test_kernels_are_computed_once(sugar, monkeypatch):
    X, Y = sugar
    calls = []
    original = KernelSet.fit.__func__

    def counted(cls, *args, **kwargs):
        calls.append(1)
        return original(cls, *args, **kwargs)

    monkeypatch.setattr(KernelSet, "fit", classmethod(counted))
    MKLRegressorCV(FIXED, PS, CS, cv=3).fit(X, Y)
    assert len(calls) == 1


def test_jobs_and_refit(sugar):
    X, Y = sugar
    options = {"ps": PS, "Cs": CS, "cv": 3, "loss": "huber", "random_state": 0}
    one = MKLRegressorCV(FIXED, **options).fit(X, Y)
    two = MKLRegressorCV(FIXED, n_jobs=2, **options).fit(X, Y)
    for name, values in one.cv_results_.items():
        np.testing.assert_array_equal(values, two.cv_results_[name])
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    bare = MKLRegressorCV(FIXED, refit=False, **options).fit(X, Y)
    assert bare.best_C_ == one.best_C_
    with pytest.raises(NotFittedError):
        bare.predict(X)


@pytest.mark.parametrize("cv", [None, 3])
def test_targets_may_choose_for_themselves(sugar, cv):
    X, Y = sugar
    options = {"ps": PS, "Cs": CS, "cv": cv, "tol": 1e-7}
    model = MKLRegressorCV(FIXED, per_target_weights=True, **options).fit(X, Y)
    assert model.best_C_.shape == model.best_p_.shape == (2,)
    for k in range(2):
        alone = MKLRegressorCV(FIXED, **options).fit(X, Y[:, k])
        assert model.best_C_[k] == alone.best_C_
        assert model.best_p_[k] == alone.best_p_
        assert model.best_score_[k] == pytest.approx(alone.best_score_, abs=1e-4)
        np.testing.assert_allclose(model.predict(X)[:, k], alone.predict(X), atol=1e-3)
        np.testing.assert_allclose(
            model.kernel_weights_[k], alone.kernel_weights_, atol=1e-3
        )


def test_groups_stay_together(sugar):
    X, Y = sugar
    groups = np.arange(len(X)) % 4
    model = MKLRegressorCV(FIXED, 1.5, CS, cv=GroupKFold(4))
    model.fit(X, Y, groups=groups)
    assert "split3_test_score" in model.cv_results_
    weight = np.ones(len(X))
    weight[:8] = 0.0  # the groups of the rows that are left must still fit them
    assert clone(model).fit(X, Y, weight, groups=groups).best_C_ in CS


def test_few_rows_of_every_class_get_as_many_folds(iris):
    X, y = iris.X, iris.y
    rows = np.concatenate([np.flatnonzero(y == label)[:3] for label in np.unique(y)])
    model = MKLClassifierCV("rbf", Cs=[1.0], ps=1.5, random_state=0)
    model.fit(X[rows], y[rows])
    assert "split2_test_score" in model.cv_results_
    assert "split3_test_score" not in model.cv_results_


def test_listed_folds_speak_of_all_rows(iris):
    X, y = iris.X, iris.y
    weight = np.ones(len(y))
    weight[::3] = 0.0
    folds = list(StratifiedKFold(3).split(X, y))
    search = MKLClassifierCV("rbf", ps=[2.0], Cs=[1.0], cv=folds, random_state=0)
    search.fit(X, y, sample_weight=weight)
    expected = []
    for train, held in folds:
        train, held = train[weight[train] > 0], held[weight[held] > 0]
        model = MKLClassifier("rbf", p=2.0, C=1.0, random_state=0)
        expected.append(model.fit(X[train], y[train]).score(X[held], y[held]))
    found = [search.cv_results_[f"split{k}_test_score"][0] for k in range(3)]
    assert found == expected


def test_scorers_may_be_functions(sugar):
    X, Y = sugar
    scorer = make_scorer(mean_absolute_error, greater_is_better=False)
    named = MKLRegressorCV(FIXED, 1.5, CS, scoring="neg_mean_absolute_error").fit(X, Y)
    given = MKLRegressorCV(FIXED, 1.5, CS, scoring=scorer).fit(X, Y)
    assert named.best_score_ == given.best_score_ < 0.0


def test_saved_with_what_the_search_found(sugar, iris, tmp_path):
    X, Y = sugar
    model = MKLRegressorCV(FIXED, PS, CS).fit(X, Y)
    model.save(tmp_path / "regressor")
    again = mk.load(tmp_path / "regressor")
    assert type(again) is MKLRegressorCV
    assert (again.best_p_, again.best_C_) == (model.best_p_, model.best_C_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model = MKLClassifierCV(FIXED, 1.5, CS, cv=3, random_state=0).fit(iris.X, iris.y)
    model.save(tmp_path / "classifier")
    again = mk.load(tmp_path / "classifier")
    assert type(again) is MKLClassifierCV and again.best_C_ == model.best_C_
    scores = [one.cv_results_["mean_test_score"] for one in (again, model)]
    np.testing.assert_array_equal(*scores)
    np.testing.assert_array_equal(
        again.predict_proba(iris.X_new), model.predict_proba(iris.X_new)
    )


def test_pipelines_and_clones(sugar):
    X, Y = sugar
    model = make_pipeline(StandardScaler(), MKLRegressorCV(FIXED, PS, CS))
    fitted = clone(model).fit(X, Y)
    assert fitted[-1].best_C_ in CS and fitted.score(X, Y) > 0.3


def test_the_bar_is_shown_only_if_asked_for(sugar, capsys):
    X, Y = sugar
    MKLRegressorCV(FIXED, PS, CS).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    MKLRegressorCV(FIXED, PS, CS, verbose=1).fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == "" and "searching p and C" in shown.err


def test_ties_go_to_the_smaller_C():
    grid = Grid.of([1.0, 2.0], [10.0, 1.0])
    assert grid.pairs == [(1.0, 1.0), (1.0, 10.0), (2.0, 1.0), (2.0, 10.0)]
    assert grid.best(np.array([np.nan, 0.5, 0.7, 0.7])) == (2, 0.7)


def test_bad_input(sugar):
    X, Y = sugar
    with refused("Cs must hold at least one number", "none"):
        MKLRegressorCV(Cs=[]).fit(X, Y)
    with refused("C must be a number", "-1"):
        MKLRegressorCV(Cs=[1.0, -1]).fit(X, Y)
    with refused("p must be a number in [1, 2]", "5"):
        MKLClassifierCV(ps=[5]).fit(X, Y[:, 0] > 0)
    with refused("cv must be", "'loo'", "'huber'"):
        MKLRegressorCV(loss="huber", cv="loo").fit(X, Y)
    with refused("cv must be", "'kfold'"):
        MKLRegressorCV(cv="kfold").fit(X, Y)
    with refused("scoring must be", "3"):
        MKLRegressorCV(FIXED, 1.5, [1.0], scoring=3).fit(X, Y)
