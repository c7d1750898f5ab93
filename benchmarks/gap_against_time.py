"""MNIST, 5,000 images, 12 kernels: certified relative gap against time, as a picture.

OBSCURE, Pegasos and dual ascent minimize the hinge loss; SVRG and Newton's method the
smoothed hinge, which is below it by its width at most. Every gap is that of the
solver's own problem. Time includes all that a solver does, its certificates too. Needs
the MNIST files (downloaded, or in MANYKERNELS_DATA) and 2 GB of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from common import parse, save, show
from mnist_speed import block_kernels

import manykernels as mk
from manykernels.banks import Bank, build_bank
from manykernels.kernels import KernelSet
from manykernels.losses import MulticlassHinge, SmoothedHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import DualAscent, Epoch, Obscure, Pegasos, Problem
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton
from manykernels.solvers.svrg.solver import SVRG

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "gap_against_time.png"
HINGE, SMOOTHED = MulticlassHinge(), SmoothedHinge()
SOLVERS: dict[str, tuple[Any, Callable[[float], Any], str]] = {
    "Pegasos": (HINGE, lambda tol: Pegasos(60, tol, random_state=0), "C7"),
    "OBSCURE": (HINGE, lambda tol: Obscure(5, 60, tol=tol, random_state=0), "C1"),
    "dual ascent": (HINGE, lambda tol: DualAscent(tol, random_state=0), "C0"),
    "SVRG, smoothed hinge": (SMOOTHED, lambda tol: SVRG(tol, random_state=0), "C2"),
    "Newton, smoothed hinge": (
        SMOOTHED,
        lambda tol: TruncatedNewton(tol, random_state=0),
        "C3",
    ),
}
EPS = (1e-1, 1e-2, 1e-3, 1e-4)


def main() -> None:
    """Measure, print, draw and store."""
    options = parse(
        __doc__,
        train=(5000, "training images"),
        p=(1.25, "norm"),
        C=(1.0, "weight of the losses"),
        tol=(1e-4, "relative gap at which to stop"),
        limit=(25.0, "seconds a solver may take"),
    )
    mnist = mk.datasets.load_mnist(options.train, 1)
    bank = build_bank(KernelSet.fit(block_kernels(), mnist.data))
    compile_loops(bank, mnist.target, options)
    histories = {
        name: solve(name, bank, mnist.target, options, options.limit)
        for name in SOLVERS
    }
    report(histories, vars(options))
    draw(histories, options.train)


def solve(
    name: str, bank: Bank, target: np.ndarray, options: Any, limit: float
) -> list[Epoch]:
    """The history of one solver, stopped after `limit` seconds."""
    loss, make, _ = SOLVERS[name]
    norm, weight = LpGroupNorm(options.p), np.ones(len(target))
    problem = Problem(bank, target, 10, loss, norm, options.C, weight)
    return (
        make(options.tol)
        .solve(problem, callback=lambda line: line.time > limit)
        .history
    )


def compile_loops(bank: Bank, target: np.ndarray, options: Any) -> None:
    """Compilation is not part of the curves."""
    rows = np.arange(200)
    for name in SOLVERS:
        solve(name, bank.subset(rows), target[rows], options, 1.0)


def first_time(history: list[Epoch], eps: float) -> float | None:
    """Seconds to a gap of eps, or None."""
    return next((line.time for line in history if line.gap <= eps), None)


def report(histories: dict[str, list[Epoch]], options: dict[str, Any]) -> None:
    """Print and store."""
    times = {n: [first_time(h, eps) for eps in EPS] for n, h in histories.items()}
    rows = [[n, *times[n], h[-1].gap, h[-1].time] for n, h in histories.items()]
    columns = ["", *(f"s to {eps:g}" for eps in EPS), "last gap", "seconds"]
    show(f"MNIST, {options['train']} rows, 12 kernels", columns, rows)
    save(
        "gap_against_time",
        options=options,
        eps=EPS,
        seconds=times,
        curves={
            name: {"time": [h.time for h in lines], "gap": [h.gap for h in lines]}
            for name, lines in histories.items()
        },
    )


def draw(histories: dict[str, list[Epoch]], n_rows: int) -> None:
    """One line a solver, both axes logarithmic."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, lines in histories.items():
        style = "-" if SOLVERS[name][0] is HINGE else "--"
        axes.loglog(
            [line.time for line in lines],
            [max(line.gap, 1e-9) for line in lines],
            style,
            color=SOLVERS[name][2],
            marker="o",
            markersize=3,
            label=name,
        )
    axes.set_xlabel("seconds")
    axes.set_ylabel("certified relative gap")
    axes.set_title(f"MNIST, {n_rows:,} images, 12 kernels", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
