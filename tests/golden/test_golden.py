"""Fits give what they gave when the digests were recorded.

A digest is the bits of an array. Bits depend on the processor and on NumPy, SciPy and
BLAS, so they are compared only where these are as recorded; sums are compared anywhere.

    python -m tests.golden.test_golden [NAME ...]    record these fits anew, or all
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy

from tests.golden.fits import all_fits, outcome

RECORD = Path(__file__).with_name("golden.json")
RTOL = 1e-4  # of sums on another machine: other roundings may end a round elsewhere


def machine() -> str:
    """Name of everything that bits depend on."""
    model = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith(("model name", "flags"))
    ]
    parts = [platform.python_version(), np.__version__, scipy.__version__, *model[:2]]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values + 0.0).tobytes()).hexdigest()[:16]


def summary(values: np.ndarray) -> list[float]:
    """Size, absolute sum and a sum that knows the order."""
    signs = np.cos(np.arange(values.size))
    return [values.size, float(np.abs(values).sum()), float(values @ signs)]


def facts(name: str) -> dict[str, dict[str, object]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = outcome(all_fits()[name])
    return {
        part: {"bits": digest(values), "sums": summary(values)}
        for part, values in found.items()
    }


@cache
def recorded() -> dict[str, dict]:
    return json.loads(RECORD.read_text())


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="recorded on Linux")
@pytest.mark.parametrize("name", list(all_fits()))
def test_fits_give_what_they_gave(name):
    same_machine = recorded()["machine"] == machine()
    fit = facts(name)
    for part, known in recorded()["fits"][name].items():
        found = fit[part]
        if same_machine:
            assert found["bits"] == known["bits"], part
        elif part != "gap":  # a difference of two sums
            largest = max(known["sums"][1], 1.0)
            np.testing.assert_allclose(
                found["sums"], known["sums"], rtol=RTOL, atol=RTOL * largest
            )


def record(names: list[str]) -> None:
    known = recorded()["fits"] if names else {}
    fits = {
        name: facts(name) if name in names or not names else known[name]
        for name in all_fits()
    }
    lines = {"machine": machine(), "fits": fits}
    RECORD.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    record(sys.argv[1:])
