"""kill -9 at random moments of a checkpointed fit and of a save: what is lost?

The fit is started again after every kill until it ends; its result must be that of an
uninterrupted fit, to the bit. The saves replace one model by another for ever; after
every kill the file must hold one of the two.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import parse, save, show, timed
from sklearn.datasets import load_digits

import manykernels as mk
from manykernels.files.container import read_container

KERNELS = ["rbf:gamma=0.002", "linear", "polynomial:degree=2"] + [
    f"rbf:gamma=0.02@{8 * row}-{8 * row + 7}" for row in range(8)
]


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        kills=(20, "kills of each kind"),
        seed=(0, "seed of the moments"),
        tol=(1e-7, "relative gap, to make the fit long"),
    )
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {
            "fit": kill_fits(folder, rng, options.kills, options.tol),
            "save": kill_saves(folder, rng, options.kills),
        }
    show(
        f"{options.kills} kills of each kind",
        ["", "unreadable files", "different results", "seconds"],
        [
            [name, found["unreadable"], found["different"], found["seconds"]]
            for name, found in results.items()
        ],
    )
    save("killed", options=vars(options), results=results)


def make(path: Path | None, tol: float) -> mk.MKLClassifier:
    """A fit of some seconds, with checkpoints if there is a path."""
    return mk.MKLClassifier(
        KERNELS, p=1.05, C=100.0, tol=tol, checkpoint=path, storage="float64",
        random_state=0,
    )  # fmt: skip


def fit(path: Path | None, tol: float, out: Path) -> None:
    """One fit; the model is saved at its end."""
    X, y = load_digits(return_X_y=True)
    make(path, tol).fit(X, y).save(out)


def kill_fits(
    folder: Path, rng: np.random.Generator, kills: int, tol: float
) -> dict[str, Any]:
    """Kill until enough, restarting from nothing whenever a fit has ended."""
    whole, seconds = timed(lambda: run_whole(fit, None, tol, folder / "whole"))
    del whole
    state, out = folder / "state", folder / "resumed"
    unreadable = different = ended = done = 0
    began = time.perf_counter()
    while done < kills or ended == 0:
        patience = np.inf if done == kills else rng.uniform(0.0, 0.7 * seconds)
        finished = killed(fit, (state, tol, out), patience)
        done += not finished
        unreadable += state.exists() and not readable(state)
        if finished:
            ended += 1
            different += not equal(folder / "whole", out)
            state.unlink()
    return {
        "unreadable": unreadable,
        "different": different,
        "ended": ended,
        "uninterrupted": seconds,
        "seconds": time.perf_counter() - began,
        "leftovers": leftovers(folder),
    }


def save_for_ever(one: Path, other: Path, target: Path) -> None:
    """Replace a model file by another, again and again."""
    models = [mk.load(one), mk.load(other)]
    while True:
        for model in models:
            model.save(target)


def kill_saves(folder: Path, rng: np.random.Generator, kills: int) -> dict[str, Any]:
    """After every kill the file must be one of the two, whole."""
    one, other, target = (folder / name for name in ("one", "other", "target"))
    run_whole(fit, None, 1e-1, one)
    run_whole(fit, None, 1e-3, other)
    unreadable = different = 0
    began = time.perf_counter()
    for _ in range(kills):
        # Beyond the imports, so that the moment falls into the saving.
        killed(save_for_ever, (one, other, target), 3.0 + rng.uniform(0.0, 1.0))
        if not target.exists():
            continue
        if not readable(target):
            unreadable += 1
        elif not (equal(one, target) or equal(other, target)):
            different += 1
    return {
        "unreadable": unreadable,
        "different": different,
        "seconds": time.perf_counter() - began,
        "leftovers": leftovers(folder),
    }


def run_whole(work: Any, *arguments: Any) -> None:
    """To its end, in a process of its own."""
    if not killed(work, arguments, np.inf):
        raise RuntimeError("expected the fit to end, got a process that failed.")


def killed(work: Any, arguments: tuple[Any, ...], patience: float) -> bool:
    """Run in a process, kill it after `patience` seconds; whether it had ended."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join(None if np.isinf(patience) else patience)
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode == 0


def readable(path: Path) -> bool:
    """Whether the file is whole."""
    try:
        read_container(path)
    except ValueError:
        return False
    return True


def equal(one: Path, other: Path) -> bool:
    """Whether two models predict the same bits."""
    X, _ = load_digits(return_X_y=True)
    scores = [mk.load(path).decision_function(X[::10]) for path in (one, other)]
    return bool(np.array_equal(*scores))


def leftovers(folder: Path) -> int:
    """Unfinished temporary files that kills left behind; never the named file."""
    return sum(path.name.startswith(".") for path in folder.iterdir())


if __name__ == "__main__":
    main()
