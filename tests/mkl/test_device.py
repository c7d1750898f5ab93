"""Estimators on a device: the same models, wherever the arrays come from."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_digits, load_iris

import manykernels as mk
from manykernels.inputs import table as table_module
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import device_blocks, working_set
from tests.device.devices import every_device, require_torch

KERNELS = "rbf; linear; polynomial:degree=3; rbf:gamma=2.0@0-1"
X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)
SETTINGS = {"kernels": KERNELS, "C": 5.0, "tol": 1e-3, "random_state": 0}


@pytest.fixture(params=every_device())
def device(request, monkeypatch):
    """Every device under the name "cpu"; small blocks for small problems."""
    opened = request.param()
    monkeypatch.setattr(table_module, "open_device", lambda name: opened)
    monkeypatch.setattr(working_set, "HOST_ROWS", 0)
    monkeypatch.setattr(device_blocks, "BLOCK_ROWS", 64)
    return opened


@pytest.fixture
def torch():
    return require_torch()


def close(got, expected, rtol=2e-5):
    np.testing.assert_allclose(
        got, expected, rtol=0, atol=rtol * np.abs(expected).max()
    )


def test_a_classifier_is_the_one_of_the_processor(device, tmp_path):
    there = mk.MKLClassifier(**SETTINGS, device="cpu").fit(X, Y)
    here = mk.MKLClassifier(**SETTINGS).fit(X, Y)
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)
    assert there.duality_gap_ <= 1e-3 * there.objective_
    assert type(there.dual_coef_) is np.ndarray
    # What was learned there predicts here, and after a file, to float32 rounding.
    scores = there.decision_function(X)
    close(here.decision_function(X), scores, 0.1)
    there.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    assert loaded.device is None
    close(loaded.decision_function(X), scores)
    assert (loaded.predict(X) == there.predict(X)).all()
    close(loaded.kernel_contributions(X).sum(axis=1), scores)


def test_kernels_without_a_weight_are_left_out(device):
    there = mk.MKLClassifier(**SETTINGS, p=1.0, device="cpu").fit(X, Y)
    assert (there.kernel_weights_ == 0.0).any()
    scores = there.decision_function(X)
    close(there.set_params(device=None).decision_function(X), scores)


@pytest.mark.parametrize("loss", ["log", "squared_hinge"])
def test_other_losses_of_a_classifier(device, loss):
    settings = SETTINGS | {"loss": loss}
    there = mk.MKLClassifier(**settings, device="cpu").fit(X, Y)
    here = mk.MKLClassifier(**settings).fit(X, Y)
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)


@pytest.mark.parametrize("per_target", [False, True])
def test_a_regressor_is_the_one_of_the_processor(device, per_target):
    settings = SETTINGS | {"per_target_weights": per_target}
    there = mk.MKLRegressor(**settings, device="cpu").fit(X[:, :2], X[:, 2:])
    here = mk.MKLRegressor(**settings).fit(X[:, :2], X[:, 2:])
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)
    expected = here.predict(X[:, :2])
    close(there.predict(X[:, :2]), expected, 0.1)
    close(there.set_params(device=None).predict(X[:, :2]), there.predict(X[:, :2]))


def test_searches(device):
    settings = {"kernels": "rbf; linear", "Cs": [0.1, 10.0], "random_state": 0}
    settings["cv"] = 2
    there = mk.MKLClassifierCV(**settings, ps=[1.1], device="cpu").fit(X, Y)
    here = mk.MKLClassifierCV(**settings, ps=[1.1]).fit(X, Y)
    assert there.best_C_ == here.best_C_
    both = [m.cv_results_["mean_test_score"] for m in (there, here)]
    np.testing.assert_allclose(*both, atol=0.03)
    lines = [
        mk.MKLRegressorCV(**settings, ps=[1.5], device=name).fit(X[:, :3], X[:, 3])
        for name in ("cpu", None)
    ]
    both = [line.cv_results_["mean_test_score"] for line in lines]
    np.testing.assert_allclose(*both, rtol=1e-3)


def test_a_model_survives_copies_and_pickles(device):
    import copy
    import pickle

    model = mk.MKLClassifier(**SETTINGS, device="cpu").fit(X, Y)
    scores = model.decision_function(X)  # the support rows are there now
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(other.decision_function(X), scores, 1e-12)


def test_kernels_that_only_the_processor_computes(device):
    settings = SETTINGS | {"kernels": "laplacian; rbf"}
    there = mk.MKLClassifier(**settings, device="cpu").fit(X, Y)
    here = mk.MKLClassifier(**settings).fit(X, Y)
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)
    assert there.score(X, Y) == here.score(X, Y)


def test_features_of_approximate_kernels(device):
    settings = SETTINGS | {"approximate": "nystroem:20"}
    there = mk.MKLClassifier(**settings, device="cpu").fit(X, Y)
    here = mk.MKLClassifier(**settings).fit(X, Y)
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)
    close(there.predict_proba(X), there.set_params(device=None).predict_proba(X))


def test_a_checkpoint_goes_on_there(device, tmp_path):
    settings = SETTINGS | {"device": "cpu", "checkpoint": tmp_path / "state"}
    rough = mk.MKLClassifier(**settings | {"tol": 0.3}).fit(X, Y)
    fine = mk.MKLClassifier(**settings).fit(X, Y)
    assert fine.duality_gap_ <= 1e-3 * fine.objective_ < rough.duality_gap_
    assert fine.history_[0] == rough.history_[0]


def test_tensors_come_in(torch):
    model = mk.MKLClassifier(**SETTINGS, device="cpu")
    from_tensors = model.fit(torch.tensor(X, requires_grad=True), torch.tensor(Y))
    scores = from_tensors.decision_function(torch.tensor(X))
    assert type(scores) is np.ndarray
    arrays = mk.MKLClassifier(**SETTINGS, device="cpu").fit(X, Y)
    close(arrays.decision_function(X), scores, 1e-12)
    assert from_tensors.score(torch.tensor(X), torch.tensor(Y)) > 0.9


def test_dispatch_gives_results_as_the_input_came(torch):
    if os.environ.get("SCIPY_ARRAY_API") != "1":
        pytest.skip("dispatch needs SCIPY_ARRAY_API=1: make test-torch sets it")
    model = mk.MKLClassifier(**SETTINGS, device="cpu").fit(X, Y)
    table = torch.tensor(X)
    with config_context(array_api_dispatch=True):
        for name in ("predict", "decision_function", "predict_proba"):
            found = getattr(model, name)(table)
            assert isinstance(found, torch.Tensor) and found.device == table.device
            close(found.numpy(), getattr(model, name)(X), 1e-12)
        names = mk.MKLClassifier(**SETTINGS).fit(X, np.array(["a", "b", "c"])[Y])
        assert names.predict(table).dtype.kind in "UO"
        line = mk.MKLRegressor("rbf", device="cpu", random_state=0).fit(X, Y * 1.0)
        assert isinstance(line.predict(table), torch.Tensor)


@pytest.mark.parametrize("form", ["stack", "list"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_given_matrices_stay_on_the_device(torch, form, dtype, monkeypatch):
    fitted = KernelSet.fit(as_kernels(KERNELS), X)
    values = np.moveaxis(fitted.stack(), 0, -1)
    stack = torch.tensor(values, dtype=getattr(torch, dtype))
    if dtype == "float16":
        stack[0, 1] += 2e-4  # rounded to another side than its mirror image
    given = list(stack.moveaxis(-1, 0)) if form == "list" else stack
    settings = SETTINGS | {"kernels": "precomputed"}
    model = mk.MKLClassifier(**settings, device="cpu").fit(given, torch.tensor(Y))
    here = mk.MKLClassifier(**settings, psd="skip").fit(stack.float().numpy(), Y)
    assert model.objective_ == pytest.approx(here.objective_, rel=2e-3)
    close(model.decision_function(given), here.decision_function(stack.numpy()), 0.1)
    as_arrays = model.decision_function(stack.numpy())
    close(model.decision_function(given), as_arrays)


def test_bad_matrices_on_a_device_are_refused(torch):
    model = mk.MKLClassifier("precomputed", device="cpu")
    crooked = torch.eye(4)
    crooked[0, 1] = 1.0
    with pytest.raises(ValueError, match="must be symmetric"):
        model.fit(crooked, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="finite"):
        model.fit(torch.full((4, 4), torch.nan), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="positive semi-definite"):
        model.fit(torch.ones((4, 4)) - 0.9 * torch.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(torch.eye(4), [0, 1])


def test_devices_that_are_not_there_say_so(torch):
    with pytest.raises(ValueError, match="device must be 'cuda'"):
        mk.MKLClassifier(device="gpu").fit(X, Y)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="needs a GPU that PyTorch .* sees, got 0"):
            mk.MKLClassifier(device="cuda").fit(X, Y)
    n_gpus = torch.cuda.device_count()
    with pytest.raises(ValueError, match=f"sees, got {n_gpus} of them; check the"):
        mk.MKLClassifier(device=f"cuda:{n_gpus}").fit(X, Y)
    if not torch.backends.mps.is_available():
        with pytest.raises(ValueError, match="needs an Apple GPU .* use device=None"):
            mk.MKLClassifier(device="mps").fit(X, Y)
    with pytest.raises(MemoryError, match="raise memory_limit, or use"):
        mk.MKLClassifier("rbf", device="cpu", memory_limit="1MB").fit(X, Y)


def test_without_pytorch_one_sentence_says_so(monkeypatch):
    from manykernels.base.imports import MissingLibraryError
    from manykernels.device import base as device_base

    def missing(module, extra):
        raise MissingLibraryError(f'call pip install "manykernels[{extra}]".')

    device_base._opened.cache_clear()
    monkeypatch.setattr(device_base, "require_library", missing)
    with pytest.raises(ImportError, match="manykernels.torch."):
        mk.MKLClassifier(device="cpu").fit(X, Y)
    device_base._opened.cache_clear()


def test_a_full_device_names_the_limit_to_set(torch, monkeypatch):
    from manykernels.device.torch_device import TorchDevice

    model = mk.MKLClassifier("rbf", device="cpu").fit(X, Y)
    before = model.dual_coef_

    def full(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(TorchDevice, "add_curves", full)
    with pytest.raises(MemoryError, match="set memory_limit to less than is free"):
        model.fit(X, Y)
    assert model.dual_coef_ is before  # nothing is lost


def test_many_rows_take_the_blocks(device):
    digits = load_digits()
    there = mk.MKLClassifier("rbf; linear", device="cpu", random_state=0)
    there.fit(digits.data[:700], digits.target[:700])
    here = mk.MKLClassifier("rbf; linear", random_state=0)
    here.fit(digits.data[:700], digits.target[:700])
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-2)


def test_arrays_of_cupy_come_in(torch):
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    cupy = pytest.importorskip("cupy")
    table, labels = cupy.asarray(X), cupy.asarray(Y)
    model = mk.MKLClassifier(**SETTINGS, device="cuda").fit(table, labels)
    arrays = mk.MKLClassifier(**SETTINGS, device="cuda").fit(X, Y)
    close(model.decision_function(table), arrays.decision_function(X), 1e-12)
    stack = cupy.stack([table @ table.T, cupy.exp(table @ table.T / 50.0)], axis=-1)
    given = mk.MKLClassifier("precomputed", device="cuda", random_state=0)
    assert given.fit(stack, labels).score(stack, labels) > 0.9
    assert type(given.dual_coef_) is np.ndarray


def test_a_card_that_is_really_full(torch):
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    data = load_digits()
    table, labels = np.tile(data.data, (12, 1)), np.tile(data.target, 12)
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(free - 2 * 10**9, dtype=torch.uint8, device="cuda")
    model = mk.MKLClassifier("rbf; linear", loss="log", device="cuda", random_state=0)
    with pytest.raises(MemoryError, match="ran out of memory with .* arrays on it"):
        model.set_params(memory_limit="60GB", storage="gram").fit(table, labels)
    assert not hasattr(model, "dual_coef_")
    del held
    model.set_params(memory_limit=None, max_iter=1, tol=0.5).fit(table, labels)


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_a_nugget_stays_there(device, loss):
    rows = np.repeat(np.arange(100), 1 + (np.arange(100) % 10 == 0))  # with copies
    settings = SETTINGS | {"nugget": "shared", "loss": loss}
    there = mk.MKLClassifier(**settings, device="cpu").fit(X[rows], Y[rows])
    here = mk.MKLClassifier(**settings).fit(X[rows], Y[rows])
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)
    assert there.kernel_names_[-1] == "nugget"


@pytest.mark.parametrize(
    "kernels",
    [
        "rbf:gamma=0.1,approximate=nystroem,rank=20",
        "polynomial:degree=3,approximate=nystroem,rank=20",
        "rbf:approximate=random_features,rank=50; rbf:gamma=2.0,approximate=nystroem",
        "polynomial:degree=2,approximate=random_features,rank=64",
        "laplacian:approximate=nystroem,rank=20",
    ],
)
def test_features_are_computed_there(device, kernels, tmp_path):
    settings = SETTINGS | {"kernels": kernels, "loss": "log"}
    there = mk.MKLClassifier(**settings, device="cpu").fit(X, Y)
    here = mk.MKLClassifier(**settings).fit(X, Y)
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)
    close(there.decision_function(X), here.decision_function(X), 0.02)
    there.save(tmp_path / "model")  # nothing of it is on the device
    close(mk.load(tmp_path / "model").decision_function(X), there.decision_function(X))
