"""Rows that lack a view: what the kernels see, and what is certified."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

import manykernels as mk
from manykernels.inputs.view_table import JoinedTable
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet

STRATEGIES = ("rescale", "zero", "complete")


@pytest.fixture
def samples():
    """Three views; the label shows in the first two, and rows lack views."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    tables = [rng.normal(size=(90, d)) for d in (4, 6, 3)]
    tables[0][:, 0] += 3 * y
    tables[1][:, :2] -= 3 * y[:, None]
    views = dict(zip("abc", tables, strict=True))
    views["b"][rng.random(90) < 0.3] = np.nan
    views["c"][rng.random(90) < 0.5] = np.nan
    return views, y


def joined(rescale=False):
    rng = np.random.default_rng(1)
    tables = [rng.normal(size=(20, 3)), rng.gamma(1.0, size=(20, 4))]
    here = rng.random(20) < 0.6
    stretch = np.where(here, 1.0, np.sqrt(2.0)) if rescale else None
    return JoinedTable(tables, ["a", "b"], [None, here], stretch), here


@pytest.mark.parametrize("dtype, atol", [(np.float64, 1e-12), (np.float32, 2e-5)])
@pytest.mark.parametrize(
    "kernel",
    [
        "rbf:gamma=median",
        "linear",
        "linear:normalize=none",
        "linear:normalize=trace",
        "polynomial:degree=2",
        "rbf:center=true",
        "linear:center=true",
        "chi_squared",
        "laplacian",
        "rbf:approximate=nystroem,rank=20",
        "linear:center=true,normalize=trace",
    ],
)
@pytest.mark.parametrize("rescale", [False, True])
def test_kernels_do_not_see_rows_that_are_not_there(kernel, dtype, atol, rescale):
    """Among the rows that have the view the kernel is that of these rows alone."""
    table, here = joined(rescale)
    fitted = KernelSet.fit(as_kernels(f"{kernel}@3-6"), table, dtype=dtype)
    alone = KernelSet.fit(as_kernels(kernel), table.tables[1][here], dtype=dtype)
    stack = fitted.stack()[0]
    assert not stack[~here].any() and not stack[:, ~here].any()
    among = stack[np.ix_(here, here)]
    np.testing.assert_allclose(among, alone.stack()[0], atol=atol)
    assert np.linalg.eigvalsh(stack.astype(float))[0] > -1e-4
    np.testing.assert_allclose(fitted.diagonals()[0], np.diagonal(stack), atol=atol)
    new, seen = (
        JoinedTable(
            [t[:8] for t in table.tables], ["a", "b"], [None, np.arange(8) % 2 == 0]
        ),
        np.arange(8) % 2 == 0,
    )
    (_, cross), *_ = fitted.cross(new)
    (_, expected), *_ = alone.cross(table.tables[1][:8])
    assert not cross[0][~seen].any() and not cross[0][:, ~here].any()
    found = cross[0][np.ix_(seen, here)]
    np.testing.assert_allclose(found, expected[0][seen], atol=atol)
    own = fitted.cross_diagonals(new)[0]
    alone_own = alone.cross_diagonals(table.tables[1][:8])[0]
    np.testing.assert_allclose(own, np.where(seen, alone_own, 0.0), atol=atol)


def test_rescaled_rows_in_every_way_to_the_same_values():
    table, here = joined(rescale=True)
    kernels = as_kernels("rbf@0-2; linear@3-6; constant")
    fitted = KernelSet.fit(kernels, table, dtype=np.float64)
    s = table.stretch
    plain = rbf_kernel(table.tables[0], gamma=fitted.kernels[0].gamma)
    np.testing.assert_allclose(fitted.stack()[0], plain * np.outer(s, s), atol=1e-12)
    assert np.array_equal(fitted.stack()[2], np.ones((20, 20)))
    weights = np.array([0.2, 0.5, 0.3])
    rows = np.array([3, 7, 7, 0])
    tile = fitted.combined_tile(weights, rows, slice(0, 20))
    expected = np.einsum("f,fij->ij", weights, fitted.stack()[:, rows])
    np.testing.assert_allclose(tile, expected, atol=1e-12)
    features = KernelSet.fit(as_kernels("linear@3-6"), table, dtype=np.float64)
    (phi,) = features.features()
    np.testing.assert_allclose(phi @ phi.T, features.stack()[0], atol=1e-12)
    (new,) = features.new_features(table)
    np.testing.assert_allclose(new, phi, atol=1e-12)
    grown = fitted.take(np.arange(12)).extend(table[12:])
    np.testing.assert_allclose(grown.stack(), fitted.stack(), atol=1e-12)


@pytest.mark.parametrize("missing", STRATEGIES)
@pytest.mark.parametrize("storage", ["gram", "on_demand", "memmap"])
def test_storages_agree_and_certify(samples, missing, storage):
    views, y = samples
    model = mk.MKLClassifier(
        "rbf", missing=missing, storage=storage, tol=1e-4, random_state=0
    ).fit(views, y)
    assert 0 <= model.duality_gap_ <= 1e-4 * model.objective_
    stored = mk.MKLClassifier("rbf", missing=missing, tol=1e-4, random_state=0)
    expected = stored.fit(views, y).objective_
    assert model.objective_ == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("missing", STRATEGIES)
def test_a_model_with_missing_views_is_saved_whole(samples, missing, tmp_path):
    views, y = samples
    model = mk.MKLClassifier("rbf", missing=missing, random_state=0).fit(views, y)
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    for some in (views, {"b": views["b"][:5], "a": views["a"][:5]}, {"a": views["a"]}):
        scores = model.decision_function(some)
        assert np.array_equal(loaded.decision_function(some), scores)
    assert loaded.view_counts_ == model.view_counts_
    counts = {k: int((~np.isnan(v[:, 0])).sum()) for k, v in views.items()}
    assert model.view_counts_ == counts == model.summary()["rows_by_view"]


@pytest.mark.parametrize("missing", STRATEGIES)
def test_any_subset_of_views_predicts(samples, missing):
    views, y = samples
    model = mk.MKLClassifier("rbf", missing=missing, C=10, random_state=0)
    model.fit(views, y)
    assert model.score({"a": views["a"]}, y) > 0.75
    gone = {**views, "b": np.full_like(views["b"], np.nan)}
    left_out = {"a": views["a"], "c": views["c"]}
    scores = model.decision_function(left_out)
    assert np.array_equal(model.decision_function(gone), scores)
    parts = model.kernel_contributions({"a": views["a"]})
    if missing != "complete":
        assert not parts[:, 1:].any() and parts[:, 0].any()


@pytest.mark.parametrize("missing", ["rescale", "zero"])
def test_a_row_is_scored_alike_in_any_company(samples, missing):
    views, y = samples
    model = mk.MKLClassifier("rbf", missing=missing, random_state=0).fit(views, y)
    together = model.decision_function(views)
    for row in (0, 5, 17):
        alone = model.decision_function({k: v[[row]] for k, v in views.items()})
        np.testing.assert_allclose(alone[0], together[row], rtol=0, atol=1e-12)


def test_without_missing_views_all_ways_are_one():
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(40, 3)), "b": rng.normal(size=(40, 2))}
    y = (views["a"][:, 0] > 0).astype(int)
    scores = [
        mk.MKLClassifier("rbf", missing=missing, random_state=0)
        .fit(views, y)
        .decision_function(views)
        for missing in ("rescale", "zero", "complete", "refuse")
    ]
    assert all(np.array_equal(one, scores[0]) for one in scores)


def test_nothing_left_warns_and_scores_zero(samples):
    views, y = samples
    model = mk.MKLClassifier("rbf", random_state=0).fit(views, y)
    nothing = {"a": np.full((2, 4), np.nan)}
    with pytest.warns(UserWarning, match="Row 0 lacks every view, and 2 such in all"):
        assert not model.decision_function(nothing).any()


def test_refusals(samples):
    views, y = samples
    model = mk.MKLClassifier("rbf", random_state=0)
    with pytest.raises(ValueError, match="missing='refuse' needs all .* lack 'b'"):
        model.set_params(missing="refuse").fit(views, y)
    with pytest.raises(ValueError, match="missing must be 'rescale', 'zero', 'complet"):
        model.set_params(missing="drop").fit(views, y)
    model.set_params(missing="rescale")
    empty = {k: v.copy() for k, v in views.items()}
    for table in empty.values():
        table[3] = np.nan
    with pytest.raises(
        ValueError, match="every training row must have some view, .* 3"
    ):
        model.fit(empty, y)
    with pytest.raises(
        ValueError, match="view 'b' must be there for some training row"
    ):
        model.fit({"a": views["a"], "b": np.full((90, 2), np.nan)}, y)


def test_completion_takes_the_nearest_rows_of_other_views():
    """Two clusters: a row that lacks a view gets the values of its own cluster."""
    rng = np.random.default_rng(0)
    cluster = np.arange(60) % 2
    first = 10.0 * cluster[:, None] + rng.normal(size=(60, 2))
    second = 100.0 * cluster[:, None] + rng.normal(size=(60, 3))
    second[:10] = np.nan
    model = mk.MKLClassifier("rbf", missing="complete", scale="none", random_state=0)
    model.fit({"a": first, "b": second}, cluster)
    table = model._read_new({"a": first, "b": second})
    expected = 100.0 * cluster[:10, None]
    assert table.present == [None, None]
    np.testing.assert_allclose(table.tables[1][:10] - expected, 0.0, atol=2.0)


def test_completion_of_sparse_views(samples):
    views, y = samples
    frame = pd.DataFrame(np.abs(views["a"]).round(), index=[f"p{i}" for i in range(90)])
    other = frame.iloc[10:].copy()
    data = {"a": frame, "b": other}
    same = {"missing": "complete", "scale": "none", "tol": 1e-6, "random_state": 0}
    dense = mk.MKLClassifier("rbf", **same)
    expected = dense.fit(data, y).decision_function(data)

    class Sparse:
        def __init__(self, frame):
            self.X = sp.csr_matrix(frame.to_numpy())
            self.obs_names, self.var_names = frame.index, frame.columns
            self.layers, self.obs = {}, None

    class Both:
        mod = {"a": Sparse(frame), "b": Sparse(other)}
        obs = pd.DataFrame(index=frame.index)
        obs_names = frame.index

    sparse = mk.MKLClassifier("rbf", **same)
    found = sparse.fit(Both(), y).decision_function(Both())
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("missing", STRATEGIES)
def test_regression_and_streams(samples, missing):
    views, y = samples
    model = mk.MKLRegressor("rbf", C=10, missing=missing, random_state=0)
    assert model.fit(views, y.astype(float)).score(views, y) > 0.8
    stream = mk.MKLClassifier("rbf", C=10, missing=missing, random_state=0)
    half = {k: v[:45] for k, v in views.items()}
    rest = {k: v[45:] for k, v in views.items()}
    stream.partial_fit(half, y[:45], classes=[0, 1, 2]).partial_fit(rest, y[45:])
    assert stream.score(views, y) > 0.75


def test_a_weight_of_zero_is_a_row_that_is_not_there(samples):
    views, y = samples
    weight = np.ones(90)
    weight[80:] = 0.0
    for missing in STRATEGIES:
        model = mk.MKLClassifier("rbf", missing=missing, random_state=0)
        found = model.fit(views, y, weight).decision_function(views)
        short = {k: v[:80] for k, v in views.items()}
        expected = model.fit(short, y[:80]).decision_function(views)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_views_that_no_kernel_reads_are_not_missed(samples):
    views, y = samples
    some = {"a": views["a"], "b": views["b"]}
    kernels = ["rbf@a", "rbf@b"]
    expected = mk.MKLClassifier(kernels, random_state=0).fit(some, y)
    more = {**views, "d": np.full((90, 1), np.nan)}
    model = mk.MKLClassifier(kernels, random_state=0).fit(more, y)
    scores = expected.decision_function(some)
    assert np.array_equal(model.decision_function(more), scores)
    constant = mk.MKLClassifier("constant", random_state=0).fit(views, y)
    assert constant.kernel_names_ == ["constant"]


@pytest.mark.parametrize("missing", ["rescale", "zero"])
def test_the_problem_is_that_of_kernels_with_zeros(samples, missing):
    """Built by hand and given as matrices: the same optimum, the same scores."""
    views, y = samples
    model = mk.MKLClassifier("rbf:gamma=0.1", missing=missing, tol=1e-6, random_state=0)
    model.fit(views, y)
    here = {k: ~np.isnan(v).any(axis=1) for k, v in views.items()}
    share = np.mean(list(here.values()), axis=0)
    stretch = 1.0 / np.sqrt(share) if missing == "rescale" else np.ones(90)
    matrices = []
    for name, table in views.items():
        seen = here[name]
        mean, std = table[seen].mean(axis=0), table[seen].std(axis=0)
        values = np.where(seen[:, None], (table - mean) / std, 0.0)
        factor = seen * stretch
        matrices.append(rbf_kernel(values, gamma=0.1) * np.outer(factor, factor))
    specs = [mk.kernels.Precomputed(normalize=None)]
    given = mk.MKLClassifier(specs, tol=1e-6, storage="float64", random_state=0)
    given.fit(matrices, y)
    assert model.objective_ == pytest.approx(given.objective_, rel=1e-5)
    np.testing.assert_allclose(
        model.decision_function(views), given.decision_function(matrices), atol=2e-3
    )
