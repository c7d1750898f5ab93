"""FeatureModel: the same model as its expansion, without a row."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.kernels import RBF, Constant, Cosine, Linear, Polynomial
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.models import model as model_module
from manykernels.mkl.models.model import BlockModel, FeatureModel, fitted_model
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion

rng = np.random.default_rng(0)
X, NEW = rng.normal(size=(14, 3)), rng.normal(size=(5, 3))
COEF = rng.normal(size=(14, 4))
COEF[::3] = 0.0
SETS = {
    "exact": [Linear(), Cosine(center=True), Constant()],
    "nystroem": [RBF(0.3, approximate="nystroem", rank=5), Linear(normalize="trace")],
    "random": [
        RBF(0.3, approximate="random_features", rank=6),
        Polynomial(2, approximate="random_features", rank=6, center=True),
    ],
}


@pytest.fixture(params=SETS)
def pair(request):
    """A model as an expansion over rows, and as blocks of coefficients."""
    specs = SETS[request.param]
    kernels = KernelSet.fit(specs, X, dtype=np.float64, random_state=0)
    weights = np.arange(1.0, len(specs) + 1.0)
    rows = BlockModel.from_expansion(kernels, Expansion(COEF, weights))
    return rows, FeatureModel.from_rows(rows)


def test_scores_and_parts_are_those_of_the_expansion(pair):
    rows, features = pair
    parts = features.block_scores(NEW)
    np.testing.assert_allclose(parts, rows.block_scores(NEW), atol=1e-11)
    np.testing.assert_allclose(features.scores(NEW), rows.scores(NEW), atol=1e-11)
    one_by_one = np.concatenate([features.scores(row[None]) for row in NEW])
    np.testing.assert_allclose(one_by_one, features.scores(NEW), atol=1e-13)
    assert features.scores(NEW[:0]).shape == (0, 4)


def test_no_row_is_kept(pair):
    rows, features = pair
    assert all(len(group.rows) == 0 for group in features.kernels.groups)
    np.testing.assert_array_equal(features.kernels.support, rows.kernels.support)
    columns = features.kernels.n_feature_columns()
    assert [block.shape for block in features.blocks] == [(n, 4) for n in columns]


def test_the_expansion_is_still_known(pair):
    rows, features = pair
    norm = LpGroupNorm(1.3)
    np.testing.assert_array_equal(
        features.expansion(norm).coef, rows.expansion(norm).coef
    )


def test_sums_in_parts(pair, monkeypatch):
    rows, features = pair
    monkeypatch.setattr(model_module, "FEATURE_SUM_ROWS", 2)
    again = FeatureModel.from_rows(rows)
    for got, expected in zip(again.blocks, features.blocks, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-12)


def test_pickle(pair):
    _, features = pair
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.scores(NEW), features.scores(NEW))


def test_kernels_without_weight_are_not_evaluated():
    kernels = KernelSet.fit(SETS["nystroem"], X, random_state=0)
    model = BlockModel.from_expansion(kernels, Expansion(COEF, np.array([0.0, 2.0])))
    features = FeatureModel.from_rows(model)
    assert not features.blocks[0].any()
    assert not features.block_scores(NEW)[:, 0].any()
    np.testing.assert_allclose(features.scores(NEW), model.scores(NEW), atol=1e-6)


def test_sparse_rows():
    rows = sp.csr_matrix(np.where(X > 0.0, X, 0.0))
    kernels = KernelSet.fit([Linear(), Cosine()], rows, dtype=np.float64)
    model = BlockModel.from_expansion(kernels, Expansion(COEF, np.ones(2)))
    features = fitted_model(kernels, Expansion(COEF, np.ones(2)))
    assert isinstance(features, FeatureModel)
    np.testing.assert_allclose(features.scores(rows), model.scores(rows), atol=1e-12)


def test_rows_stay_where_a_kernel_needs_them():
    kernels = KernelSet.fit([Linear(), RBF(0.3)], X)
    model = fitted_model(kernels, Expansion(COEF, np.ones(2)))
    assert isinstance(model, BlockModel)


def test_no_support():
    kernels = KernelSet.fit([Linear()], X)
    nothing = fitted_model(kernels, Expansion(0 * COEF, np.ones(1)))
    assert isinstance(nothing, FeatureModel)
    np.testing.assert_array_equal(nothing.scores(NEW), np.zeros((5, 4)))
