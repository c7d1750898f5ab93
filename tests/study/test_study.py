"""A study equals nested cross-validation by hand, and survives being killed."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import confusion_matrix
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import manykernels as mk
from manykernels.solvers import InterruptedFitWarning
from manykernels.study import methods

KERNELS = ["rbf:gamma=0.1@0-5", "linear@0-5", "rbf:gamma=0.1@6-12"]
PS, CS = [1.0, 1.5], [0.1, 10.0]
FAST = {"ps": PS, "Cs": CS, "cv": 3, "n_pairs": 0}


@pytest.fixture(scope="module", autouse=True)
def small_forests():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "FOREST_TREES", 20)
        yield


def wine():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X + np.random.default_rng(0).normal(size=X.shape), y


def model(**options):
    return mk.MKLClassifier(KERNELS, tol=1e-4, random_state=0, **options)


@pytest.fixture(scope="module")
def study():
    return mk.Study(model(), **FAST).fit(*wine())


def outer(y):
    return list(StratifiedKFold(3, shuffle=True, random_state=0).split(y, y))


def inner(y):
    return list(StratifiedKFold(3, shuffle=True, random_state=1).split(y, y))


def scores(study, method):
    chosen = study.scores_["method"] == method
    return study.scores_["score"][chosen]


def by_hand(make, X, y):
    """Nested cross-validation, one split after the other."""
    return [
        make(inner(y[train])).fit(X[train], y[train]).score(X[test], y[test])
        for train, test in outer(y)
    ]


@pytest.mark.parametrize("method, ps", [("mkl", PS), ("uniform", [2.0])])
def test_kernel_weights_as_in_a_search_by_hand(study, method, ps):
    def make(folds):
        return mk.MKLClassifierCV(
            KERNELS, ps=ps, Cs=CS, cv=folds, tol=1e-4, random_state=0
        )

    np.testing.assert_allclose(scores(study, method), by_hand(make, *wine()))


def test_averaged_kernel_as_scikit_learn_has_it(study):
    X, y = wine()
    found = []
    for train, test in outer(y):
        probe = mk.MKLClassifier(KERNELS, p=2.0, random_state=0).fit(X[train], y[train])
        K = mk.combined_kernel(probe, X, X[train])
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": CS}, cv=inner(y[train]))
        search.fit(K[train], y[train])
        found.append(search.score(K[test], y[test]))
    np.testing.assert_allclose(scores(study, "averaged"), found)


def test_linear_model_as_scikit_learn_has_it(study):
    def make(folds):
        pipe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        grid = {"logisticregression__C": methods.LINEAR_CS}
        return GridSearchCV(pipe, grid, cv=folds)

    np.testing.assert_allclose(scores(study, "linear"), by_hand(make, *wine()))


def test_forest_as_scikit_learn_has_it(study):
    def make(folds):
        return RandomForestClassifier(20, random_state=1)

    np.testing.assert_allclose(scores(study, "forest"), by_hand(make, *wine()))


def test_single_view_is_the_best_of_all_on_the_inner_folds(study):
    X, y = wine()
    views = {"0-5": KERNELS[:2], "6-12": KERNELS[2:]}
    expected = []
    for train, test in outer(y):
        # A mean of two kernels with C is their sum with half of it.
        searches = {
            view: mk.MKLClassifierCV(
                kernels,
                ps=[2.0],
                Cs=np.divide(CS, len(kernels)),
                cv=inner(y[train]),
                tol=1e-4,
                random_state=0,
            ).fit(X[train], y[train])
            for view, kernels in views.items()
        }
        best = max(searches, key=lambda view: searches[view].best_score_)
        expected.append((best, searches[best].score(X[test], y[test])))
    chosen = study.scores_["method"] == "single"
    assert study.scores_["view"][chosen].tolist() == [view for view, _ in expected]
    np.testing.assert_allclose(scores(study, "single"), [s for _, s in expected])


def test_summary_says_what_scores_say(study):
    lines = {line["method"]: line for line in study.summary_.lines()}
    gains = scores(study, "mkl") - scores(study, "uniform")
    n_test, n_train = study.scores_["n_test"][0], study.scores_["n_train"][0]
    sizes = [len(test) / len(train) for train, test in outer(wine()[1])]
    error = np.sqrt((1 / 3 + np.mean(sizes)) * gains.var(ddof=1))
    assert n_test + n_train == 178
    assert lines["mkl"]["gain"] == pytest.approx(gains.mean())
    assert lines["mkl"]["gain_error"] == pytest.approx(error)
    assert lines["mkl"]["gain_high"] == pytest.approx(gains.mean() + 4.302653 * error)
    assert lines["uniform"]["gain"] == 0.0
    assert study.summary_.to_frame().shape == (6, 11)


def test_predictions_confusion_and_classes_agree(study):
    X, y = wine()
    found = study.predictions_
    assert np.array_equal(np.sort(found["row"]), np.arange(178))
    np.testing.assert_array_equal(found["true"], y[found["row"]])
    expected = confusion_matrix(found["true"], found["predicted"])
    np.testing.assert_array_equal(study.confusion_, expected)
    own = [x for x in study.class_results_.lines() if x["method"] == "mkl"]
    recall = np.diag(expected) / expected.sum(axis=1)
    np.testing.assert_allclose([x["recall"] for x in own], recall)
    assert 1 / 3 < found["probability"].min() and found["probability"].max() <= 1.0
    used = set(study.calibration_["method"])
    assert used == {"mkl", "uniform", "single", "linear", "forest"}


def test_parts_of_views_are_those_of_the_margin(study):
    parts = np.column_stack(list(study.contributions_.values()))
    assert list(study.contributions_) == ["0-5", "6-12"]
    assert (parts.sum(axis=1) >= 0.0).all()  # of the predicted class over the next


def test_importance_is_that_of_cross_fitting():
    X, y = wine()
    fixed = mk.Study(model(), ps=[1.5], Cs=[1.0], cv=3, n_pairs=0, baselines=[])
    fixed.fit(X, y)
    found = mk.kernel_importance(model(p=1.5, C=1.0), X, y, cv=outer(y))
    np.testing.assert_allclose(fixed.importance_.share, found.share, atol=1e-3)
    np.testing.assert_allclose(fixed.importance_.std_error, found.std_error, atol=1e-3)
    assert fixed.view_importance_.names == ["0-5", "6-12"]


def test_whole_rows(study):
    X, y = wine()
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(y, y))
    search = mk.MKLClassifierCV(
        KERNELS, ps=PS, Cs=CS, cv=folds, tol=1e-4, random_state=0
    ).fit(X, y)
    assert (study.p_, study.C_) == (search.best_p_, search.best_C_)
    np.testing.assert_allclose(study.model_.kernel_weights_, search.kernel_weights_)
    np.testing.assert_allclose(study.weights_["weight"], search.kernel_weights_)
    assert (study.weights_["lowest"] <= study.weights_["mean"]).all()
    at_best = study.path_["weights"][CS.index(study.C_)]
    np.testing.assert_allclose(at_best, search.kernel_weights_, atol=5e-3)
    expected = mk.kernel_alignments(X, KERNELS)
    kernels = study.overview_.kernels
    found = study.overview_.alignments
    np.testing.assert_allclose(found, expected[np.ix_(kernels, kernels)], atol=1e-6)
    assert study.overview_.places.shape == (178, 2)


def test_stability_speaks_of_the_chosen_model():
    X, y = wine()
    found = mk.Study(model(), ps=[1.0], Cs=[1.0], cv=2, n_pairs=2, baselines=[]).fit(
        X, y
    )
    assert found.stability_.weights.shape == (4, 1, 1, 3)
    assert found.stability_.names == found.model_.kernel_names_


def test_the_same_whatever_the_number_of_workers(study):
    again = mk.Study(model(), n_jobs=2, **FAST).fit(*wine())
    assert again.verdict_ == study.verdict_
    np.testing.assert_array_equal(again.scores_["score"], study.scores_["score"])
    np.testing.assert_array_equal(again.weights_["mean"], study.weights_["mean"])


# --- killed and continued -------------------------------------------------------------


def same(a, b):
    assert a.verdict_ == b.verdict_
    np.testing.assert_array_equal(a.scores_["score"], b.scores_["score"])
    np.testing.assert_array_equal(a.importance_.share, b.importance_.share)
    np.testing.assert_array_equal(a.importance_.permuted, b.importance_.permuted)
    for name, part in a.contributions_.items():
        np.testing.assert_array_equal(part, b.contributions_[name])
    np.testing.assert_array_equal(a.model_.kernel_weights_, b.model_.kernel_weights_)


def interrupted_at(call, monkeypatch):
    """The forest of a later split never comes."""
    calls, real = [], methods.BASELINES["forest"]

    def stop(*args):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setitem(methods.BASELINES, "forest", stop)


def test_ctrl_c_keeps_what_is_finished_and_the_folder_goes_on(
    study, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        interrupted_at(3, patch)
        with pytest.warns(InterruptedFitWarning, match="2 of 3 splits"):
            part = mk.Study(model(), folder=tmp_path / "s", **FAST).fit(*wine())
    assert part.n_finished_ == 2 and not hasattr(part, "model_")
    np.testing.assert_array_equal(part.scores_["score"], study.scores_["score"][:12])
    with monkeypatch.context() as patch:
        interrupted_at(2, patch)  # only one split is left to do
        whole = mk.Study(model(), folder=tmp_path / "s", **FAST).fit(*wine())
    same(whole, study)


def test_ctrl_c_before_anything_is_finished_ends_it(monkeypatch):
    interrupted_at(1, monkeypatch)
    fresh = mk.Study(model(), **FAST)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(*wine())
    assert not hasattr(fresh, "verdict_")


KILLED = """
import os, sys
sys.path.insert(0, {here!r})
from test_study import FAST, model, wine
import manykernels as mk
from manykernels.study import methods, split_records
methods.FOREST_TREES = 20
save = split_records.SplitFolder.save
def dying(self, place, record):
    save(self, place, record)
    os._exit(9)
split_records.SplitFolder.save = dying
mk.Study(model(), folder={path!r}, **FAST).fit(*wine())
"""


def test_killed_and_continued(study, tmp_path):
    here, path = str(__file__).rsplit("/", 1)[0], str(tmp_path / "s")
    script = KILLED.format(here=here, path=path)
    assert subprocess.run([sys.executable, "-c", script]).returncode == 9
    assert len(list((tmp_path / "s").iterdir())) == 1
    same(mk.Study(model(), folder=path, **FAST).fit(*wine()), study)


def test_a_folder_of_other_data_is_refused(tmp_path):
    X, y = wine()
    fast = {**FAST, "baselines": []}
    mk.Study(model(), folder=tmp_path, **fast).fit(X, y)
    X[0, 0] += 1.0
    with pytest.raises(ValueError, match="other data or settings; choose another"):
        mk.Study(model(), folder=tmp_path, **fast).fit(X, y)
    with pytest.raises(ValueError, match="other data or settings; choose another"):
        mk.Study(model(loss="log"), folder=tmp_path, **fast).fit(wine()[0], y)


def test_a_damaged_split_is_reported(tmp_path):
    fast = {**FAST, "baselines": []}
    mk.Study(model(), folder=tmp_path, **fast).fit(*wine())
    file = sorted(tmp_path.iterdir())[0]
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ValueError, match=file.name):
        mk.Study(model(), folder=tmp_path, **fast).fit(*wine())


# --- other tasks and data -------------------------------------------------------------


def test_regression():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150] / X.std(axis=0), y[:150]
    found = mk.Study(
        mk.MKLRegressor("rbf@0-4; linear@5-9", random_state=0), **FAST
    ).fit(X, y)
    assert found.kind_ == "regression" and found.confusion_ is None
    assert list(found.titles_) == ["mkl", "uniform", "averaged", "single", "linear"] + [
        "forest"
    ]
    splits = [
        (np.setdiff1d(np.arange(150), rows), rows)
        for rows in (
            found.predictions_["row"][found.predictions_["fold"] == k] for k in range(3)
        )
    ]
    best = []
    for train, test in splits:
        ridge = make_pipeline(StandardScaler(), Ridge())
        ridge.set_params(ridge__alpha=10.0).fit(X[train], y[train])
        best.append(ridge.score(X[test], y[test]))
    # Ridge with a fixed penalty is about as good as with a searched one.
    np.testing.assert_allclose(scores(found, "linear"), best, atol=0.06)
    assert "of R²" in found.verdict_


def test_survival():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    time, end = np.exp(X[:, 0] + X[:, 1]), rng.exponential(4.0, size=120)
    y = np.array(
        list(zip(time <= end, np.minimum(time, end), strict=True)),
        dtype=[("event", bool), ("time", float)],
    )
    found = mk.Study(
        mk.MKLSurvival("rbf@0-1; rbf@2-3", random_state=0),
        Cs=[1.0, 10.0],
        cv=3,
        n_pairs=1,
    ).fit(X, y)
    assert list(found.titles_) == ["mkl", "uniform", "single"]
    assert set(found.scores_["p"][::3]) <= {1.1, 1.5}
    assert found.kind_ == "survival" and found.summary_["score"][0] > 0.75
    assert found.view_importance_.share[0] > 0.8
    assert set(found.scores_["view"][2::3]) == {"0-1"}
    assert mk.Study(**FAST)._estimator(y).__class__ is mk.MKLSurvival


def test_precomputed_kernels_have_no_columns(study):
    X, y = wine()
    stack = np.stack(
        [rbf_kernel(X[:, :6], gamma=0.1), rbf_kernel(X[:, 6:], gamma=0.1)], axis=-1
    )
    given = mk.Study(mk.MKLClassifier("precomputed", random_state=0), **FAST)
    given.fit(stack, y)
    assert list(given.titles_) == ["mkl", "uniform", "averaged", "single"]
    named = mk.MKLClassifier("rbf:gamma=0.1@0-5; rbf:gamma=0.1@6-12", random_state=0)
    rows = mk.Study(named, baselines=["averaged", "single"], **FAST).fit(X, y)
    for method in given.titles_:
        np.testing.assert_allclose(
            scores(given, method), scores(rows, method), atol=0.02
        )
    np.testing.assert_allclose(
        given.overview_.alignments, rows.overview_.alignments, atol=1e-6
    )
    with pytest.raises(ValueError, match="of kernel matrices, got 'forest'; choose"):
        given.set_params(baselines=["forest"]).fit(stack, y)


def test_views_that_rows_lack():
    X, y = wine()
    names = [f"bottle {i}" for i in range(len(X))]
    left = pd.DataFrame(X[:, :6], names)
    right = pd.DataFrame(X[:, 6:], names).iloc[::-2]  # another order
    labels = pd.Series(np.array(["low", "mid", "high"], dtype=object)[y], names)
    found = mk.Study(mk.MKLClassifier("rbf"), **FAST).fit(
        {"left": left, "right": right}, labels
    )
    assert set(found.missing_["lacking"]) == {"none", "right"}
    assert found.missing_["rows"].tolist() == [89, 89]
    everyone = found.missing_["mkl"] @ found.missing_["rows"] / 178
    assert everyone == pytest.approx(scores(found, "mkl").mean(), abs=5e-3)
    assert found.row_names_[:2] == ["bottle 0", "bottle 1"]
    assert found.classes_.tolist() == ["high", "low", "mid"]


def test_a_nugget_is_a_view_of_its_own():
    X, y = wine()
    views = {"left": X[:, :6], "right": X[:, 6:]}
    shared = mk.MKLClassifier("rbf; linear", nugget="shared", random_state=0)
    found = mk.Study(shared, **FAST).fit(views, y)
    assert found.view_importance_.names == ["left", "right", "nugget"]
    assert found.view_importance_.share[2] == 0.0
    assert found.weights_["view"] == ["left", "right", "left", "right", "nugget"]
    assert set(found.scores_["view"]) <= {"", "left", "right"}
    plain = mk.Study(mk.MKLClassifier("rbf; linear", random_state=0), **FAST)
    plain.fit(views, y)
    for method in ("averaged", "single", "linear", "forest"):
        np.testing.assert_array_equal(scores(found, method), scores(plain, method))
    assert found.overview_.alignments.shape == (4, 4)


def test_groups_are_never_on_both_sides(monkeypatch):
    X, y = wine()
    groups = np.arange(len(y)) // 2
    seen = []
    real = methods.TrainingFold.__init__

    def look(self, estimator, train, folds, settings):
        seen.append((train.X, folds))
        real(self, estimator, train, folds, settings)

    monkeypatch.setattr(methods.TrainingFold, "__init__", look)
    found = mk.Study(model(), baselines=[], **FAST).fit(X, y, groups=groups)
    table = found.predictions_
    for k in range(3):
        test = groups[table["row"][table["fold"] == k]]
        rest = groups[table["row"][table["fold"] != k]]
        assert not set(test) & set(rest)
    for rows, folds in seen[:3]:
        own = np.array(
            [groups[np.flatnonzero((X == row).all(axis=1))[0]] for row in rows]
        )
        assert all(not set(own[a]) & set(own[b]) for a, b in folds)


def test_weights_of_rows_reach_every_method():
    X, y = wine()
    weight = np.where(y == 0, 100.0, 1.0)
    found = mk.Study(model(), **FAST).fit(X, y, sample_weight=weight)
    recall = {
        line["method"]: line["recall"]
        for line in found.class_results_.lines()
        if line["class"] == 0
    }
    assert min(recall.values()) > 0.9 and len(recall) == 6


def test_repeats_and_given_splits():
    X, y = wine()
    fast = {**FAST, "baselines": []}
    twice = mk.Study(model(), n_repeats=2, **fast).fit(X, y)
    assert sorted(set(twice.scores_["repeat"])) == [0, 1]
    assert len(twice.predictions_["row"]) == 2 * 178
    given = mk.Study(model(), **{**fast, "cv": outer(y)}).fit(X, y)
    np.testing.assert_array_equal(given.scores_["score"], twice.scores_["score"][:6])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"baselines": ["svm"]}, "baselines must be 'all' or some of"),
        ({"baselines": "none"}, "got 'none'; choose these"),
        ({"cv": 1}, "cv must be a whole number of at least 2"),
        ({"cv": 3.5}, "cv must be a number of folds, a splitter or a list"),
        ({"n_repeats": 0}, "n_repeats must be a positive whole number"),
        ({"estimator": mk.MKLClassifierCV()}, "estimator must be an MKLClassifier"),
        ({"ps": [3.0]}, r"p must be a number in \[1, 2\]"),
        ({"scoring": "best"}, "scoring must be the name of a metric"),
        ({"folder": "/proc/none/study"}, "folder must be one that exists or can be"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mk.Study(**options).fit(*wine())


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda X, y: (X, y[:-1], None, None), "X must have as many rows as y"),
        (lambda X, y: (X, None, None, None), "y must be given, got None"),
        (lambda X, y: (X, y, y[:-1], None), "sample_weight must have one entry per"),
        (lambda X, y: (X, y, y, None), "sample_weight must be positive in a study"),
        (lambda X, y: (X, y, None, y * 0), "groups must be at least as many as folds"),
        (lambda X, y: (X, y * 0, None, None), "samples of at least 2 classes"),
    ],
)
def test_bad_data(change, message):
    with pytest.raises(ValueError, match=message):
        mk.Study(model()).fit(*change(*wine()))


def test_a_class_that_a_split_lacks():
    X, y = wine()
    splits = [(np.flatnonzero(y < 2), np.flatnonzero(y == 2))]
    with pytest.raises(ValueError, match="train on rows of all classes, got one with"):
        mk.Study(model(), cv=splits).fit(X, y)


def test_no_warnings_of_our_own():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mk.Study(model(), **FAST).fit(*wine())
