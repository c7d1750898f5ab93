"""kill -9 in every phase of a checkpointed fit and of a save: what is lost?

A fit is killed at a drawn moment of each phase in turn (building kernels, ascent,
 certificate, checkpoint, calibration, save), started again, and must end with
the model of an uninterrupted fit, to the bit. After every kill the checkpoint and the
model file, where there are any, must be whole.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import parse, save, show
from sklearn.datasets import load_digits

import manykernels as mk
from manykernels.files.checkpoint import FileCheckpoint
from manykernels.files.container import read_container
from manykernels.mkl import calibration, estimator
from manykernels.solvers.dual_ascent import AscentRounds
from manykernels.solvers.regression.ascent import RegressionRounds
from manykernels.solvers.working_set import WorkingSet

KERNELS = ["rbf:gamma=0.002", "linear", "polynomial:degree=2"] + [
    f"rbf:gamma=0.02@{8 * row}-{8 * row + 7}" for row in range(8)
]


class Phase(NamedTuple):
    """A function in which a fit spends some of its time."""

    owner: Any
    function: str


CLASSIFIER = {
    "build": Phase(estimator, "build_bank"),
    "ascent": Phase(WorkingSet, "ascend"),
    "certificate": Phase(AscentRounds, "_certify"),
    "checkpoint": Phase(FileCheckpoint, "save"),
    "calibration": Phase(calibration.Temperature, "value"),
    "save": Phase(mk.MKLClassifier, "save"),
}
REGRESSOR = {
    "build": Phase(estimator, "build_bank"),
    "ascent": Phase(RegressionRounds, "_solve_frozen"),
    "certificate": Phase(RegressionRounds, "_iterate"),
    "checkpoint": Phase(FileCheckpoint, "save"),
    "save": Phase(mk.MKLRegressor, "save"),
}
PHASES = {
    "MKLClassifier": CLASSIFIER,
    "MKLClassifier on disk": CLASSIFIER,
    "MKLRegressor": REGRESSOR,
}


class Moment(NamedTuple):
    """Some seconds after the n-th beginning of a phase."""

    phase: str
    entry: int
    seconds: float


class Watch:
    """Notes how often and how long a fit is in its phases, and kills it in one."""

    def __init__(self, moment: Moment | None) -> None:
        self.moment = moment
        self.seconds: dict[str, list[float]] = {}

    def patch(self, phases: dict[str, Phase]) -> None:
        """Put this watch around the functions of all phases."""
        for name, (owner, function) in phases.items():
            original = getattr(owner, function)
            setattr(owner, function, self._watched(name, original))

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            spent = self.seconds.setdefault(name, [])
            if self.moment is not None and self.moment[:2] == (name, len(spent)):
                threading.Timer(self.moment.seconds, _kill).start()
            began = time.perf_counter()
            try:
                return original(*arguments, **options)
            finally:
                spent.append(time.perf_counter() - began)

        return watched


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        kills=(102, "kills, a third of them for each estimator"),
        seed=(0, "seed of the moments"),
        rows=(900, "rows of the data"),
        tol=(1e-4, "relative gap"),
    )
    rng = np.random.default_rng(options.seed)
    results = {}
    for name in PHASES:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(name, Path(folder), options.rows, options.tol)
            results[name] = trial.run(options.kills // len(PHASES), rng)
    columns = ["killed", "ended before", "unreadable", "different"]
    show(
        f"{options.kills} kills, {options.rows} rows",
        ["", *columns, "seconds"],
        [[n, *(r[c] for c in columns), r["seconds"]] for n, r in results.items()],
    )
    save("killed", options=vars(options), results=results)


def fit(
    name: str, folder: Path, rows: int, tol: float, moment: Moment | None, out: str
) -> None:
    """One fit with a checkpoint, saved at its end; in a process of its own."""
    watch = Watch(moment)
    watch.patch(PHASES[name])
    X, y = load_digits(return_X_y=True)
    X, y = X[:rows], y[:rows]
    settings = {"p": 1.1, "C": 10.0, "tol": tol, "random_state": 0}
    if name.endswith("disk"):
        settings["storage"] = mk.Storage("memmap", "float64", folder / "grams")
    checkpoint = None if out == "whole" else folder / "state"
    if name == "MKLRegressor":
        settings["loss"] = "epsilon_insensitive"
        model: Any = mk.MKLRegressor(KERNELS, checkpoint=checkpoint, **settings)
    else:
        model = mk.MKLClassifier(KERNELS, checkpoint=checkpoint, **settings)
    model.fit(X, y).save(folder / out)
    np.savez(folder / "phases.npz", **watch.seconds)


class Trial:
    """Kills of one estimator, after each of which the fit is started again."""

    def __init__(self, name: str, folder: Path, rows: int, tol: float) -> None:
        self.name, self.folder = name, folder
        self.start = partial(fit, name, folder, rows, tol)
        self.counts: Counter[str] = Counter()
        self.phases: Counter[str] = Counter()

    def run(self, kills: int, rng: np.random.Generator) -> dict[str, Any]:
        """The counts; phases take turns, moments within them are drawn."""
        began = time.perf_counter()
        self._process(None, "whole")
        self._process(None, "model")  # the phases of a fit with a checkpoint
        with np.load(self.folder / "phases.npz") as spent:
            seconds = {name: spent[name] for name in spent.files}
        for k in range(kills):
            phase = list(seconds)[k % len(seconds)]
            entry = int(rng.integers(len(seconds[phase])))
            share = rng.uniform(0.0, 1.0)
            self._kill(Moment(phase, entry, share * seconds[phase][entry]))
        return {
            **{c: self.counts[c] for c in ("killed", "ended before")},
            **{c: self.counts[c] for c in ("unreadable", "different", "leftovers")},
            "phases": dict(self.phases),
            "seconds": time.perf_counter() - began,
        }

    def _kill(self, moment: Moment) -> None:
        (self.folder / "state").unlink(missing_ok=True)
        if self.counts["killed"] % 2:
            (self.folder / "model").unlink(missing_ok=True)
            shutil.rmtree(self.folder / "grams", ignore_errors=True)
        code = self._process(moment, "model")
        self.counts["killed" if code == -signal.SIGKILL else "ended before"] += 1
        self.phases[moment.phase] += 1
        for name in ("state", "model"):
            path = self.folder / name
            self.counts["unreadable"] += path.exists() and not _readable(path)
        self._process(None, "model")
        same = _same(self.folder / "whole", self.folder / "model")
        self.counts["different"] += not same
        for path in self.folder.glob(".draft-*"):
            self.counts["leftovers"] += 1
            path.unlink()

    def _process(self, moment: Moment | None, out: str) -> int:
        # A fork has the imports already; this process itself never computes.
        context = multiprocessing.get_context("fork")
        process = context.Process(target=self.start, args=(moment, out))
        process.start()
        process.join()
        code = process.exitcode or 0
        if code and (moment is None or code != -signal.SIGKILL):
            raise RuntimeError(f"expected a fit that ends, got the exit code {code}.")
        return code


def _readable(path: Path) -> bool:
    """Whether the file is whole."""
    try:
        read_container(path)
    except ValueError:
        return False
    return True


def _same(one: Path, other: Path) -> bool:
    """Whether two model files hold the same arrays, to the bit."""
    (_, before), (_, after) = read_container(one), read_container(other)
    return len(before) == len(after) and all(map(np.array_equal, before, after))


if __name__ == "__main__":
    main()
