"""Several tables about the same rows: what is accepted, and how rows are matched."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels.inputs.views import are_views

NAMES = [f"p{i}" for i in range(60)]


@pytest.fixture
def patients():
    """Two tables in different orders, some rows in one only, and labels."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 60)
    genes = rng.normal(size=(60, 5))
    genes[:, :3] += 4 * label[:, None]
    clinic = rng.normal(size=(60, 2)) * 1000
    first = pd.DataFrame(genes, index=NAMES, columns=list("abcde"))
    second = pd.DataFrame(clinic, index=NAMES, columns=["age", "dose"])
    y = pd.Series(np.array(["x", "y", "z"])[label], index=NAMES)
    return {"genes": first, "clinic": second.sample(frac=1, random_state=1)}, y


def fit(X, y, **options):
    return mk.MKLClassifier("rbf", random_state=0, **options).fit(X, y)


def test_rows_are_matched_by_index_whatever_their_order(patients):
    tables, y = patients
    shuffled = {k: t.sample(frac=1, random_state=5) for k, t in tables.items()}
    one, other = fit(tables, y), fit(shuffled, y)
    views = mk.Views(tables, rows=NAMES)
    assert np.array_equal(one.decision_function(views), other.decision_function(views))


def test_y_may_come_in_another_order(patients):
    tables, y = patients
    one = fit(tables, y, tol=1e-6)
    other = fit(tables, y.sample(frac=1, random_state=3), tol=1e-6)
    views = mk.Views(tables, rows=NAMES)
    np.testing.assert_allclose(
        one.decision_function(views), other.decision_function(views), atol=2e-3
    )
    assert one.score(views, y) > 0.9


@pytest.mark.parametrize(
    "estimator, target",
    [
        (mk.MKLClassifier, lambda y: y),
        (mk.MKLRegressor, lambda y: y.map({"x": 0.0, "y": 1.0, "z": 2.0})),
        (
            mk.MKLSurvival,
            lambda y: pd.DataFrame(
                {"time": y.map({"x": 9.0, "y": 3.0, "z": 1.0}), "event": True}
            ),
        ),
    ],
)
def test_score_matches_rows_by_index_as_fit_does(patients, estimator, target):
    tables, y = patients
    model = estimator("rbf", random_state=0).fit(tables, target(y))
    expected = model.score(mk.Views(tables, rows=NAMES), target(y))
    turned = dict(reversed(tables.items()))  # rows in the order of the other table
    assert model.score(turned, target(y)) == expected
    assert expected > 0.8


def test_y_by_position_needs_tables_in_one_order(patients):
    tables, y = patients
    with pytest.raises(ValueError, match="different orders, got none, and 'clinic' "):
        fit(tables, y.to_numpy())
    with pytest.raises(ValueError, match="different orders, got none"):
        fit(tables, y).score(tables, y.tolist())
    views = mk.Views(tables, rows=NAMES)
    assert fit(views, y.to_numpy()).score(views, y.to_numpy()) > 0.9
    fewer = {"genes": tables["genes"], "clinic": tables["clinic"].sort_index()[:9]}
    ordered = {k: t.loc[[n for n in NAMES if n in t.index]] for k, t in fewer.items()}
    assert fit(ordered, y.to_numpy()).score(ordered, y) > 0.9


def test_views_and_columns_in_any_order_give_the_same_answers(patients):
    tables, y = patients
    model = fit(tables, y)
    turned = {
        "clinic": tables["clinic"][["dose", "age"]],
        "genes": tables["genes"][list("edcba")].assign(more=1.0),
    }
    same = mk.Views(turned, rows=NAMES)
    expected = model.decision_function(mk.Views(tables, rows=NAMES))
    assert np.array_equal(model.decision_function(same), expected)


def test_arrays_lists_dicts_and_frames_of_two_levels_are_the_same_views(patients):
    tables, y = patients
    aligned = [tables["genes"].loc[NAMES], tables["clinic"].loc[NAMES]]
    arrays = [table.to_numpy() for table in aligned]
    as_dict = fit({"view0": arrays[0], "view1": arrays[1]}, y)
    as_list = fit(arrays, y)
    levels = pd.concat(aligned, axis=1, keys=["view0", "view1"])
    as_frame = fit(levels, y)
    scores = as_dict.decision_function(arrays)
    assert np.array_equal(as_list.decision_function(arrays), scores)
    assert np.array_equal(as_frame.decision_function(levels), scores)
    assert as_dict.kernel_names_ == ["rbf@view0", "rbf@view1"]


def test_polars_and_sparse_views(patients):
    tables, y = patients
    genes, clinic = tables["genes"].loc[NAMES], tables["clinic"].loc[NAMES]
    dense = fit({"a": genes.to_numpy(), "b": clinic.to_numpy()}, y, scale="none")
    mixed = {"a": sp.csr_matrix(genes.to_numpy()), "b": pl.DataFrame(clinic.to_numpy())}
    other = fit(mixed, y, scale="none")
    expected = dense.decision_function({"a": genes.to_numpy(), "b": clinic.to_numpy()})
    np.testing.assert_allclose(other.decision_function(mixed), expected, atol=1e-5)


def test_scikit_learn_splits_views_like_a_table(patients):
    tables, y = patients
    X = mk.Views(tables, rows=y.index)
    model = mk.MKLClassifier("rbf", random_state=0)
    grid = {"C": [0.1, 10.0], "scale": ["standard", "robust"]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.9
    found = cross_val_predict(make_pipeline(model), X, y, cv=3)
    assert np.mean(found == y) > 0.9
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    assert model.fit(train, y_train).score(test, y_test) > 0.8
    assert (train.index == y_train.index).all()
    search = mk.MKLClassifierCV("rbf", Cs=[1, 10], cv=3, random_state=0).fit(X, y)
    assert search.best_score_ > 0.9


def test_scalers_of_one_table_are_told_about_scale(patients):
    tables, y = patients
    pipeline = make_pipeline(StandardScaler(), mk.MKLClassifier())
    with pytest.raises(
        TypeError, match=r"expected one table, got views \(genes, clini"
    ):
        pipeline.fit(mk.Views(tables, rows=NAMES), y)


def test_groups_follow_the_order_of_y(patients):
    tables, y = patients
    from sklearn.model_selection import GroupKFold

    groups = pd.Series(np.arange(60) % 6, index=NAMES)
    options = dict(ps=1.1, Cs=[1.0], cv=GroupKFold(3), random_state=0)
    in_order = mk.MKLClassifierCV("rbf", **options)
    in_order.fit(mk.Views(tables, rows=NAMES), y, groups=groups)
    turned = y.sample(frac=1, random_state=2)
    other = mk.MKLClassifierCV("rbf", **options).fit(tables, turned, groups=groups)
    assert other.best_score_ == pytest.approx(in_order.best_score_, abs=0.05)


def test_slices_compose_and_copy_nothing(patients):
    tables, _ = patients
    views = mk.Views(tables)
    part = views[10:40][[0, 5, 7]]
    assert part.shape == (3, 7)
    assert part.index.tolist() == [NAMES[10], NAMES[15], NAMES[17]]
    assert part.sources is views.sources
    mask = np.zeros(60, bool)
    mask[[1, 4]] = True
    assert views[mask].index.tolist() == ["p1", "p4"]
    assert views[mask, ...].table("genes").index.tolist() == ["p1", "p4"]
    assert len(views[np.array([], dtype=int)]) == 0


def test_the_representation_says_what_matched(patients):
    tables, _ = patients
    tables["clinic"] = tables["clinic"].iloc[:50]
    text = repr(mk.Views(tables, rows=NAMES[:30]))
    lacking = 30 - tables["clinic"].index.isin(NAMES[:30]).sum()
    assert "Views of 30 rows" in text
    assert "genes: 5 columns, all rows, 30 of its rows not used" in text
    assert f"{30 - lacking} rows, {lacking} lack it" in text


def test_rows_without_labels_and_labels_without_rows_are_left_out(patients):
    tables, y = patients
    short = {name: table.loc[table.index != "p3"] for name, table in tables.items()}
    with pytest.warns(UserWarning, match="1 rows of y are in no view"):
        model = fit(short, y)
    assert len(model.dual_point_) == 59
    with pytest.warns(UserWarning, match="20 rows of the views are not in y"):
        assert len(fit(tables, y.iloc[:40]).dual_point_) == 40


def test_weights_follow_the_order_of_y(patients):
    tables, y = patients
    weight = pd.Series(np.linspace(0.5, 2, 60), index=NAMES)
    model = mk.MKLClassifier("rbf", random_state=0)
    views = mk.Views(tables, rows=NAMES)
    expected = model.fit(views, y, weight.to_numpy()).decision_function(views)
    turned = weight.sample(frac=1, random_state=0)
    assert np.array_equal(
        model.fit(tables, y, turned).decision_function(views), expected
    )


def test_kernels_name_views_and_columns(patients):
    tables, y = patients
    texts = [
        "rbf@genes",
        "rbf@genes:a+genes:b",
        "linear@clinic:age",
        "rbf@genes:0-2",
        "rbf@genes:1",
        "linear@genes:a+clinic:dose",
        "constant",
        "linear@*",
    ]
    model = mk.MKLClassifier(texts, random_state=0).fit(tables, y)
    chosen = [
        np.atleast_1d(np.arange(7)[g.columns]).tolist()
        for g in model._model.kernels.groups
    ]
    assert [0, 1, 2, 3, 4] in chosen and [0, 1] in chosen and [5] in chosen
    assert [0, 1, 2] in chosen and [1] in chosen and [0, 6] in chosen
    assert list(range(7)) in chosen
    again = mk.MKLClassifier(model.kernel_names_, random_state=0).fit(tables, y)
    assert again.kernel_names_ == model.kernel_names_
    objects = mk.kernels.RBF(columns="genes:?")
    named = mk.MKLClassifier([objects], random_state=0).fit(tables, y)
    assert named.kernel_names_ == ["rbf@genes:?"]


def test_default_kernels_are_those_of_every_view(patients):
    tables, y = patients
    names = mk.MKLClassifier(random_state=0).fit(tables, y).kernel_names_
    for view in tables:
        assert sum(name.endswith(f"@{view}") for name in names) >= 3


def test_one_view_is_the_table_itself(patients):
    tables, y = patients
    genes = tables["genes"]
    plain = mk.MKLClassifier("rbf", random_state=0).fit(genes, y)
    views = {"genes": genes}
    one = mk.MKLClassifier("rbf", scale="none", random_state=0).fit(views, y)
    assert np.array_equal(one.decision_function(views), plain.decision_function(genes))


class Annotated:
    """What AnnData has, as far as it is read."""

    def __init__(self, frame, obs=None):
        self.X, self.obs_names, self.var_names = (
            frame.to_numpy(),
            frame.index,
            frame.columns,
        )
        self.obs, self.layers = obs, {"double": 2 * self.X}


class Modalities:
    def __init__(self, parts, obs):
        self.mod, self.obs, self.obs_names = parts, obs, obs.index


def test_annotated_data_and_their_layers(patients):
    tables, y = patients
    obs = pd.DataFrame({"type": y})
    data = Modalities({k: Annotated(t) for k, t in tables.items()}, obs)
    expected = fit(tables, y).decision_function(mk.Views(tables, rows=NAMES))
    model = fit(data, "type")
    assert np.array_equal(model.decision_function(mk.Views(data, rows=NAMES)), expected)
    doubled = mk.Views(data, layers={"genes": "double"})
    assert doubled.table("genes")[0, 0] == 2 * tables["genes"].iloc[0, 0]
    single = Annotated(tables["genes"], obs)
    assert mk.Views(single, layers="double").names == ["X"]
    parts = {name: Annotated(table) for name, table in tables.items()}
    same = mk.Views(parts, rows=NAMES)  # a dict is matched by the names of rows too
    assert np.array_equal(fit(parts, y).decision_function(same), expected)
    assert mk.Views(parts, layers={"genes": "double"}).names == ["genes", "clinic"]
    with pytest.raises(TypeError, match="view 'both' must be one table, got MuData"):
        mk.Views({"both": data})
    with pytest.raises(TypeError, match="layers are those of AnnData .* 'genes'"):
        mk.Views(tables, layers="double")
    with pytest.raises(ValueError, match="layers must name views, which are genes"):
        mk.Views(data, layers={"gene": "double"})
    with pytest.raises(ValueError, match="layer of view 'genes' must be one of double"):
        mk.Views(data, layers={"genes": "none"})
    with pytest.raises(ValueError, match="y must name a column of obs, one of type"):
        fit(data, "stage")


def test_times_and_events_from_annotations(patients):
    tables, y = patients
    obs = pd.DataFrame({"days": y.map({"x": 9.0, "y": 3.0, "z": 1.0}), "died": True})
    data = Annotated(tables["genes"], obs)
    model = mk.MKLSurvival("rbf", random_state=0).fit(data, ["days", "died"])
    assert model.score(data, ["days", "died"]) == model.score(data, obs) > 0.8


def test_real_annotated_data(patients):
    anndata = pytest.importorskip("anndata", reason="needs AnnData")
    tables, y = patients
    data = anndata.AnnData(tables["genes"], obs=pd.DataFrame({"type": y}))
    assert fit(data, "type").score(mk.Views(data), y) > 0.9


def test_what_counts_as_views():
    table = np.ones((3, 2))
    assert are_views({"a": table}) and are_views([table, table]) and are_views((table,))
    assert not are_views(table) and not are_views(table.tolist())
    assert not are_views(sp.dok_matrix(table)) and not are_views(pd.DataFrame(table))


ERRORS = {
    "no view": ({}, r"views must hold at least one table, got none"),
    "no text": ({1: np.ones((3, 1))}, r"views must have names that are texts"),
    "reserved": ({"a:b": np.ones((3, 1))}, r"got 'a:b'; rename it"),
    "lengths": (
        {"a": np.ones((3, 1)), "b": np.ones((4, 1))},
        r"same number of rows, got 3 in 'a', 4 in 'b'",
    ),
    "one dimension": (
        {"a": np.ones(3)},
        r"view 'a' must be a table .* got 1 dimension",
    ),
    "no column": ({"a": np.ones((3, 0))}, r"view 'a' must have at least one column"),
    "columns twice": (
        {"a": pd.DataFrame(np.ones((3, 2)), columns=["x", "x"])},
        r"columns of view 'a' must have different names, got 'x'",
    ),
    "rows twice": (
        {"a": pd.DataFrame(np.ones((3, 1)), index=["u", "u", "v"])},
        r"the index of view 'a' must name every row once, got 'u'",
    ),
    "index for some": (
        {"a": pd.DataFrame(np.ones((3, 1)), index=list("uvw")), "b": np.ones((3, 1))},
        r"views must all have an index or none of them, .* for 'b'",
    ),
    "no table": ("rows", r"views must be a dict of tables"),
    "a path": ({"a": "a.csv"}, r"view 'a' must be a table .* got 'a.csv'; pass"),
    "nothing": ({"a": None}, r"view 'a' must be a table .* got None; pass"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_refusals_speak_of_views(case):
    tables, message = ERRORS[case]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        mk.Views(tables)
    assert str(caught.value).count(". ") == 0 and "; " in str(caught.value)


def test_refusals_of_a_fit(patients):
    tables, y = patients
    bad = {**tables, "notes": pd.DataFrame({"text": ["hello"] * 60}, index=NAMES)}
    with pytest.raises(ValueError, match=r"view 'notes' must hold numbers .* 'hello'"):
        fit(bad, y)
    infinite = tables["genes"].copy()
    infinite.iloc[3, 2] = np.inf
    with pytest.raises(ValueError, match="view 'genes' must hold finite .* column 'c'"):
        fit({**tables, "genes": infinite}, y)
    partly = tables["genes"].copy()
    partly.iloc[3, 2] = np.nan
    one_row = r"view 'genes': .* in part of 1 row; .*scale='impute\+standard'"
    with pytest.raises(ValueError, match=one_row):
        fit({**tables, "genes": partly}, y)
    assert (
        fit({**tables, "genes": partly}, y, scale="impute+standard").score(
            mk.Views({**tables, "genes": partly}, rows=NAMES), y
        )
        > 0.9
    )
    with pytest.raises(ValueError, match="the index of y must name rows of the views"):
        fit(tables, pd.Series([1, 0], index=["q1", "q2"]))
    with pytest.raises(ValueError, match="'genes:zz' is neither a view nor a column"):
        mk.MKLClassifier("rbf@genes:zz").fit(tables, y)
    with pytest.raises(TypeError, match="columns of views are chosen by name"):
        mk.MKLClassifier(mk.kernels.RBF(columns=lambda X: [0])).fit(tables, y)


def test_refusals_of_a_prediction(patients):
    tables, y = patients
    model = fit(tables, y)
    with pytest.raises(ValueError, match="views must be among those of fit, genes, cl"):
        model.predict({"protein": tables["genes"]})
    with pytest.raises(ValueError, match="must have the columns of fit, .* 'a'"):
        model.predict({"genes": tables["genes"].drop(columns="a")})
    with pytest.raises(ValueError, match="X must be views as in fit, some of genes"):
        model.predict(tables["genes"])
    with pytest.raises(ValueError, match="view 'genes' must have 5 columns as in fit"):
        model.predict({"genes": np.ones((2, 4))})
    plain = fit(tables["genes"], y)
    with pytest.raises(ValueError, match="X must be one table as in fit, got dict"):
        plain.predict(tables)


def test_unread_columns_need_not_be_numbers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 3)), columns=["m1", "m2", "x"])
    y = (frame["m1"] > 0).astype(int)
    plain = mk.MKLClassifier("rbf@m*", random_state=0).fit(frame, y)
    odd = frame.assign(x=[f"patient {i}" for i in range(30)], gap=np.nan)
    model = mk.MKLClassifier("rbf@m*", random_state=0).fit(odd, y)
    expected = plain.decision_function(frame)
    assert np.array_equal(model.decision_function(odd), expected)
    for table in (pl.from_pandas(odd), odd):
        other = mk.MKLClassifier("rbf@m*", random_state=0).fit(table, y)
        assert np.array_equal(other.decision_function(table), expected)
    array = frame.to_numpy(copy=True)
    array[3, 2] = np.nan
    kernels = mk.kernels.RBF(columns=[0, 1])
    by_place = mk.MKLClassifier(kernels, random_state=0).fit(array, y)
    assert np.array_equal(by_place.decision_function(array), expected)
    with pytest.raises(ValueError, match="got 'patient 0' in column 'x'"):
        mk.MKLClassifier("rbf", random_state=0).fit(odd, y)


def test_ranks_and_alignments_of_views(patients):
    tables, y = patients
    assert mk.rank_kernels(tables, y, "rbf")[0].name == "rbf@genes"
    assert mk.kernel_alignments(tables, "rbf").shape == (2, 2)


def test_columns_dates_and_names_of_several_levels(patients):
    tables, y = patients
    one = fit({"a": tables["genes"]["a"], "b": tables["clinic"]}, y)
    same = fit({"a": tables["genes"][["a"]], "b": tables["clinic"]}, y)
    views = mk.Views({"a": tables["genes"]["a"], "b": tables["clinic"]}, rows=NAMES)
    assert np.array_equal(one.decision_function(views), same.decision_function(views))
    dated = tables["genes"].assign(when=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="view 'a' must hold numbers .* column 'when'"):
        fit({"a": dated}, y)
    several = pd.MultiIndex.from_product([["clinic1", "clinic2"], range(30)])
    frames = {k: t.loc[NAMES].set_axis(several) for k, t in tables.items()}
    labels = y.set_axis(several)
    turned = fit(frames, labels.iloc[::-1], tol=1e-6)
    straight = fit(mk.Views(frames, rows=several), labels, tol=1e-6)
    views = mk.Views(frames, rows=several)
    np.testing.assert_allclose(
        turned.decision_function(views), straight.decision_function(views), atol=2e-3
    )
    missing = tables["genes"].astype("Float64")
    missing.loc["p3"] = pd.NA
    assert fit({"a": missing, "b": tables["clinic"]}, y).view_counts_["a"] == 59


def test_numbers_of_any_size_are_standardized(patients):
    tables, y = patients
    expected = fit(tables, y).decision_function(mk.Views(tables, rows=NAMES))
    huge = {"genes": tables["genes"] * 1e200, "clinic": tables["clinic"] * 1e-200}
    found = fit(huge, y).decision_function(mk.Views(huge, rows=NAMES))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_matrices_do_not_come_as_a_dict(patients):
    with pytest.raises(TypeError, match="got a dict; pass list"):
        mk.MKLClassifier("precomputed").fit({"a": np.eye(4)}, [0, 1, 0, 1])
