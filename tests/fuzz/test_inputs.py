"""Thousands of broken inputs: each is accepted, or refused in a clear sentence.

`benchmarks/fuzz.py` runs the same for as long as you like.
"""

import numpy as np
import pytest

from tests.fuzz.targets import TARGETS, Target, UnclearError

COUNTS = {
    "csv": 800,
    "npz": 500,
    "libsvm": 500,
    "parquet": 200,
    "toml": 500,
    "grammar": 800,
    "estimator": 150,
    "command": 40,
}


@pytest.mark.parametrize("name", COUNTS)
def test_clear_or_accepted(name):
    if name == "parquet":
        pytest.importorskip("pyarrow")
    target = TARGETS[name]
    accepted = 0
    for seed in range(COUNTS[name]):
        content = target.make(np.random.default_rng(seed))
        try:
            accepted += target.attempt(content)
        except UnclearError as error:
            pytest.fail(f"seed {seed}: {error}\ninput: {content[:2000]!r}")
    # Mutations that always break, or never do, would test nothing.
    assert 0 < accepted < COUNTS[name]


def test_model_files_with_other_bytes_are_refused_or_predict():
    """Content that is forged with its checksum is the matter of tests/io."""
    target = TARGETS["model bytes"]
    for seed in range(300):
        target.attempt(target.make(np.random.default_rng(seed)))


@pytest.mark.parametrize(
    "text",
    [
        "rbf@0-999999999999999",
        "rbf@1:2:0",
        "rbf@" + "9" * 5000,
        "rbf:gamma=" + "9" * 400,
        "rbf:gamma=" + "9" * 5000,
        "polynomial:coef0=one",
    ],
)
def test_kernels_that_random_changes_seldom_find(text):
    assert not TARGETS["grammar"].attempt(text.encode())


def raising(error):
    def run(content):
        raise error

    return run


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        ValueError("no"),
        ValueError("a long message without an end"),
        ValueError("a message of\ntwo lines which is long."),
    ],
)
def test_unclear_errors_are_found(error):
    target = Target(lambda rng: b"", raising(error), (ValueError,))
    with pytest.raises(UnclearError):
        target.attempt(b"")


def test_hangs_are_found(monkeypatch):
    monkeypatch.setattr("tests.fuzz.targets.SECONDS", 0.05)

    def forever(content):
        while True:
            pass

    with pytest.raises(UnclearError, match="took more than"):
        Target(lambda rng: b"", forever, (ValueError,)).attempt(b"")
