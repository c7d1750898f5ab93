"""Loops are compiled at their first call, together with those that they call."""

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

from manykernels.hot import lazy
from manykernels.hot.lazy import njit


@njit(cache=False)
def _twice(value):
    return 2.0 * value


@njit(cache=False, nogil=True)
def _total(values):
    total = 0.0
    for value in values:
        total += _twice(value)
    return total


def test_threads_share_one_compilation(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_total.py_func, "__module__", "manykernels.hot.example")
    lazy._tell_of_compilation.cache_clear()
    with caplog.at_level(logging.WARNING, "manykernels"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(_total, [np.arange(3.0)] * 8))
    assert found == [6.0] * 8
    # Where a loop was, there is now what numba made of it.
    assert len(_total.signatures) == 1
    assert "compiling loops for this machine" in caplog.text


def test_loops_run_as_plain_functions_where_numba_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    plain = njit(cache=True)(lambda value: type(value).__name__)
    assert plain("of no type that compiled loops know") == "str"


def test_numba_waits_for_the_first_loop() -> None:
    script = """
import sys
import manykernels as mk
few = len([name for name in sys.modules if name.startswith("manykernels")])
mk.MKLClassifier, mk.MKLRegressor, mk.SequenceLabeler, mk.load
print(few, "numba" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False"]


def test_a_change_in_a_file_that_is_called_is_noticed(tmp_path: Path) -> None:
    head = "from manykernels.hot.lazy import njit\n"
    outer = "from inner import add\n\n@njit(cache=True)\ndef f(x):\n    return add(x)\n"
    (tmp_path / "outer.py").write_text(head + outer)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    script += "import outer; print(outer.f(1), outer.f.stats.cache_hits.total())"
    for step, hits in ((1, 0), (1, 1), (2, 0)):
        inner = f"\n@njit(cache=True)\ndef add(x):\n    return x + {step}\n"
        (tmp_path / "inner.py").write_text(head + inner)
        done = subprocess.run(
            [sys.executable, "-B", "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [str(1 + step), str(hits)]


def test_who_waits_for_the_compiler_is_told_so_once(tmp_path: Path) -> None:
    script = """
import numpy as np
import manykernels as mk
mk.MKLClassifier("rbf", random_state=0).fit(np.eye(6), [0, 1] * 3)
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for _ in range(2)
    ]
    assert told[0].count("compiling loops") == 1
    assert told[1] == ""
