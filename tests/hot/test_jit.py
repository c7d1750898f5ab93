"""Loops are compiled at their first call, together with those that they call."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from manykernels.hot.jit import njit


@njit(cache=False)
def _twice(value):
    return 2.0 * value


@njit(cache=False, nogil=True)
def _total(values):
    total = 0.0
    for value in values:
        total += _twice(value)
    return total


def test_threads_share_one_compilation() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(_total, [np.arange(3.0)] * 8))
    assert found == [6.0] * 8
    # Where a loop was, there is now what numba made of it.
    assert len(_total.signatures) == 1


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
