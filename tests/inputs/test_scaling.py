"""Scaling inside the model: the numbers of scikit-learn's, saved as data."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

import manykernels as mk
from manykernels.inputs.scaling import (
    ForeignStep,
    apply_steps,
    fit_steps,
    read_scale,
)

RNG = np.random.default_rng(0)
TABLE = RNG.gamma(2.0, size=(40, 6)) * 10.0 ** np.arange(6)
COUNTS = sp.csr_array(RNG.poisson(0.3, size=(40, 30)).astype(float))
ONES = np.ones(40)


def scaled(scale, table, copies=ONES):
    steps, found = fit_steps(read_scale(scale), table, copies)
    again = apply_steps(steps, table)
    assert abs(found - again).max() == 0.0
    return found


@pytest.mark.parametrize(
    "word, transformer",
    [
        ("standard", StandardScaler()),
        ("minmax", MinMaxScaler()),
        ("unit", Normalizer()),
        ("log1p", FunctionTransformer(np.log1p)),
        (
            "log1p+standard",
            make_pipeline(FunctionTransformer(np.log1p), StandardScaler()),
        ),
    ],
)
def test_words_mean_what_scikit_learn_does(word, transformer):
    np.testing.assert_allclose(scaled(word, TABLE), transformer.fit_transform(TABLE))


def test_tfidf_is_that_of_scikit_learn():
    expected = TfidfTransformer().fit_transform(COUNTS)
    assert abs(scaled("tfidf", COUNTS) - expected).max() < 1e-12


def test_impute_fills_with_the_mean_of_what_is_known():
    table = TABLE.copy()
    table[3, 1] = table[5, 1] = np.nan
    expected = SimpleImputer().fit_transform(table)
    np.testing.assert_allclose(scaled("impute", table), expected)


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        RobustScaler(),
        RobustScaler(with_centering=False),
        MinMaxScaler((-1, 3)),
        MaxAbsScaler(),
        Normalizer(),
        SimpleImputer(strategy="median"),
        FunctionTransformer(np.log1p),
        make_pipeline(SimpleImputer(), StandardScaler()),
        make_pipeline("passthrough", MinMaxScaler()),
    ],
    ids=str,
)
def test_known_transformers_become_plain_numbers(transformer):
    steps, _ = fit_steps(transformer, TABLE, ONES)
    assert not any(isinstance(step, ForeignStep) for step in steps)
    expected = transformer.fit(TABLE).transform(TABLE)
    np.testing.assert_allclose(apply_steps(steps, TABLE), expected, atol=1e-12)


@pytest.mark.parametrize("word", ["standard", "robust", "minmax", "impute", "tfidf"])
def test_a_weight_of_two_is_two_copies(word):
    copies = np.ones(40)
    copies[:7] = 2.0
    twice = np.vstack([TABLE, TABLE[:7]])
    expected = apply_steps(fit_steps(read_scale(word), twice, np.ones(47))[0], TABLE)
    np.testing.assert_allclose(scaled(word, TABLE, copies), expected)


def test_rows_without_weight_are_not_looked_at():
    table, copies = TABLE.copy(), ONES.copy()
    table[0], copies[0] = 1e9, 0.0
    expected = apply_steps(fit_steps(["standard"], TABLE[1:], ONES[1:])[0], table)
    np.testing.assert_allclose(scaled("standard", table, copies), expected)


@pytest.mark.parametrize("word", ["standard", "robust", "minmax"])
def test_constant_columns_are_left_out(word, caplog):
    table = np.column_stack([TABLE, np.full(40, 0.1)])
    out = scaled(word, table)
    assert not out[:, -1].any() and out[:, :-1].any(axis=0).all()
    y = TABLE[:, 0] > np.median(TABLE[:, 0])
    with caplog.at_level("INFO", logger="manykernels"):
        mk.MKLClassifier("rbf", scale=word).fit({"a": table}, y)
    assert "view 'a': 1 constant or unread columns ignored" in caplog.text


def test_auto_standardizes_dense_views_and_leaves_one_table_alone():
    y = TABLE[:, 0] > np.median(TABLE[:, 0])
    views = {"a": TABLE}
    auto = mk.MKLClassifier("rbf", random_state=0).fit(views, y)
    other = mk.MKLClassifier("rbf", random_state=0).fit(
        StandardScaler().fit_transform(TABLE), y
    )
    scores = other.decision_function(StandardScaler().fit(TABLE).transform(TABLE))
    np.testing.assert_allclose(auto.decision_function(views), scores, atol=1e-6)
    plain = mk.MKLClassifier("rbf", random_state=0).fit(TABLE, y)
    none = mk.MKLClassifier("rbf", scale="none", random_state=0).fit(TABLE, y)
    assert np.array_equal(plain.decision_function(TABLE), none.decision_function(TABLE))


def test_auto_takes_logarithms_of_sparse_counts():
    assert abs(scaled("auto", COUNTS) - scaled("log1p+unit", COUNTS)).max() == 0.0
    shifted = COUNTS.copy()
    shifted.data[0] = -1.0
    assert abs(scaled("auto", shifted) - scaled("unit", shifted)).max() == 0.0


@pytest.mark.parametrize(
    "scale", ["standard", "robust", StandardScaler(), "log1p+unit"]
)
@pytest.mark.parametrize("kind", ["table", "views", "features"])
def test_a_saved_model_brings_its_scaling_along(tmp_path, scale, kind):
    y = (TABLE[:, 0] > np.median(TABLE[:, 0])).astype(int)
    X = TABLE if kind == "table" else {"a": TABLE[:, :3], "b": TABLE[:, 3:]}
    kernels = "linear" if kind == "features" else "rbf"
    model = mk.MKLClassifier(kernels, scale=scale, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.score(X, y) == model.score(X, y) > 0.6


def test_the_scaler_is_not_lost_by_saving(tmp_path):
    """Scaling in a pipeline stays behind; scaling in the model does not."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 4)) * [1.0, 1.0, 1000.0, 1000.0]
    y = (X[:, 0] > 0).astype(int)
    pipeline = make_pipeline(StandardScaler(), mk.MKLClassifier("rbf", random_state=0))
    model = mk.MKLClassifier("rbf", scale="standard", random_state=0).fit(X, y)
    expected = pipeline.fit(X, y).predict(X)
    model.save(tmp_path / "model")
    assert np.array_equal(mk.load(tmp_path / "model").predict(X), expected)


def test_foreign_transformers_work_and_cannot_be_saved(tmp_path):
    y = TABLE[:, 0] > np.median(TABLE[:, 0])
    model = mk.MKLClassifier("rbf", scale={"a": PowerTransformer()}, random_state=0)
    model.fit({"a": TABLE}, y)
    assert model.score({"a": TABLE}, y) > 0.8
    with pytest.raises(TypeError, match="saved as data, got PowerTransformer for view"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(ValueError, match="view 'a': scale must keep the columns"):
        mk.MKLClassifier("rbf", scale=PCA(2)).fit({"a": TABLE}, y)


@pytest.mark.parametrize(
    "scale, table, message",
    [
        ("standart", TABLE, "scale must be 'auto', some of 'none'"),
        (StandardScaler, TABLE, "scale must be 'auto'"),
        (3, TABLE, "scale must be 'auto'"),
        ({"b": "none"}, {"a": TABLE}, "scale must name views, which are a, got 'b'"),
        ({"a": "none"}, TABLE, "scale by view needs X with several views"),
        ("log1p", {"a": TABLE - 100.0}, "view 'a': scale='log1p' needs values that"),
        ("tfidf", {"a": TABLE - 100.0}, "view 'a': scale='tfidf' needs counts"),
        ("robust", {"a": COUNTS}, "view 'a': scale='robust' needs a dense table"),
    ],
    ids=str,
)
def test_refusals(scale, table, message):
    y = TABLE[:, 0] > np.median(TABLE[:, 0])
    with pytest.raises((TypeError, ValueError), match=message):
        mk.MKLClassifier("rbf", scale=scale).fit(table, y)


def test_matrices_are_not_scaled():
    with pytest.raises(ValueError, match="scale is for tables, got given kernel matr"):
        mk.MKLClassifier("precomputed", scale="standard").fit(np.eye(4), [0, 1, 0, 1])


def test_streams_keep_the_scaling_of_their_first_rows():
    y = (TABLE[:, 0] > np.median(TABLE[:, 0])).astype(int)
    model = mk.MKLClassifier("rbf", scale="standard", random_state=0)
    model.partial_fit(TABLE[:20], y[:20], classes=[0, 1])
    center = model._preparation.steps[0][0].center
    model.partial_fit(TABLE[20:], y[20:])
    assert np.array_equal(model._preparation.steps[0][0].center, center)
    np.testing.assert_allclose(center, TABLE[:20].mean(axis=0))
    assert model.score(TABLE, y) > 0.7


def test_overflow_is_not_taken_for_missing_numbers():
    y = TABLE[:, 0] > np.median(TABLE[:, 0])
    tiny = {"a": TABLE * 1e-300}
    model = mk.MKLClassifier("rbf", random_state=0).fit(tiny, y)
    huge = {"a": TABLE * 1e100}
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="an overflow in"):
        model.predict(huge)


def test_a_table_is_scaled_once_in_a_fit_and_once_in_a_prediction():
    sizes = []

    class Counting(StandardScaler):
        def transform(self, X):
            sizes.append(len(X))
            return super().transform(X)

    y = TABLE[:, 0] > np.median(TABLE[:, 0])
    for X in (TABLE, {"a": TABLE}):
        sizes.clear()
        model = mk.MKLClassifier("linear", scale=Counting(), random_state=0).fit(X, y)
        assert sizes == [len(y)]
        model.predict(X)
        assert sizes == [len(y), len(y)]
