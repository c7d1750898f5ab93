"""Ctrl-C at any moment: the best model so far with a warning, or nothing has changed.

The signal is a real one, sent to this process at a call of the phase it is about.
"""

import inspect
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor, load
from manykernels.cli import app
from manykernels.solvers import InterruptedFitWarning
from tests.all_estimators import ESTIMATORS
from tests.files.test_all_estimators import CASES

MOMENTS = 4  # of every fit


@pytest.fixture(autouse=True)
def heard():
    """A process in the background ignores the signal, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Calls:
    """Counts the calls of this package's functions; interrupts at one of them."""

    def __init__(self, at=None, name=None):
        self.at, self.name, self.count = at, name, 0

    def __call__(self, frame, event, argument):
        code = frame.f_code
        known = event == "call" and "/manykernels/" in code.co_filename
        # Python swallows what is raised while a generator is closed.
        if (
            known
            and not code.co_flags & inspect.CO_GENERATOR
            and self.name in (None, code.co_qualname)
        ):
            self.count += 1
            if self.count == self.at:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)


@contextmanager
def profiled(calls):
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def outcome(work, at=1, name=None):
    """What comes of it: "kept" or "interrupted"; threads end either way."""
    n_threads = threading.active_count()
    calls, before = Calls(at, name), signal.getsignal(signal.SIGINT)
    with warnings.catch_warnings(record=True) as seen, profiled(calls):
        warnings.simplefilter("always")
        try:
            work()
            found = "kept"
        except KeyboardInterrupt:
            found = "interrupted"
    assert calls.count >= at, f"{name} was never called"
    told = any(issubclass(w.category, InterruptedFitWarning) for w in seen)
    assert told or found == "interrupted"
    assert signal.getsignal(signal.SIGINT) is before
    assert threading.active_count() <= n_threads
    return found


def predicted(model, new):
    return [np.asarray(part).tolist() for part in model.predict(new)]


@pytest.mark.filterwarnings("ignore:The relative duality gap")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_at_any_moment_of_a_fit(name):
    model, data, new = CASES[name]
    model = clone(model)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    fitted = clone(model).fit(*data)
    expected = predicted(fitted, new)
    with profiled(Calls()) as calls:
        clone(model).fit(*data)
    # What is prepared once is not called again.
    for at in np.linspace(2, 0.9 * calls.count, MOMENTS).astype(int).tolist():
        if outcome(partial(fitted.fit, *data), at) == "interrupted":
            assert predicted(fitted, new) == expected
        else:
            assert len(predicted(fitted, new)) == len(expected)
            fitted = clone(model).fit(*data)
    fresh = clone(model)
    assert outcome(partial(fresh.fit, *data), 5) == "interrupted"
    assert set(vars(fresh)) == set(model.get_params(deep=False))


@pytest.fixture(scope="module")
def few_digits():
    X, y = load_digits(return_X_y=True)
    return X[:150] / 16.0, y[:150]


SPECS = ["rbf:gamma=0.01", "rbf:gamma=0.1", "linear"]
CLASSIFIER = MKLClassifier(SPECS, tol=1e-4, random_state=0)
OBSCURE = MKLClassifier(SPECS, p=1.5, solver="obscure", random_state=0)
SEARCH = MKLClassifierCV(SPECS, ps=[1.5], Cs=[0.1, 1.0], cv=2, random_state=0)


@pytest.mark.parametrize(
    ("model", "phase", "at", "expected"),
    [
        (CLASSIFIER, "KernelSet.fit", 1, "interrupted"),
        (CLASSIFIER, "build_bank", 1, "interrupted"),
        (OBSCURE, "MirrorDescent.run_pass", 1, "interrupted"),
        (CLASSIFIER, "WorkingSet.ascend", 1, "interrupted"),
        (CLASSIFIER, "WorkingSet.ascend", 3, "kept"),
        (CLASSIFIER, "AscentRounds._certify", 1, "kept"),
        (CLASSIFIER, "TrainingScores.of", 1, "kept"),
        (SEARCH, "KernelSearch._fold", 2, "interrupted"),
        (SEARCH, "WorkingSet.ascend", 3, "interrupted"),
        (SEARCH, "KernelSearch._predict", 1, "interrupted"),
        (clone(SEARCH).set_params(n_jobs=2), "KernelSearch._run", 1, "interrupted"),
        (clone(CLASSIFIER).set_params(kernels="linear"), "Neighbors.of", 1, "kept"),
        (MKLRegressor(SPECS, tol=1e-9), "certified_iterate", 3, "kept"),
        (MKLRegressor(SPECS, loss="epsilon_insensitive"), "Best.add", 1, "interrupted"),
    ],
)
@pytest.mark.filterwarnings("ignore:The relative duality gap")
def test_in_every_phase(model, phase, at, expected, few_digits):
    X, y = few_digits
    fresh = clone(model)
    assert outcome(partial(fresh.fit, X, y), at, phase) == expected
    if expected == "kept":
        assert fresh.score(X, y) > 0.8
        assert np.isfinite(fresh.duality_gap_)


@pytest.mark.parametrize("phase", ["Stream.predict", "Stream._visit", "Stream.scores"])
def test_in_partial_fit(phase, few_digits):
    X, y = few_digits
    model = clone(CLASSIFIER).partial_fit(X[:100], y[:100], classes=np.arange(10))
    before = model.decision_function(X)
    work = partial(model.partial_fit, X[100:], y[100:])
    assert outcome(work, 1, phase) == "interrupted"
    np.testing.assert_array_equal(model.decision_function(X), before)
    work()
    assert model.n_iter_ == 2


def test_in_predictions_and_their_calibration(few_digits):
    X, y = few_digits
    model = clone(CLASSIFIER).fit(X, y)
    expected = clone(CLASSIFIER).fit(X, y).predict_proba(X)
    assert (
        outcome(partial(model.predict_proba, X), 1, "Neighbors.own_parts")
        == "interrupted"
    )
    assert outcome(partial(model.predict, X), 1, "BlockModel.scores") == "interrupted"
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("Neighbors.own_parts", "kept"), ("write_container", "interrupted")],
)
def test_in_save(phase, expected, few_digits, tmp_path):
    X, y = few_digits
    model = clone(CLASSIFIER).fit(X, y)
    path = tmp_path / "model.mk"
    assert outcome(partial(model.save, path), 1, phase) == expected
    assert [found.name for found in tmp_path.iterdir()] == (
        ["model.mk"] if expected == "kept" else []
    )
    if expected == "kept":
        assert load(path).temperature_ == 1.0
    model.save(path)
    assert load(path).temperature_ == model.temperature_


def test_in_threads(few_digits, monkeypatch):
    """Slices of work in threads are waited for before the error goes on."""
    X, y = few_digits
    model = clone(CLASSIFIER).set_params(storage="on_demand").fit(X, y)
    monkeypatch.setattr("manykernels.base.machine.WORTHWHILE_BYTES", 0)
    monkeypatch.setattr("manykernels.base.machine.available_threads", lambda: 4)
    fresh = clone(model)
    assert outcome(partial(fresh.fit, X, y), 1, "in_slices") == "interrupted"
    assert not hasattr(fresh, "dual_coef_")


@pytest.mark.parametrize(
    ("phase", "files"),
    [
        ("RowSource.read_labeled", []),
        ("KernelSet.fit", []),
        ("TrainingScores.of", ["model.mk"]),
        ("Neighbors.own_parts", ["model.mk"]),
        ("write_container", []),
    ],
)
def test_in_the_command_fit(phase, files, few_digits, tmp_path):
    X, y = few_digits
    data = tmp_path / "data.npz"
    np.savez(data, X=X, y=y)
    arguments = [
        "fit",
        str(data),
        "-k",
        "linear; rbf",
        "-m",
        str(tmp_path / "model.mk"),
    ]
    with profiled(Calls(1, phase)):
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130, result.output
    assert "Traceback" not in result.output
    data.unlink()
    assert [path.name for path in tmp_path.iterdir()] == files


@pytest.mark.parametrize("phase", ["load_noisy_digits", "DemoKernels.build"])
def test_in_the_demo(phase, tmp_path):
    arguments = ["demo", "--train", "30", "--noise", "0"]
    with profiled(Calls(1, phase)):
        result = CliRunner().invoke(
            app, [*arguments, "--output", tmp_path / "demo.png"]
        )
    assert result.exit_code == 130 and result.stderr.endswith("Interrupted.\n")
    assert list(tmp_path.iterdir()) == []
