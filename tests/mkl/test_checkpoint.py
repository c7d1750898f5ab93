"""checkpoint=path: killed fits go on, foreign files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manykernels import MKLClassifier, load
from manykernels.files import ModelFileError
from tests.oracles.toys import blobs

X, y = blobs(150, 3, seed=8, spread=1.5)
KERNELS = ["rbf:gamma=0.2", "linear", "rbf:gamma=1@0-2"]


class KilledError(Exception):
    """Stands for kill -9."""


def make(path: Path | None = None, **settings) -> MKLClassifier:
    options = {"C": 5.0, "tol": 1e-5, "random_state": 3, **settings}
    return MKLClassifier(KERNELS, checkpoint=path, **options)


def die_at(epoch: int):
    def callback(line) -> None:
        if line.epoch == epoch:
            raise KilledError

    return callback


@pytest.mark.parametrize("solver", ["auto", "obscure"])
@pytest.mark.parametrize("storage", ["gram", "on_demand"])
def test_a_killed_fit_ends_as_if_nothing_had_happened(
    solver: str, storage: str, tmp_path: Path
) -> None:
    how = {"solver": solver, "storage": storage}
    whole = make(**how).fit(X, y)
    path = tmp_path / "state"
    with pytest.raises(KilledError):
        make(path, callback=die_at(3), **how).fit(X, y)
    lines = []
    resumed = make(path, callback=lines.append, **how).fit(X, y)
    assert lines[0].epoch in (2, 3)
    assert np.array_equal(resumed.dual_coef_, whole.dual_coef_)
    assert np.array_equal(resumed.kernel_weights_, whole.kernel_weights_)
    assert resumed.duality_gap_ == whole.duality_gap_
    assert resumed.n_iter_ == whole.n_iter_


def test_a_finished_fit_goes_on_with_a_smaller_tol(tmp_path: Path) -> None:
    path = tmp_path / "state"
    rough = make(path, tol=0.3).fit(X, y)
    fine = make(path, tol=1e-5).fit(X, y)
    assert fine.duality_gap_ < rough.duality_gap_
    assert fine.history_[: rough.n_iter_] == rough.history_


@pytest.mark.parametrize(
    "change", [{"C": 6.0}, {"p": 1.5}, {"solver": "obscure"}, {"storage": "float64"}]
)
def test_another_fit_is_refused(change: dict, tmp_path: Path) -> None:
    path = tmp_path / "state"
    make(path).fit(X, y)
    with pytest.raises(ValueError, match="belongs to other data or settings"):
        make(path, **change).fit(X, y)


def test_other_data_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    make(path).fit(X, y)
    other = X.copy()
    other[0, 0] += 1e-3
    with pytest.raises(ValueError, match="belongs to other data or settings"):
        make(path).fit(other, y)
    with pytest.raises(ValueError, match="belongs to other data or settings"):
        make(path).fit(X, np.roll(y, 1))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state"
    make(path).fit(X, y)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="state"):
        make(path).fit(X, y)


def test_a_missing_folder_is_named_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="existing folder"):
        make(tmp_path / "nowhere" / "state").fit(X, y)


def test_a_model_file_tells_no_paths(tmp_path: Path) -> None:
    model = make(tmp_path / "state").fit(X, y).set_params(checkpoint="secret_place")
    model.save(tmp_path / "model")
    assert b"secret_place" not in (tmp_path / "model").read_bytes()
    assert load(tmp_path / "model").checkpoint is None
