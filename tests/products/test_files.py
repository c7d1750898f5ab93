"""Saved models over products: equal to the bit, and checked."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import manykernels as mk
from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.files import ModelFileError, read_container, write_container
from manykernels.kernels import RBF, Linear
from manykernels.products import RandomizedMirrorDescent
from tests.files.forging import strange_values

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(60, 4))
NEW = RNG.uniform(-1, 1, size=(20, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2]
THREE = np.digitize(Y, [-0.3, 0.3])
STACK = np.stack([rbf_kernel(X[:, [j]]) for j in range(3)], axis=-1)
NEW_STACK = np.stack([rbf_kernel(NEW[:, [j]], X[:, [j]]) for j in range(3)], axis=-1)
FRAME = pd.DataFrame(X, columns=list("abcd"))


def regressor(data=X, **options):
    options = {"degree": 2, "random_state": 0, **options}
    return PolynomialMKLRegressor(**options).fit(data, Y)


def classifier(target, data=X, **options):
    return PolynomialMKLClassifier(degree=2, **options).fit(data, target)


CASES = {
    "columns": (lambda: regressor(), NEW),
    "frame": (lambda: regressor(FRAME), pd.DataFrame(NEW, columns=list("abcd"))),
    "fixed C": (lambda: regressor(C=1.0, degree_weights=(1, 1, 2)), NEW),
    "mirror descent": (
        lambda: regressor(p=4 / 3, C=5.0, solver=RandomizedMirrorDescent(50)),
        NEW,
    ),
    "blend": (lambda: regressor(p="blend"), NEW),
    "gaussian": (
        lambda: regressor(base_kernels=[RBF(1.0, columns=0), "rbf@1", "linear"], C=5.0),
        NEW,
    ),
    "single features": (
        lambda: regressor(base_kernels=[Linear(columns=j) for j in (0, 1)], C=5.0),
        NEW,
    ),
    "precomputed": (
        lambda: regressor(STACK, base_kernels="precomputed", C=5.0),
        NEW_STACK,
    ),
    "nothing found": (
        lambda: PolynomialMKLRegressor().fit(X, np.full(60, 2.0)),
        NEW,
    ),
    "two classes": (lambda: classifier(np.where(Y > 0, "yes", "no")), NEW),
    "object labels": (
        lambda: classifier(np.array(["a", "b"], object)[(Y > 0).astype(int)]),
        NEW,
    ),
    "three classes": (lambda: classifier(THREE), NEW),
    "hinge": (lambda: classifier(THREE, loss="smoothed_hinge", C=1.0), NEW),
    "gaussian classes": (
        lambda: classifier(THREE, base_kernels="rbf; rbf@0", C=1.0),
        NEW,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_answers_to_the_bit(name, tmp_path):
    make, new = CASES[name]
    model = make()
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    assert type(loaded) is type(model)
    for method in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, method):
            before, after = getattr(model, method)(new), getattr(loaded, method)(new)
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)
    pd.testing.assert_frame_equal(
        pd.DataFrame(model.interactions_), pd.DataFrame(loaded.interactions_)
    )
    for attribute in ("kernel_names_", "history_", "objective_", "duality_gap_"):
        assert getattr(model, attribute) == getattr(loaded, attribute)
    np.testing.assert_array_equal(model.C_, loaded.C_)
    assert getattr(model, "blend_", None) == getattr(loaded, "blend_", None)
    np.testing.assert_array_equal(model.kernel_weights_, loaded.kernel_weights_)
    assert loaded.explain() == model.explain()
    for key, value in model.get_params().items():
        if key not in ("base_kernels", "degree_weights", "solver"):
            assert loaded.get_params()[key] == value
    loaded.save(tmp_path / "again")


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    model = regressor(
        degree_weights=[1, 1, 2], base_kernels=[RBF(1.0), "linear"], C=1.0
    )
    model.save(tmp_path / "model")
    again = clone(mk.load(tmp_path / "model")).fit(X, Y)
    np.testing.assert_allclose(again.predict(NEW), model.predict(NEW))


def changed(path, change):
    content, arrays = read_container(path)
    change(content, arrays)
    write_container(path, content, arrays)


def _array(content, arrays, name):
    return arrays[content["fitted"]["_model"][name]["array"]]


def far_product(content, arrays):
    _array(content, arrays, "products")[0, 0] = 99


def wrong_coef(content, arrays):
    _array(content, arrays, "coef")[0] = np.nan


def gap_in_product(content, arrays):
    _array(content, arrays, "products")[0] = [-1, 0]


def missing_names(content, arrays):
    content["fitted"]["kernel_names_"] = []


def other_outputs(content, arrays):
    place = content["fitted"]["_model"]["intercept"]["array"]
    arrays[place] = np.zeros(2)


def other_model(content, arrays):
    content["fitted"]["_model"] = {"array": 0}


def short_table(content, arrays):
    content["fitted"]["interactions_"]["interaction"] = []


def lost_table(content, arrays):
    del content["fitted"]["interactions_"]["weight"]


def other_kind(content, arrays):
    content["estimator"] = "PolynomialMKLClassifier"


@pytest.mark.parametrize(
    "change",
    [
        far_product,
        wrong_coef,
        gap_in_product,
        missing_names,
        other_outputs,
        other_model,
        short_table,
        lost_table,
        other_kind,
    ],
    ids=lambda change: change.__name__,
)
def test_content_is_checked(change, tmp_path):
    regressor().save(tmp_path / "model")
    changed(tmp_path / "model", change)
    with pytest.raises(ModelFileError, match="copy the original again"):
        mk.load(tmp_path / "model")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    "name", ["frame", "gaussian classes", "three classes", "blend"]
)
def test_mutated_content_gives_clear_errors_or_a_model(name, tmp_path):
    make, new = CASES[name]
    path = tmp_path / "model"
    make().save(path)
    refused = 0
    for _ in strange_values(path, 150, np.random.default_rng(0)):
        try:
            loaded = mk.load(path)
        except ModelFileError:
            refused += 1
            continue
        # A name may have changed, which only a table without names does not notice.
        assert loaded.predict(np.asarray(new)).shape == (20,)
        assert loaded.explain() is not None
    assert refused > 30


def test_the_file_is_plain_data(tmp_path):
    regressor(callback=lambda line: None).save(tmp_path / "model")
    opening, length, rest = (tmp_path / "model").read_bytes().split(b"\n", 2)
    document = json.loads(rest[: int(length, 16)])
    assert opening == b"manykernels 3"
    assert document["content"]["estimator"] == "PolynomialMKLRegressor"
    assert mk.load(tmp_path / "model").callback is None
