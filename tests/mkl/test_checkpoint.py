"""checkpoint=path: killed fits go on, foreign files are refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier, load
from manykernels.base import disk
from manykernels.files import ModelFileError, read_container, write_container
from manykernels.files.checkpoint import CheckpointWarning
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
    "change",
    [
        {"C": 6.0},
        {"p": 1.5},
        {"solver": "obscure"},
        {"storage": "float64"},
        {"random_state": 4},
        {"random_state": None},
        {"class_weight": {0: 2.0}},
    ],
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


def test_a_fit_without_a_seed_goes_on(tmp_path: Path) -> None:
    """Its course is drawn anew in every run, but the file knows the course begun."""
    path = tmp_path / "state"
    rough = make(path, tol=0.3, random_state=None).fit(X, y)
    fine = make(path, tol=1e-5, random_state=None).fit(X, y)
    assert fine.history_[: rough.n_iter_] == rough.history_


# --- what a file claims ---------------------------------------------------------


def forged(path: Path, change) -> None:
    """The same file after a change of its state, with a checksum that fits."""
    content, arrays = read_container(path)
    change(content["state"]["dict"], arrays)
    write_container(path, content, arrays)


def test_no_certificate_is_believed(tmp_path: Path) -> None:
    """A rough model that is said to be the optimum."""
    path = tmp_path / "state"
    rough = make(path, tol=0.3).fit(X, y)
    optimum = make(tmp_path / "precise", tol=1e-6).fit(X, y).objective_

    def claim(state, arrays) -> None:
        best = state["best"]["dict"]
        best["objective"] *= 0.9
        best["dual_bound"] = best["objective"]
        best["history"][-1][-2] = 0.0

    forged(path, claim)
    with (
        pytest.warns(CheckpointWarning, match="claimed more than its state is worth"),
        pytest.warns(ConvergenceWarning),
    ):
        model = make(path).fit(X, y)
    assert model.objective_ == pytest.approx(rough.objective_)
    # The gap is evaluated anew: a true bound, and no worse than that of the fit.
    assert model.objective_ - optimum <= model.duality_gap_
    assert model.duality_gap_ <= 1.1 * rough.duality_gap_


@pytest.mark.parametrize("solver", ["auto", "obscure"])
def test_arrays_of_other_shapes_are_refused_before_compiled_loops_see_them(
    solver: str, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    make(path, tol=0.3, solver=solver).fit(X, y)
    content, (_, arrays) = path.read_bytes(), read_container(path)
    whole = make(solver=solver).fit(X, y)
    went_on = 0
    for k in range(len(arrays)):

        def shorten(state, arrays, k=k) -> None:
            arrays[k] = arrays[k][:-1]

        path.write_bytes(content)
        forged(path, shorten)
        try:
            model = make(path, solver=solver).fit(X, y)
        except ValueError as error:
            assert "checkpoint" in str(error) and "; delete" in str(error)
            continue
        went_on += 1
        assert model.objective_ - model.duality_gap_ <= whole.objective_
    # Fewer rows at work, or combined beforehand; a dual point that a better one beats.
    assert went_on <= 3


def test_a_state_that_cannot_be_written_does_not_end_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    whole = make().fit(X, y)
    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.warns(CheckpointWarning, match="fit goes on: .*'No space left on dev"):
        model = make(tmp_path / "state").fit(X, y)
    assert np.array_equal(model.dual_coef_, whole.dual_coef_)
    assert not list(tmp_path.iterdir())


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
