"""How long one waits at the start: for imports, commands and the first fit.

Imports and commands are measured in turns with `from sklearn.svm import SVC`, each in
a process of its own, seconds of that process included. The first fit runs on an empty
compilation cache and then, in a second process, with a filled one. That one must not
compile anything: the files of the cache must be byte for byte the same after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import alternate, console, parse, ratios, save, show, summary
from sklearn.datasets import load_iris

import manykernels as mk

CODE = """
import json, time
import manykernels as mk
digits = mk.datasets.load_noisy_digits(800, 0, 0)
def fit(solver):
    began = time.perf_counter()
    mk.MKLClassifier(digits.kernels, p=1.25, C=10, solver=solver, random_state=0).fit(
        digits.data, digits.target)
    return time.perf_counter() - began
first, again = fit("auto"), fit("auto")
obscure, obscure_again = fit("obscure"), fit("obscure")
print(json.dumps({"first fit": first, "same fit again": again,
    "first OBSCURE fit": obscure, "same OBSCURE fit again": obscure_again}))
"""
BASE = "from sklearn.svm import SVC"
COMMAND = "from manykernels.cli import run; run()"
# What each process runs, and the words that it finds on its command line.
STARTS = {
    BASE: (BASE,),
    "import manykernels": ("import manykernels",),
    "from manykernels import MKLClassifier": ("from manykernels import MKLClassifier",),
    "mk.load(model).predict(one row)": (
        "import sys, manykernels as mk; mk.load(sys.argv[1]).predict([[0.0] * 4])",
        "iris.mk",
    ),
    "manykernels --help": (COMMAND, "--help"),
    "manykernels predict model rows.csv": (COMMAND, "predict", "iris.mk", "rows.csv"),
}


def main() -> None:
    """Measure, print and store; exit with 1 if the second process compiled."""
    options = parse(__doc__, repeats=(7, "turns of imports and commands"))
    with tempfile.TemporaryDirectory() as folder:
        seconds = alternate(start_actions(Path(folder)), options.repeats)
    starts = {name: summary(found) for name, found in seconds.items()}
    against = ratios(seconds, BASE)
    rows = [[key, starts[key]["median"], against[key]["median"]] for key in starts]
    show("seconds of a process", ["", "median", "ratio"], rows)
    with tempfile.TemporaryDirectory() as folder:
        cold = run(folder)
        before = fingerprints(Path(folder))
        warm = run(folder)
        after = fingerprints(Path(folder))
    rows = [[key, cold[key], warm[key]] for key in cold]
    show("seconds of fits", ["", "empty cache", "second process"], rows)
    recompiled = before != after or not before
    console.print(f"{len(before)} cache files, {'changed' if recompiled else 'kept'}.")
    save(
        "cold_start",
        seeds=[0],
        starts=starts,
        starts_ratios=against,
        empty_cache=cold,
        second_process=warm,
        cache_files=len(before),
        second_process_compiled=recompiled,
    )
    sys.exit(int(recompiled))


def start_actions(folder: Path) -> dict[str, Callable[[], Any]]:
    """What is started in a fresh process, by name; in a folder with its files."""
    X, y = load_iris(return_X_y=True)
    mk.MKLClassifier("rbf; linear", random_state=0).fit(X, y).save(folder / "iris.mk")
    (folder / "rows.csv").write_text("a,b,c,d\n5.1,3.5,1.4,0.2\n")
    return {
        name: lambda words=words: subprocess.run(
            [sys.executable, "-c", *words], cwd=folder, capture_output=True, check=True
        )
        for name, words in STARTS.items()
    }


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
