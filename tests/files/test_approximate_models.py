"""Files of models with explicit features: without rows, exact, and checked."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import manykernels as mk
from manykernels.files import ModelFileError, read_container, write_container
from manykernels.kernels import RBF, Custom, Laplacian, Linear, Polynomial
from manykernels.mkl.models.model import BlockModel, FeatureModel
from tests.files.forging import strange_values

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
NEW = X + np.random.default_rng(0).normal(scale=0.1, size=X.shape)
NYSTROEM = {"approximate": "nystroem:9"}
RANDOM = {"approximate": "random_features:10"}
OWN_NYSTROEM = {"approximate": "nystroem", "rank": 9}  # of a kernel by itself
OWN_RANDOM = {"approximate": "random_features", "rank": 10}


def cauchy(a, b):
    return 1.0 / (1.0 + np.square(a[:, None] - b[None]).sum(axis=2))


def fitted(kernels, data=X, **params):
    return mk.MKLClassifier(kernels, random_state=0, **params).fit(data, y)


CASES = {
    "nystroem": lambda: fitted([RBF(0.3), Laplacian()], **NYSTROEM),
    "random": lambda: fitted([RBF(0.3), Laplacian(), Polynomial(2)], **RANDOM),
    "centered": lambda: fitted([RBF(center=True), Polynomial(3)], **NYSTROEM),
    "trace": lambda: fitted([RBF(normalize="trace", **OWN_RANDOM), Linear()]),
    "float64": lambda: fitted(["rbf@0-1", "linear@2"], storage="float64", **NYSTROEM),
    "mixed": lambda: fitted(
        [RBF(0.3), RBF(0.3, **OWN_NYSTROEM), Polynomial(2, **OWN_RANDOM)]
    ),
    "linear": lambda: fitted("linear; cosine@0-1; constant"),
    "p one": lambda: fitted(["rbf@0", "rbf@1", "rbf@2"], p=1, C=10, **NYSTROEM),
    "custom": lambda: fitted([Custom(cauchy)], **NYSTROEM),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_answers_to_the_bit(name, tmp_path):
    model = CASES[name]()
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model", {"cauchy": cauchy})
    assert type(loaded._model) is (BlockModel if name == "mixed" else FeatureModel)
    for method in ("decision_function", "predict", "predict_proba"):
        before, after = getattr(model, method)(NEW), getattr(loaded, method)(NEW)
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(
        model.kernel_contributions(NEW), loaded.kernel_contributions(NEW)
    )
    assert loaded.get_params()["approximate"] == model.approximate
    loaded.save(tmp_path / "again")
    again = mk.load(tmp_path / "again", {"cauchy": cauchy})
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))


def test_sparse_rows(tmp_path):
    model = fitted(
        [RBF(0.3), Polynomial(2, **OWN_RANDOM)], sp.csr_matrix(X), **NYSTROEM
    )
    model.save(tmp_path / "model")
    loaded, new = mk.load(tmp_path / "model"), sp.csr_matrix(NEW)
    np.testing.assert_array_equal(
        loaded.decision_function(new), model.decision_function(new)
    )


def test_the_file_holds_no_training_rows(tmp_path):
    """Its size is that of the maps, however many rows were learned from."""
    sizes = []
    for n in (200, 800):
        rows = np.random.default_rng(0).normal(size=(n, 30))
        target = np.argmax(rows[:, :3], axis=1)
        model = mk.MKLClassifier("rbf", random_state=0, **NYSTROEM).fit(rows, target)
        assert len(model.support_) > 0.5 * n
        model.save(tmp_path / "model")
        sizes.append(os.path.getsize(tmp_path / "model"))
    labels = 600 * (3 + 4) * 8  # coefficients, support, labels and weights
    assert sizes[1] - sizes[0] < 1.2 * labels < 600 * 30 * 8


def test_a_loaded_model_is_fitted_again_but_does_not_learn_on(tmp_path):
    model = fitted("rbf", p=1.2, warm_start=True, **NYSTROEM)
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    with pytest.raises(ValueError, match="only to earlier ones that were kept"):
        loaded.partial_fit(NEW, y)
    assert loaded.fit(X, y).objective_ == pytest.approx(model.objective_, rel=1e-2)


def test_a_stream_keeps_its_rows_and_learns_on(tmp_path):
    one = mk.MKLClassifier("rbf; linear", p=1.2, random_state=0, **NYSTROEM)
    one.partial_fit(X, y, classes=np.unique(y))
    one.save(tmp_path / "model")
    two = mk.load(tmp_path / "model")
    for model in (one, two):
        model.partial_fit(NEW, y)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


# --- files that are not what they seem ---------------------------------------


@pytest.fixture(params=["nystroem", "random", "mixed"])
def saved(request, tmp_path):
    path = tmp_path / "model"
    CASES[request.param]().save(path)
    return path


def arrays_in(value, path=()):
    """Paths of everything that refers to an array."""
    if isinstance(value, dict) and set(value) == {"array"}:
        yield path
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, (dict, list)):
            yield from arrays_in(item, (*path, key))


def at(content, path):
    for key in path:
        content = content[key]
    return content


def load_or_refuse(path):
    """True if the file is refused; otherwise the model answers as a model does."""
    try:
        model = mk.load(path)
    except ModelFileError:
        return True
    assert type(model) is mk.MKLClassifier
    return False


def test_mutated_content_gives_clear_errors_or_a_model(saved):
    forged = strange_values(saved, 300, np.random.default_rng(0))
    assert sum(load_or_refuse(saved) for _ in forged) > 75


MAPS = ("whiten", "frequencies", "buckets", "signs", "blocks")


def map_arrays(content):
    """Paths and positions of the arrays that only explicit features have."""
    return [
        (path, at(content, path)["array"])
        for path in arrays_in(content)
        if set(MAPS) & set(map(str, path))
    ]


def test_every_array_of_a_map_is_checked_for_its_shape(saved):
    content, arrays = read_container(saved)
    found = map_arrays(content)
    assert found
    for path, position in found:
        for change in (lambda a: a[:-1], lambda a: a[..., None], lambda a: a[:0]):
            changed = list(arrays)
            changed[position] = np.ascontiguousarray(change(arrays[position]))
            write_container(saved, content, changed)
            with pytest.raises(ModelFileError, match="mixes up parts"):
                mk.load(saved)
        if arrays[position].dtype.kind == "f":
            changed = list(arrays)
            changed[position] = np.full_like(arrays[position], np.nan)
            write_container(saved, content, changed)
            with pytest.raises(ModelFileError, match="must hold finite numbers"):
                mk.load(saved)
        assert path


def test_buckets_and_signs_out_of_range_are_refused(tmp_path):
    path = tmp_path / "model"
    CASES["random"]().save(path)
    content, arrays = read_container(path)
    places = {str(p[-1]): i for p, i in map_arrays(content)}
    for name, bad in (("buckets", -1), ("buckets", 10), ("signs", 0.5)):
        changed = [array.copy() for array in arrays]
        changed[places[name]][0, 0] = bad
        write_container(path, content, changed)
        with pytest.raises(ModelFileError, match="(buckets|signs|columns)"):
            mk.load(path)


def test_maps_and_kernels_must_belong_together(tmp_path):
    path = tmp_path / "model"
    CASES["random"]().save(path)
    content, arrays = read_container(path)
    groups = content["fitted"]["_model"]["kernels"]["groups"]
    groups[0]["map"], groups[2]["map"] = groups[2]["map"], groups[0]["map"]
    write_container(path, content, arrays)
    with pytest.raises(ModelFileError, match="(buckets|signs|columns)"):
        mk.load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("n_columns", 10**15), ("n_columns", 1), ("columns", {"slice": [0, 3, None]})],
)
def test_columns_that_do_not_fit_cost_no_memory(tmp_path, field, value):
    path = tmp_path / "model"
    CASES["nystroem"]().save(path)
    content, arrays = read_container(path)
    kernels = content["fitted"]["_model"]["kernels"]
    if field == "columns":
        kernels["groups"][0]["source"]["columns"] = value
    else:
        kernels["n_columns"] = value
        for group in kernels["groups"]:
            group["source"]["columns"] = {"slice": [0, None, None]}
    write_container(path, content, arrays)
    with pytest.raises(ModelFileError, match="(buckets|signs|columns)"):
        mk.load(path)
