"""Broken inputs: each is accepted, or refused in a clear sentence.

`benchmarks/fuzz.py` runs the same for as long as you like.
"""

import os
import subprocess
import sys

import pytest

from tests.fuzz.attack import CORPUS, Worker, attack
from tests.fuzz.memory import REFERENCES, MemoryHungerError, require_little_memory
from tests.fuzz.targets import FORMATS, TARGETS, Target, UnclearError

PAST_FAILURES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


def test_inputs_of_every_sort_in_a_process_that_may_die():
    """Under a limit of memory, with the memory and the time of every input watched."""
    if not hasattr(os, "fork"):
        pytest.skip("needs the limits of a Unix process")
    reports = attack(list(TARGETS), seconds=300.0, most=50)
    taken = [reports[name].most_bytes for name in FORMATS]
    assert max(taken) < 200e6 and (max(taken) > 0 or not REFERENCES.exists())
    for name, report in reports.items():
        assert not report.failures, (name, report.failures)
        # Mutations that always break, or never do, would test nothing.
        assert report.counts["accepted"] > 0 and report.counts["refused"] > 0, name
        assert sum(report.counts.values()) == 50


@pytest.mark.parametrize("path", PAST_FAILURES, ids=lambda path: path.parent.name)
def test_past_failures_stay_mended(path):
    TARGETS[path.parent.name].attempt(path.read_bytes())


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


@pytest.mark.skipif(not REFERENCES.exists(), reason="needs Linux")
def test_hunger_is_found():
    with pytest.raises(MemoryHungerError, match="1000 bytes took"):
        with require_little_memory(1000):
            assert b"x" * 200_000_000


def test_a_worker_that_waits_for_a_processor_does_not_hang(monkeypatch):
    with Worker() as worker:
        monkeypatch.setattr(worker, "_start", lambda: None)
        worker.process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(1.5); print('ready')"],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0},
        )
        assert worker._line(0.5) == "ready"
        worker.process.wait()
        monkeypatch.setattr(worker, "_processor_seconds", lambda: next(spent))
        spent = iter([0.0, 1.0])
        worker._end()
        worker.process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0},
        )
        assert worker._line(0.5) == "hung for more than 0.5 s"
