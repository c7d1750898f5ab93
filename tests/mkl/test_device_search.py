"""Searches over p and C on a device: the same scores, and values that stay there."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import manykernels as mk
from manykernels.banks import device_kernels
from manykernels.banks.device_bank import DeviceBank
from manykernels.inputs import table as table_module
from tests.device.devices import every_device

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)
GRID = {"ps": [1.1, 2.0], "Cs": [0.1, 1.0, 10.0], "cv": 3, "random_state": 0}
SETTINGS = {"kernels": "rbf; linear; rbf:gamma=2.0@0-1", "tol": 1e-3, **GRID}
COMBINE = DeviceBank.combine


@pytest.fixture(params=every_device())
def device(request, monkeypatch):
    """Every device under the name "cpu"; kernel values must not leave it."""
    opened = request.param()
    monkeypatch.setattr(table_module, "open_device", lambda name: opened)
    for left in ("combine", "rows"):
        monkeypatch.setattr(DeviceBank, left, None)
    return opened


def check_same(kind, X, y, atol, **settings):
    there, here = (
        kind(**{**SETTINGS, **settings}, device=name).fit(X, y)
        for name in ("cpu", None)
    )
    both = [model.cv_results_["mean_test_score"] for model in (there, here)]
    np.testing.assert_allclose(*both, atol=atol)
    assert there.best_score_ == pytest.approx(here.best_score_, abs=atol)
    return there, here


@pytest.mark.parametrize("loss", ["log", "squared_hinge"])
@pytest.mark.parametrize("storage", ["auto", "gram"])
def test_scores_are_those_of_the_processor(device, loss, storage):
    there, here = check_same(
        mk.MKLClassifierCV, X, Y, 0.014, loss=loss, storage=storage
    )
    assert there.objective_ == pytest.approx(here.objective_, rel=0.02)
    assert there.score(X, Y) == pytest.approx(here.score(X, Y), abs=0.014)


def test_folds_that_find_no_room_index_into_the_matrices(device, monkeypatch):
    monkeypatch.setattr(device_kernels, "COPIED_SHARE", 0.0)
    check_same(mk.MKLClassifierCV, X, Y, 0.014, loss="log", storage="gram")


def test_several_folds_at_a_time(device):
    one = mk.MKLClassifierCV(**SETTINGS, loss="log", device="cpu").fit(X, Y)
    two = mk.MKLClassifierCV(**SETTINGS, loss="log", device="cpu", n_jobs=2).fit(X, Y)
    scores = [model.cv_results_["mean_test_score"] for model in (one, two)]
    np.testing.assert_allclose(*scores, atol=1e-12)


@pytest.mark.parametrize("cv", [3, "loo"])
@pytest.mark.parametrize("per_target", [False, True])
def test_numbers_with_folds_and_by_leave_one_out(device, cv, per_target):
    data = load_diabetes()
    table = data.data[:120].astype(np.float32)
    y = np.column_stack([data.target[:120], table[:, 2] * 1000.0])
    settings = {"cv": cv, "per_target_weights": per_target, "tol": 1e-4}
    check_same(mk.MKLRegressorCV, table, y, 2e-3, **settings)


def test_a_search_with_a_nugget(device, monkeypatch):
    monkeypatch.setattr(DeviceBank, "combine", COMBINE)  # eigenvalues of few rows
    check_same(mk.MKLClassifierCV, X, Y, 0.014, loss="log", nugget="shared", ps=1.1)
