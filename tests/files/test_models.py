"""Models that can be mailed to a stranger: whole, exact, and only data."""

import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import manykernels as mk
from manykernels.files import ModelFileError, read_container, write_container
from manykernels.files import container as container_module
from manykernels.kernels import RBF, BSpline, Custom, Distance, Linear, Polynomial
from tests.files.forging import strange_values

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
NEW = X + np.random.default_rng(0).normal(scale=0.1, size=X.shape)
FRAME = pd.DataFrame(X, columns=["a1", "a2", "b1", "b2"])
STACK = np.stack([rbf_kernel(X), laplacian_kernel(X)], axis=-1)
NEW_STACK = np.stack([rbf_kernel(NEW, X), laplacian_kernel(NEW, X)], axis=-1)


def fitted(kernels=None, data=X, target=y, **params):
    return mk.MKLClassifier(kernels, random_state=0, **params).fit(data, target)


CASES = {
    "default": (lambda: fitted(), NEW),
    "text": (lambda: fitted("linear; rbf:gamma=0.5@0-1"), NEW),
    "objects": (lambda: fitted([RBF(0.3, columns=[0, 2]), Polynomial(2)]), NEW),
    "centered": (lambda: fitted([Linear(center=True), RBF(center=True)]), NEW),
    "trace": (lambda: fitted([RBF(normalize="trace"), Linear(normalize=None)]), NEW),
    "sparse": (lambda: fitted(["linear", "rbf"], sp.csr_matrix(X)), sp.csr_matrix(NEW)),
    "spline": (lambda: fitted([BSpline(columns=0), BSpline(columns=2)]), NEW),
    "precomputed": (lambda: fitted("precomputed", STACK), NEW_STACK),
    "distances": (lambda: fitted([Distance()], 1 - STACK), 1 - NEW_STACK),
    "clipped": (
        lambda: fitted("precomputed", STACK - 0.3 * np.eye(50)[..., None], psd="clip"),
        NEW_STACK,
    ),
    "p one": (lambda: fitted(["rbf@0", "rbf@1", "rbf@2"], p=1, C=10), NEW),
    "float64": (lambda: fitted(storage="float64"), NEW),
    "binary text": (lambda: fitted(target=np.where(y == 0, "no", "yes")), NEW),
    "object labels": (lambda: fitted(target=np.array(list("abc"), object)[y]), NEW),
    "frame": (
        lambda: fitted(["rbf@a*", "rbf@b*"], FRAME),
        pd.DataFrame(NEW, columns=FRAME.columns),
    ),
    "class weight": (lambda: fitted(class_weight={0: 1.0, 1: 2.0, 2: 0.5}), NEW),
    "solver object": (lambda: fitted(solver=mk.solvers.Obscure(random_state=0)), NEW),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_answers_to_the_bit(name, tmp_path):
    make, new = CASES[name]
    model = make()
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    for method in ("decision_function", "predict", "predict_proba"):
        before, after = getattr(model, method)(new), getattr(loaded, method)(new)
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(
        model.kernel_contributions(new), loaded.kernel_contributions(new)
    )
    for attribute in ("kernel_names_", "history_", "objective_", "duality_gap_"):
        assert getattr(model, attribute) == getattr(loaded, attribute)
    np.testing.assert_array_equal(model.support_, loaded.support_)
    assert loaded.get_params()["p"] == model.p
    assert loaded.class_weight == model.class_weight
    assert loaded.solver == model.solver


def test_a_loaded_model_learns_on(tmp_path):
    one, two = fitted(p=1.2), fitted(p=1.2)
    two.save(tmp_path / "model")
    two = mk.load(tmp_path / "model")
    for model in (one, two):
        model.partial_fit(NEW, y)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_the_file_is_small_whatever_the_kernels(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 4))
    stack = np.stack([rbf_kernel(rows, gamma=g) for g in (0.1, 1.0, 10.0)], axis=-1)
    fitted("precomputed", stack, (rows[:, 0] > 0).astype(int)).save(tmp_path / "model")
    assert os.path.getsize(tmp_path / "model") < stack.nbytes / 20


def test_custom_kernels_need_their_function(tmp_path):
    model = fitted([Custom(laplacian_kernel), "rbf"])
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"functions=\{'laplacian_kernel': ...\}"):
        mk.load(tmp_path / "model")
    loaded = mk.load(tmp_path / "model", {"laplacian_kernel": laplacian_kernel})
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))


@pytest.mark.parametrize("odd", [3, "laplacian_kernel", [], {"laplacian_kernel": 1}])
def test_functions_come_by_name(odd, tmp_path):
    fitted().save(tmp_path / "model")
    with pytest.raises(TypeError, match=r"functions must be .* by name, got .*; pass"):
        mk.load(tmp_path / "model", odd)


@pytest.mark.parametrize("odd", [None, 3, [], ""])
def test_what_is_no_name_of_a_file(odd):
    for use in (mk.load, fitted().save):
        with pytest.raises((TypeError, ValueError), match="path must be the name of a"):
            use(odd)


def test_tiny_temperatures_give_shares(saved):
    """Scores divided by it may overflow, one class then has all."""
    rewritten(saved, lambda content: content["fitted"].update(temperature_=1e-300))
    shares = mk.load(saved).predict_proba(NEW)
    assert np.isin(shares, [0.0, 1.0]).all() and (shares.sum(axis=1) == 1.0).all()


# --- files that are not what they seem ---------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    fitted().save(path)
    return path


def rewritten(path, change):
    """The same file with changed content and a checksum that fits."""
    content, arrays = read_container(path)
    write_container(path, change(content) or content, arrays)
    return path


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        mk.load(tmp_path / "nothing")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError, match="expected a whole manykernels model"):
        mk.load(saved)


def test_foreign_files(tmp_path):
    path = tmp_path / "model"
    path.write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    for foreign in (path, tmp_path / "other.npz"):
        with pytest.raises(ModelFileError, match="does not begin as one"):
            mk.load(foreign)


def test_tampered(saved):
    whole = saved.read_bytes()
    assert b'"n_features_in_":4' in whole
    saved.write_bytes(whole.replace(b'"n_features_in_":4', b'"n_features_in_":5'))
    with pytest.raises(ModelFileError, match="checksum does not match"):
        mk.load(saved)


@pytest.mark.parametrize("other", [1, 2, 4])
def test_other_versions(other, saved, monkeypatch):
    monkeypatch.setattr(container_module, "MODEL_FILE_VERSION", other)
    fitted().save(saved)
    monkeypatch.undo()
    message = f"of version 3, got version {other} in .*wrote it, or a newer"
    with pytest.raises(ModelFileError, match=message):
        mk.load(saved)


def test_unknown_names_are_refused(saved):
    def other_estimator(content):
        content["estimator"] = "Popen"

    with pytest.raises(ModelFileError, match="expected a model of .* got 'Popen'"):
        mk.load(rewritten(saved, other_estimator))


def test_unknown_kernels_are_refused(saved):
    def other_kernel(content):
        content["fitted"]["_model"]["kernels"]["kernels"][0]["part"] = "os.system"

    with pytest.raises(ModelFileError, match="files may hold, got 'os.system'"):
        mk.load(rewritten(saved, other_kernel))


def test_pointers_of_sparse_rows_are_checked_before_scipy_sees_them(tmp_path):
    path = tmp_path / "model"
    fitted(["rbf", "linear"], sp.csr_matrix(X)).save(path)
    content, arrays = read_container(path)
    rows = content["fitted"]["_model"]["kernels"]["groups"][0]["rows"]
    data, indices, indptr, shape = rows["values"]["csr"]
    bad = [
        (indices, lambda a: a + 4),
        (indices, lambda a: a - 1),
        (indices, lambda a: a.astype(float)),
        (indptr, lambda a: a[::-1].copy()),
        (indptr, lambda a: a + 1),
        (indptr, lambda a: a[:-1]),
        (indptr, lambda a: np.where(np.arange(len(a)) == 1, a[-1] + 9, a)),
        (data, lambda a: a[:-1]),
        (data, lambda a: np.full_like(a, np.nan)),
    ]
    for place, change in bad:
        forged = list(arrays)
        forged[place["array"]] = change(arrays[place["array"]])
        write_container(path, content, forged)
        with pytest.raises(ModelFileError, match="mixes up parts"):
            mk.load(path)
    for wrong in ([len(X), 10**9], [10**9, 4], [-1, 4], ["x", 4]):
        rows["values"]["csr"][3] = wrong
        write_container(path, content, arrays)
        with pytest.raises(ModelFileError, match="mixes up parts"):
            mk.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature_", -1.0),
        ("temperature_", 0),
        ("temperature_", float("nan")),
        ("n_features_in_", True),
        ("classes_", {"texts": ["a", "a", "b"]}),
        ("classes_", {"texts": ["c", "b", "a"]}),
        ("history_", [{"part": "Epoch", "epoch": "x"}]),
        ("_labels", None),
        ("cv_results_", {"dict": {}}),
    ],
)
def test_what_no_fit_can_give_is_refused(saved, name, value):
    def forge(content):
        content["fitted"][name] = value

    with pytest.raises(ModelFileError, match="mixes up parts"):
        mk.load(rewritten(saved, forge))


def test_negative_weights_are_refused(saved):
    content, arrays = read_container(saved)
    place = content["fitted"]["_model"]["weights"]["array"]
    for change in (lambda w: -w, lambda w: 2 * w, lambda w: w * np.inf):
        forged = list(arrays)
        forged[place] = change(arrays[place])
        write_container(saved, content, forged)
        with pytest.raises(ModelFileError, match="weights"):
            mk.load(saved)


def test_no_size_in_a_file_is_believed(tmp_path):
    """Half a billion training rows would be 4 GB for one test prediction."""
    path = tmp_path / "model"
    fitted("precomputed", STACK).save(path)
    content, arrays = read_container(path)
    content["fitted"]["_model"]["kernels"]["n_train"] = 5 * 10**8
    content["fitted"]["n_features_in_"] = 5 * 10**8
    write_container(path, content, arrays)
    with pytest.raises(ModelFileError, match="mixes up parts"):
        mk.load(path)


def test_labels_that_files_cannot_hold_are_refused(tmp_path):
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]")
    with pytest.raises(TypeError, match="expected labels that are numbers"):
        fitted(target=days[y]).save(tmp_path / "model")
    assert not os.listdir(tmp_path)


def test_wrong_sizes_are_refused(saved):
    def swapped(content):
        model = content["fitted"]["_model"]
        model["coef"], model["weights"] = model["weights"], model["coef"]

    with pytest.raises(ModelFileError, match="mixes up parts"):
        mk.load(rewritten(saved, swapped))


def test_mutated_bytes_give_clear_errors(saved):
    whole = saved.read_bytes()
    expected = mk.load(saved).decision_function(NEW)
    rng = np.random.default_rng(0)
    for _ in range(400):
        mutant = bytearray(whole)
        for _ in range(rng.integers(1, 6)):
            mutant[rng.integers(len(mutant))] = rng.integers(256)
        saved.write_bytes(bytes(mutant))
        try:
            loaded = mk.load(saved)
        except ModelFileError:
            continue
        # Only bytes that carry no content may change unnoticed.
        np.testing.assert_array_equal(loaded.decision_function(NEW), expected)


def test_mutated_content_gives_clear_errors_or_a_model(saved):
    refused = 0
    for _ in strange_values(saved, 400, np.random.default_rng(0)):
        try:
            model = mk.load(saved)
        except ModelFileError:
            refused += 1
            continue
        assert type(model) is mk.MKLClassifier
    assert refused > 100
