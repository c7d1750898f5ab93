"""How long the first fit takes: on an empty compilation cache, and with a filled one.

Each fit runs in a process of its own. The second process must not compile anything:
the index files of the cache must be byte for byte the same after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import console, parse, save, show

CODE = """
import json, time
began = time.perf_counter()
import manykernels as mk
imported = time.perf_counter() - began
digits = mk.datasets.load_noisy_digits(800, 0, 0)
def fit(solver):
    began = time.perf_counter()
    mk.MKLClassifier(digits.kernels, p=1.25, C=10, solver=solver, random_state=0).fit(
        digits.data, digits.target)
    return time.perf_counter() - began
first, again = fit("auto"), fit("auto")
obscure, obscure_again = fit("obscure"), fit("obscure")
print(json.dumps({"import": imported, "first fit": first, "same fit again": again,
    "first OBSCURE fit": obscure, "same OBSCURE fit again": obscure_again}))
"""


def main() -> None:
    """Measure, print and store; exit with 1 if the second process compiled."""
    parse(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        cold = run(folder)
        before = fingerprints(Path(folder))
        warm = run(folder)
        after = fingerprints(Path(folder))
    rows = [[key, cold[key], warm[key]] for key in cold]
    show("seconds", ["", "empty cache", "second process"], rows)
    recompiled = before != after or not before
    console.print(f"{len(before)} cache files, {'changed' if recompiled else 'kept'}.")
    save(
        "cold_start",
        empty_cache=cold,
        second_process=warm,
        cache_files=len(before),
        second_process_compiled=recompiled,
    )
    sys.exit(int(recompiled))


def run(folder: str) -> dict[str, Any]:
    """Seconds of one fresh process that keeps its machine code in `folder`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def fingerprints(folder: Path) -> dict[str, str]:
    """A hash of every index and machine code file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.nb[ic]"))
    }


if __name__ == "__main__":
    main()
