"""BlockModel: scores, parts and expansions against plain formulas."""

import pickle

import numpy as np
import pytest

from manykernels.banks import build_bank
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.models.model import BlockModel
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion

rng = np.random.default_rng(0)
X, X_NEW = rng.normal(size=(12, 3)), rng.normal(size=(5, 3))


@pytest.fixture(params=["float32", "float64"])
def kernels(request):
    specs = [Linear(), RBF(0.5), RBF(2.0, columns=[0])]
    return KernelSet.fit(specs, X, dtype=request.param)


@pytest.fixture
def expansion():
    coef = rng.normal(size=(12, 4))
    coef[::3] = 0.0
    return Expansion(coef, np.array([0.5, 0.0, 2.0]))


def test_scores_are_those_of_the_bank(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    assert len(model.coef) == 8 and model.weights.sum() == 1.0
    expected = build_bank(kernels).scores(expansion.coef, expansion.weights)
    np.testing.assert_allclose(model.scores(X), expected, atol=1e-5)


def test_scores_are_the_formula(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    ((_, values),) = kernels.cross(X_NEW)
    expected = np.einsum("f,fij,jk->ik", expansion.weights, values, expansion.coef)
    np.testing.assert_allclose(model.scores(X_NEW), expected, atol=1e-5)


def test_what_predictions_prepare_is_no_state(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    before = pickle.dumps(model)
    scores = model.scores(X_NEW)
    prepared = model.used_kernels
    assert prepared.dtype == np.float64
    assert sorted(f for group in prepared.groups for f in group.members) == [0, 2]
    assert model.used_kernels is prepared, "prepared again"
    assert pickle.dumps(model) == before
    again = pickle.loads(before)
    assert "used_kernels" not in vars(again)
    np.testing.assert_array_equal(again.scores(X_NEW), scores)


def test_parts_sum_to_the_scores(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    parts = model.block_scores(X_NEW)
    assert parts.shape == (5, 3, 4)
    np.testing.assert_allclose(parts.sum(axis=1), model.scores(X_NEW), atol=1e-12)
    assert not parts[:, 1].any()


def test_scores_are_double_whatever_the_storage(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    assert model.scores(X_NEW).dtype == model.block_scores(X_NEW).dtype == np.float64
    one_by_one = np.concatenate([model.scores(row[None]) for row in X_NEW])
    np.testing.assert_allclose(one_by_one, model.scores(X_NEW), atol=1e-13)
    assert model.kernels.dtype == kernels.dtype, "the stored precision has changed"


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0])
def test_expansion_is_the_same_model_with_a_solvers_weights(p, kernels, expansion):
    norm = LpGroupNorm(p)
    start = Expansion(expansion.coef, norm.normalize_weights(expansion.weights))
    model = BlockModel.from_expansion(kernels, start)
    back = model.expansion(norm)
    np.testing.assert_allclose(back.weights, start.weights)
    np.testing.assert_allclose(back.coef, start.coef[start.coef.any(axis=1)])


def test_no_rows_and_no_support(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    assert model.scores(X_NEW[:0]).shape == (0, 4)
    assert model.block_scores(X_NEW[:0]).shape == (0, 3, 4)
    empty = Expansion(np.zeros((12, 4)), np.ones(3))
    nothing = BlockModel.from_expansion(kernels, empty)
    np.testing.assert_array_equal(nothing.scores(X_NEW), np.zeros((5, 4)))


def test_pickle(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.scores(X_NEW), model.scores(X_NEW))


@pytest.mark.parametrize("block_bytes", [2**14, 2**26])
def test_many_kernels_are_evaluated_in_parts(block_bytes):
    columns = rng.integers(0, 3, (100, 2)).tolist()
    specs = [RBF(0.1 + 0.01 * f, columns=c) for f, c in enumerate(columns)]
    fitted = KernelSet.fit(specs, X, dtype="float64")
    weights = rng.uniform(size=100) * (rng.uniform(size=100) < 0.8)
    coef = rng.normal(size=(12, 2))
    model = BlockModel.from_expansion(fitted, Expansion(coef, weights))
    assert sum(len(chosen) for chosen, _ in model.used_parts) == (weights > 0).sum()
    assert len(model.used_parts) > 1
    expected = np.einsum("f,fij,jk->ik", weights, next(fitted.cross(X_NEW))[1], coef)
    np.testing.assert_allclose(model.scores(X_NEW, block_bytes), expected, atol=1e-12)
    one_by_one = np.concatenate([model.scores(row[None]) for row in X_NEW])
    np.testing.assert_allclose(one_by_one, expected, atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    assert "used_parts" not in vars(again)


def test_a_model_without_weights_on_any_part_scores_zero(kernels, expansion):
    model = BlockModel.from_expansion(kernels, expansion)
    nothing = BlockModel(model.kernels, model.coef, np.zeros(3))
    np.testing.assert_array_equal(nothing.scores(X_NEW), np.zeros((5, 4)))
