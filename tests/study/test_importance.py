"""Importance equals double loops, and noise that gets a weight gets no share."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels.study import Importance

FIELDS = ("share", "std_error", "weight", "drop", "permuted", "share_present")


def wine(n_classes=3):
    X, y = load_wine(return_X_y=True)
    kept = y < n_classes
    return ((X - X.mean(axis=0)) / X.std(axis=0))[kept], y[kept]


def fitted(n_classes=3, **options):
    X, y = wine(n_classes)
    kernels = ["rbf@0-3", "linear@0-3", "rbf@4-8", "rbf@9-12"]
    model = mk.MKLClassifier(kernels, random_state=0, **options).fit(X[::2], y[::2])
    return model, X[1::2], y[1::2]


def noisy(seed, n_rows=300, noise=200):
    """Ten columns whose mean differs by class, and columns of noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    X = rng.normal(size=(n_rows, 10 + noise))
    X[:, :10] += 0.35 * (2 * y - 1)[:, None]
    return X, y


def margins(parts, y, center=True):
    """One row at a time, in the plainest way."""
    found, mean = [], parts.mean(axis=0) * center
    for part, label in zip(parts, y, strict=True):
        scores = part.sum(axis=0)
        rival = max((k for k in range(len(scores)) if k != label), key=scores.item)
        found.append([own[label] - own[rival] for own in part - mean])
    return np.array(found)


def jackknife(statistic, n_rows):
    """The standard error by leaving every row out once."""
    every = np.arange(n_rows)
    left = np.array([statistic(np.delete(every, i)) for i in every])
    return np.sqrt((n_rows - 1) * left.var(axis=0))


# --- labels ---------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
def test_shares_of_three_classes_are_those_of_a_loop(center):
    model, X, y = fitted()
    found = mk.kernel_importance(model, X, y, center=center)
    gain = margins(model.kernel_contributions(X), y, center)
    np.testing.assert_allclose(found.share, gain.sum(axis=0) / gain.sum())
    np.testing.assert_allclose(found.gain, gain.mean(axis=0))
    assert found.share.sum() == pytest.approx(1.0)
    assert found.total == pytest.approx(gain.sum(axis=1).mean())
    for k in range(3):
        own = gain[y == k]
        np.testing.assert_allclose(found.per_class[k], own.sum(axis=0) / own.sum())
    assert found.names == model.kernel_names_ and found.n_rows == len(y)
    assert found.classes.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(found.weight, model.kernel_weights_)


def test_two_classes_are_signed_by_the_label():
    model, X, y = fitted(2)
    sign, parts = np.where(y == 1, 1.0, -1.0)[:, None], model.kernel_contributions(X)
    found = mk.kernel_importance(model, X, y, center=False)
    gain = parts * sign
    np.testing.assert_allclose(found.share, gain.sum(axis=0) / gain.sum())
    assert found.total == pytest.approx(
        np.mean(model.decision_function(X) * sign[:, 0])
    )
    own = gain[y == 0].sum(axis=0)
    np.testing.assert_allclose(found.per_class[0], own / own.sum())
    found = mk.kernel_importance(model, X, y)
    cov = np.array([np.cov(part, sign[:, 0])[0, 1] for part in parts.T])
    np.testing.assert_allclose(found.share, cov / cov.sum())
    np.testing.assert_allclose(found.per_class, [found.share] * 2)


def test_a_constant_for_the_common_class_is_no_importance():
    """Nine of ten rows are of one class: a constant finds which, and no row."""
    rng = np.random.default_rng(0)
    y = (rng.random(1300) < 0.9).astype(int)
    X = rng.normal(size=(1300, 210))
    X[:, :10] += 0.35 * (2 * y - 1)[:, None]
    model = mk.MKLClassifier("rbf@0-9; rbf@10-209", random_state=0)
    model.fit(X[:300], y[:300])
    found = mk.kernel_importance(model, X[300:], y[300:])
    low, high = found.interval()
    assert low[1] <= 0.0 <= high[1] and abs(found.share[1]) <= 0.05
    plain = mk.kernel_importance(model, X[300:], y[300:], center=False)
    assert plain.share[1] > 0.2


def test_errors_over_rows_are_those_of_the_jackknife():
    model, X, y = fitted()
    found = mk.kernel_importance(model, X, y)
    parts = model.kernel_contributions(X)
    means = [margins(np.delete(parts, i, 0), np.delete(y, i)) for i in range(len(y))]
    shares = np.array([gain.sum(axis=0) / gain.sum() for gain in means])
    spread = np.sqrt((len(y) - 1) * shares.var(axis=0))
    np.testing.assert_allclose(found.std_error, spread, rtol=0.05)
    plain = mk.kernel_importance(model, X, y, center=False)
    gain = margins(parts, y, center=False)
    mean = jackknife(lambda i: gain[i].mean(axis=0), len(y))
    np.testing.assert_allclose(plain.gain_error, mean, rtol=1e-6)


def test_scores_without_a_kernel_need_no_fit():
    model, X, y = fitted()
    found = mk.kernel_importance(model, X, y, n_permutations=1, random_state=3)
    parts = model.kernel_contributions(X)
    assert found.score == model.score(X, y)
    for f in range(4):
        rest = np.delete(parts, f, axis=1).sum(axis=1).argmax(axis=1)
        expected = model.score(X, y) - accuracy_score(y, rest)
        assert found.drop[f] == pytest.approx(expected)


@pytest.mark.parametrize("columns", [slice(0, 4), slice(4, 9), slice(9, 13)])
def test_shuffled_parts_are_those_of_a_shuffled_table(columns, monkeypatch):
    """With the same order of rows the model predicts the same of the table."""
    model, X, y = fitted()
    order = np.random.default_rng(5).permutation(len(y))

    class Fixed:
        def permutation(self, rows):
            return rows[order]

    monkeypatch.setattr(
        "manykernels.study.importance.choose_generator", lambda _: Fixed()
    )
    found = mk.kernel_importance(model, X, y, by="view", n_permutations=1)
    mixed = X.copy()
    mixed[:, columns] = X[order, columns]
    view = [slice(0, 4), slice(4, 9), slice(9, 13)].index(columns)
    assert found.permuted[view] == pytest.approx(
        model.score(X, y) - model.score(mixed, y)
    )


def test_a_row_of_weight_two_is_two_rows_for_the_shares():
    model, X, y = fitted()
    weight = np.arange(len(y)) % 3
    found = mk.kernel_importance(model, X, y, sample_weight=weight)
    copies = np.repeat(np.arange(len(y)), weight)
    same = mk.kernel_importance(model, X[copies], y[copies])
    for name in ("share", "gain", "per_class", "drop", "score"):
        np.testing.assert_allclose(found[name], same[name])
    assert found.n_rows == np.count_nonzero(weight)
    assert np.all(found.std_error > same.std_error)  # copies are not new rows


@pytest.mark.parametrize("p", [1.0, 1.1, 1.5])
def test_noise_with_a_large_weight_has_no_share(p):
    X, y = noisy(0)
    kernels = "rbf@0-9; rbf@10-209"
    model = mk.MKLClassifier(kernels, p=p, random_state=0).fit(X, y)
    found = mk.kernel_importance(model, *noisy(1), random_state=0)
    assert found.weight[1] > 0.5
    assert abs(found.share[1]) <= 0.05
    low, high = found.interval()
    assert low[1] <= 0.0 <= high[1] and low[0] > 0.9
    assert found.drop[0] > 0.2 and abs(found.drop[1]) < 0.05
    assert found.permuted[0] > 0.2 and abs(found.permuted[1]) < 0.05


def test_a_model_that_knows_nothing_has_no_shares():
    X, y = noisy(0)
    model = mk.MKLClassifier("rbf@10-50; rbf@60-90", random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="not clearly above zero"):
        found = mk.kernel_importance(model, *noisy(1))
    assert abs(found.total) < 3 * found.total_error
    X_new, y_new = noisy(0)
    with pytest.warns(UserWarning, match="mean nothing and are NaN"):
        wrong = mk.kernel_importance(model, X_new, 1 - y_new)
    assert np.isnan(wrong.share).all() and np.all(wrong.gain < 0.0)


# --- numbers --------------------------------------------------------------------------


def numbers(n_rows=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    Y = np.column_stack([X[:, 0] + X[:, 1] ** 2, 30.0 * X[:, 2]])
    return X, Y + rng.normal(size=Y.shape) * [0.1, 3.0]


def test_shares_of_numbers_are_covariances():
    X, Y = numbers(300)
    y = Y[:, 0] + 5.0
    model = mk.MKLRegressor("linear@0; rbf@1; rbf@2-3", C=10.0, random_state=0)
    model.fit(X[:60], y[:60])
    X, y = X[60:], y[60:]
    found = mk.kernel_importance(model, X, y)
    parts = model.kernel_contributions(X)
    cov = np.array([np.cov(part, y, ddof=0)[0, 1] for part in parts.T])
    np.testing.assert_allclose(found.share, cov / cov.sum())
    np.testing.assert_allclose(found.gain, cov / y.var())
    error = jackknife(
        lambda i: (c := np.cov(parts[i].T, y[i])[:-1, -1]) / c.sum(), len(y)
    )
    np.testing.assert_allclose(found.std_error, error, rtol=0.1)
    without = model.predict(X) - parts[:, 1]
    assert found.drop[1] == pytest.approx(model.score(X, y) - r2_score(y, without))
    assert found.per_class is None and found.per_target is None
    assert found.share[2] < 0.05 < found.share[:2].min()


@pytest.mark.parametrize("apart", [False, True])
def test_several_targets_are_averaged_in_their_own_units(apart):
    X, Y = numbers()
    kernels = "linear@0; rbf@1; linear@2; rbf@3"
    model = mk.MKLRegressor(kernels, C=10.0, per_target_weights=apart, random_state=0)
    model.fit(X[:60], Y[:60])
    X, Y = X[60:], Y[60:]
    found = mk.kernel_importance(model, X, Y)
    parts = model.kernel_contributions(X)
    cov = np.array(
        [
            [np.cov(parts[:, f, k], Y[:, k], ddof=0)[0, 1] for f in range(4)]
            for k in range(2)
        ]
    )
    np.testing.assert_allclose(found.per_target, cov / cov.sum(axis=1)[:, None])
    mean = (cov / Y.var(axis=0)[:, None]).mean(axis=0)
    np.testing.assert_allclose(found.share, mean / mean.sum())
    assert found.score == pytest.approx(model.score(X, Y))
    assert found.weight.sum() == pytest.approx(1.0)


# --- times ----------------------------------------------------------------------------


def times(n_rows=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    time = np.round(np.exp(X[:, 0] + X[:, 1]) * 5.0) + 1.0  # with ties
    end = rng.integers(2, 40, size=n_rows)
    return X, np.column_stack([np.minimum(time, end), time <= end])


def pair_shares(parts, y, weight):
    total = np.zeros(parts.shape[1])
    for i, (time, event) in enumerate(y):
        for j, (other, seen) in enumerate(y):
            if event and (other > time or (other == time and not seen)):
                total += weight[i] * weight[j] * (parts[j] - parts[i])
    return total / total.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_shares_of_times_are_those_of_all_pairs(weighted):
    X, y = times()
    model = mk.MKLSurvival("linear@0; linear@1; rbf@2-3", random_state=0)
    model.fit(X[:40], y[:40])
    X, y = X[40:], y[40:]
    weight = 1.0 + np.arange(40) % 3 if weighted else np.ones(40)
    found = mk.kernel_importance(model, X, y, sample_weight=weight)
    parts = model.kernel_contributions(X)
    np.testing.assert_allclose(found.share, pair_shares(parts, y, weight))
    error = jackknife(lambda i: pair_shares(parts[i], y[i], weight[i]), 40)
    np.testing.assert_allclose(found.std_error, error, rtol=0.1)
    assert found.score == pytest.approx(model.score(X, y, weight))
    rest = mk.concordance_index(y, model.predict_risk(X) + parts[:, 0], weight)
    assert found.drop[0] == pytest.approx(found.score - rest)


def test_times_are_cross_fitted_with_events_in_every_fold():
    X, y = times(120)
    model = mk.MKLSurvival("linear@0-1; rbf@2-3", random_state=0)
    pair = y[:, 0], y[:, 1].astype(bool)
    found = mk.kernel_importance(model, X, pair, cv=4, random_state=0)
    assert found.n_folds == 4 and found.n_rows == 120
    assert found.share[0] > 0.9 and found.drop[0] > 0.1


# --- views ----------------------------------------------------------------------------


def views(missing=0):
    X, y = wine()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    tables = {"acids": X[:, :4], "phenols": X[:, 4:9].copy(), "color": X[:, 9:].copy()}
    tables["color"][:missing:2] = np.nan
    tables["phenols"][1:missing:4] = np.nan
    return mk.Views(tables), y


def test_kernels_of_a_view_are_summed():
    X, y = views()
    model = mk.MKLClassifier(["rbf", "linear", "rbf@*", "constant"], random_state=0)
    model.fit(X[::2], y[::2])
    single = mk.kernel_importance(model, X[1::2], y[1::2])
    found = mk.kernel_importance(model, X[1::2], y[1::2], by="view")
    joint = "acids+phenols+color"
    assert found.names == ["acids", "phenols", "color", joint, "constant"]
    owners = [0, 1, 2, 0, 1, 2, 3, 4]
    np.testing.assert_allclose(found.share, np.bincount(owners, single.share))
    np.testing.assert_allclose(found.weight, np.bincount(owners, single.weight))
    assert found.permuted[-1] == pytest.approx(0.0, abs=1e-12)


def test_rows_that_lack_a_view_are_told_apart():
    X, y = views(missing=150)
    model = mk.MKLClassifier("rbf", random_state=0).fit(X[:100], y[:100])
    new, truth = X[60:], y[60:]
    found = mk.kernel_importance(model, new, truth, by="view")
    gain = margins(model.kernel_contributions(new), truth)
    parts = model.kernel_contributions(new)
    color = ~np.isnan(new.table("color")).any(axis=1)
    assert found.n_present.tolist()[0] == len(truth)
    assert found.n_present.tolist()[2] == color.sum() < len(truth)
    assert found.share[2] == pytest.approx(gain[:, 2].sum() / gain.sum())
    gain = margins(parts[color], truth[color])
    expected = gain[:, 2].sum() / gain.sum()
    assert found.share_present[2] == pytest.approx(expected)
    assert found.share_present[2] > found.share[2]


@pytest.mark.parametrize("missing", ["rescale", "zero"])
def test_shuffled_views_are_exact_where_rows_lack_some(missing, monkeypatch):
    X, y = views(missing=150)
    model = mk.MKLClassifier("rbf; linear", missing=missing, random_state=0)
    model.fit(X[:100], y[:100])
    new, truth = X[60:], y[60:]
    table = new.table("phenols")
    here = np.flatnonzero(~np.isnan(table).any(axis=1))
    order = np.random.default_rng(1).permutation(len(here))

    class Fixed:
        def permutation(self, rows):
            return rows[order] if len(rows) == len(order) else rows

    monkeypatch.setattr(
        "manykernels.study.importance.choose_generator", lambda _: Fixed()
    )
    found = mk.kernel_importance(model, new, truth, by="view", n_permutations=1)
    mixed = table.copy()
    mixed[here] = table[here[order]]
    shuffled = {name: new.table(name) for name in new.names} | {"phenols": mixed}
    expected = model.score(new, truth) - model.score(shuffled, truth)
    assert found.permuted[1] == pytest.approx(expected)
    assert found.permuted[0] == found.permuted[2] == pytest.approx(0.0)


def test_rows_are_matched_by_index():
    pd = pytest.importorskip("pandas")
    X, y = wine()
    ids = [f"bottle{i}" for i in range(len(y))]
    table = pd.DataFrame(X, index=ids)
    both = {"a": table[[0, 1, 2]], "b": table[[9, 10, 12]].iloc[::-1]}
    y = pd.Series(y, index=ids)
    model = mk.MKLClassifier("rbf", random_state=0)
    found = mk.kernel_importance(model, both, y.sample(frac=1, random_state=0), cv=3)
    assert found.score > 0.9 and found.names == ["rbf@a", "rbf@b"]


def test_groups_and_columns_are_parts_where_there_are_no_views():
    X, y = wine()
    kernels = mk.group_kernels({"a": [0, 1], "b": [5, 6, 7]}, kernels="linear; rbf")
    model = mk.MKLClassifier(kernels, random_state=0)
    found = mk.kernel_importance(model, X, y, by="view", cv=3)
    assert found.names == ["a", "b"]
    model.set_params(kernels=["rbf@0-3", "linear@3+0-2", "rbf", "linear"])
    found = mk.kernel_importance(model, X, y, by="view", cv=3)
    assert found.names == ["0-3", "all columns"]


# --- cross-fitting --------------------------------------------------------------------


def test_cross_fitting_pools_the_held_out_rows():
    X, y = wine()
    model = mk.MKLClassifier("rbf@0-6; rbf@7-12", random_state=0)
    folds = KFold(4, shuffle=True, random_state=0)
    found = mk.kernel_importance(model, X, y, cv=folds)
    gains, scores = [], []
    for train, test in folds.split(X):
        model.fit(X[train], y[train])
        parts = margins(model.kernel_contributions(X[test]), y[test])
        gains.append(parts.sum(axis=0))
        scores.append(model.score(X[test], y[test]))
    gains = np.array(gains)
    share = gains.sum(axis=0) / gains.sum()
    np.testing.assert_allclose(found.share, share)
    assert found.score == pytest.approx(np.mean(scores))
    off = (gains - share * gains.sum(axis=1, keepdims=True)) / (gains.sum() / 4)
    spread = np.sqrt((1 / 4 + 1 / 3) * np.sum(off**2, axis=0) / 3)
    np.testing.assert_allclose(found.std_error, spread, rtol=0.01)
    assert found.n_rows == len(y) and found.n_folds == 4


def test_repeats_do_not_make_more_data():
    X, y = noisy(0, noise=40)
    model = mk.MKLClassifier("rbf@0-9; rbf@10-49", random_state=0)
    errors = []
    for repeats in (1, 6):
        cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=repeats, random_state=0)
        found = mk.kernel_importance(model, X, y, cv=cv, n_permutations=0)
        low, high = found.interval()
        assert low[1] <= 0.0 <= high[1] and found.share[0] > 0.9
        errors.append(found.std_error[1])
    assert found.n_folds == 18 and found.n_rows == 6 * len(y)
    assert errors[1] > 0.4 * errors[0]  # and not 1 / sqrt(6) of it
    assert np.isnan(found.permuted).all()


def test_a_fitted_estimator_is_cloned_and_left_alone():
    model, X, y = fitted()
    before = model.dual_coef_.copy()
    mk.kernel_importance(model, X, y, cv=3)
    np.testing.assert_array_equal(model.dual_coef_, before)


def test_groups_of_rows_stay_together():
    X, y = wine()
    groups = np.arange(len(y)) // 2
    model = mk.MKLClassifier("rbf@0-6; rbf@7-12", random_state=0)
    weight = np.ones(len(y))
    found = mk.kernel_importance(
        model, X, y, cv=GroupKFold(3), groups=groups, sample_weight=weight
    )
    assert found.n_folds == 3


@pytest.mark.parametrize("stacked", [True, False])
def test_given_matrices_are_sliced_in_both_directions(stacked):
    X, y = wine()
    left, right = rbf_kernel(X[:, :6], gamma=0.2), rbf_kernel(X[:, 6:], gamma=0.2)
    given = np.stack([left, right], axis=-1) if stacked else [left, right]
    options = {"random_state": 0, "psd": "skip", "tol": 1e-4, "storage": "float64"}
    options |= {"p": 1.5}
    model = mk.MKLClassifier("precomputed", **options)
    found = mk.kernel_importance(model, given, y, cv=3)
    table = mk.MKLClassifier(["rbf:gamma=0.2@0-5", "rbf:gamma=0.2@6-12"], **options)
    same = mk.kernel_importance(table, X, y, cv=3)
    np.testing.assert_allclose(found.share, same.share, atol=0.01)
    rows, others = np.arange(0, len(y), 2), np.arange(1, len(y), 2)

    def part(these):
        if stacked:
            return given[np.ix_(these, rows)]
        return [matrix[np.ix_(these, rows)] for matrix in given]

    model.fit(part(rows), y[rows])
    held = mk.kernel_importance(model, part(others), y[others], by="view")
    assert held.names == model.kernel_names_ and held.share.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("form", [np.ndarray.tolist, sp.coo_array, sp.csr_matrix])
def test_tables_come_in_every_form(form):
    X, y = wine()
    model = mk.MKLClassifier("linear", random_state=0)
    found = mk.kernel_importance(model, form(X), y.tolist(), cv=3)
    assert found.share.tolist() == [1.0] and found.std_error.tolist() == [0.0]


def test_searches_are_judged_as_well():
    X, y = wine()
    model = mk.MKLClassifierCV("rbf@0-6; rbf@7-12", Cs=[1.0, 10.0], random_state=0)
    found = mk.kernel_importance(model, X, y, cv=3)
    assert found.share.sum() == pytest.approx(1.0)


# --- the result, and what is refused --------------------------------------------------


def test_the_result_is_a_dictionary_a_table_and_a_text():
    pytest.importorskip("pandas")
    model, X, y = fitted()
    found = mk.kernel_importance(model, X, y, random_state=0)
    assert isinstance(found, Importance) and found["share"] is found.share
    frame = found.to_frame()
    assert frame.index.name == "kernel" and frame.shape == (4, 7)
    assert frame["share"].is_monotonic_decreasing
    for name in FIELDS:
        np.testing.assert_array_equal(frame.loc[found.names, name], found[name])
    assert repr(found).splitlines()[1].endswith("rbf@0-3")
    again = mk.kernel_importance(model, X, y, random_state=0)
    np.testing.assert_array_equal(found.permuted, again.permuted)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"estimator": mk.MKLClassifier()}, NotFittedError, "fitted on other rows"),
        (
            {"estimator": make_pipeline(StandardScaler(), mk.MKLClassifier())},
            TypeError,
            "got Pipeline; pass the estimator itself",
        ),
        ({"by": "table"}, ValueError, "by must be"),
        ({"center": "yes"}, ValueError, "center must be"),
        ({"cv": LeaveOneOut()}, ValueError, "at least 2 rows at a time"),
        ({"n_permutations": -1}, ValueError, "n_permutations must be"),
        ({"y": [7] * 89}, ValueError, r"got \[7\] as well; leave such rows out"),
        ({"y": None}, ValueError, "y must be given"),
        ({"y": [0, 1]}, ValueError, "[Ii]nconsistent|rows"),
        ({"y": [0, 1] * 4, "cv": 2}, ValueError, "which are 8, got 89"),
        ({"sample_weight": -np.ones(89)}, ValueError, "must not be negative"),
        ({"cv": [(np.arange(5), np.arange(5, 89))]}, ValueError, "classes"),
    ],
)
def test_what_cannot_be_judged_is_refused(change, error, text):
    model, X, y = fitted()
    call = {"estimator": model, "X": X, "y": y} | change
    with pytest.raises(error, match=text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mk.kernel_importance(
            call.pop("estimator"), call.pop("X"), call.pop("y"), **call
        )


def test_numbers_are_refused_where_nothing_can_be_explained():
    X, Y = numbers(40)
    model = mk.MKLRegressor("linear@0; rbf@1", random_state=0).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="y must differ between rows"):
        mk.kernel_importance(model, X, np.ones(40))
    with pytest.raises(ValueError, match="as many targets as in fit, 1, got 2"):
        mk.kernel_importance(model, X, Y)
    with pytest.raises(ValueError, match="at least 2 rows at a time"):
        mk.kernel_importance(model, X, Y[:, 0], cv=40)


@pytest.mark.parametrize("by", ["kernel", "view"])
def test_a_nugget_has_no_share(by):
    model, X_new, y_new = fitted(nugget="shared")
    found = mk.kernel_importance(model, X_new, y_new, by=by)
    assert found.names[-1] == "nugget" and found.share[-1] == 0.0
    assert found.weight.sum() == pytest.approx(1.0)
