"""MNIST, 5,000 images, 12 kernels: certified relative gap against time, as a picture.

Only solvers of the same problem stand together. Hinge loss: OBSCURE, Pegasos and our
automatic solver, which is dual ascent there. Smoothed hinge: SVRG and our automatic
solver, which is Newton's method there. Time includes all that a solver does, its
certificates too. Every seed draws images of its own. Needs the MNIST files (downloaded,
or in MANYKERNELS_DATA) and 4 GB of memory.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from common import console, parse, save, show
from contest import datasets
from contest.objective import quartiles
from contest.solvers import FOREVER

from manykernels.banks import Bank
from manykernels.losses import MulticlassHinge, SmoothedHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import SVRG, Auto, Obscure, Pegasos
from manykernels.solvers.loop import Epoch
from manykernels.solvers.problem import Problem

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "gap_against_time.png"
Make = Callable[[float, int], Any]  # from the gap asked for and a seed
GROUPS: dict[str, tuple[Any, dict[str, Make]]] = {
    "hinge": (
        MulticlassHinge(),
        {
            "auto": lambda tol, seed: Auto(tol, random_state=seed),
            "OBSCURE": lambda tol, seed: Obscure(
                5, FOREVER, tol=tol, random_state=seed
            ),
            "Pegasos": lambda tol, seed: Pegasos(FOREVER, tol, random_state=seed),
        },
    ),
    "smoothed hinge": (
        SmoothedHinge(),
        {
            "auto": lambda tol, seed: Auto(tol, random_state=seed),
            "SVRG": lambda tol, seed: SVRG(tol, FOREVER, random_state=seed),
        },
    ),
}
EPS = (1e-1, 1e-2, 1e-3, 1e-4)
POINTS = 60  # of a saved curve at most
Curve = list[tuple[float, float]]  # seconds and relative gap
Curves = dict[tuple[str, str], list[Curve]]  # by loss and solver, one for each seed


def main() -> None:
    """Measure, print, draw and store."""
    options = parse(
        __doc__,
        quick=(False, "500 images, one seed, a second a solver, no picture"),
        train=(5000, "training images"),
        seeds=(3, "draws of the images, and seeds of the solvers"),
        p=(1.25, "norm"),
        C=(1.0, "weight of the losses"),
        tol=(1e-4, "relative gap at which to stop"),
        limit=(15.0, "seconds a solver may take"),
    )
    if options.quick:
        options.train, options.seeds, options.limit = 500, 1, 1.0
    warnings.simplefilter("ignore")
    why = datasets.missing(lambda: datasets.mnist_images(1, 1, 0))
    if why is not None:
        console.print(f"Nothing can be measured: {why}")
        return
    found: Curves = {}
    for seed in range(options.seeds):
        arena = datasets.mnist(options.train, 1, seed)
        few = np.arange(200)
        target = np.unique(arena.target[few], return_inverse=True)[1]
        solve_all(arena.bank.take(few), target, seed, options, 0.5)  # compiles
        curves = solve_all(arena.bank, arena.target, seed, options, options.limit)
        for key, curve in curves.items():
            found.setdefault(key, []).append(curve)
    report(found, vars(options))
    if not options.quick:
        draw(found, options.train)


def solve_all(
    bank: Bank, target: np.ndarray, seed: int, options: Any, limit: float
) -> dict[tuple[str, str], Curve]:
    """The curves of all solvers, each stopped after `limit` seconds."""
    norm, weight = LpGroupNorm(options.p), np.ones(len(target))
    curves = {}
    for group, (loss, solvers) in GROUPS.items():
        n_classes = int(target.max()) + 1
        problem = Problem(bank, target, n_classes, loss, norm, options.C, weight)
        for name, make in solvers.items():
            curves[group, name] = watch(make(options.tol, seed), problem, limit)
    return curves


def watch(solver: Any, problem: Problem, limit: float) -> Curve:
    """Seconds and gaps; our clock also counts what comes before the first round."""
    curve: Curve = []
    began = time.perf_counter()

    def look(line: Epoch) -> bool:
        seconds = time.perf_counter() - began
        curve.append((seconds, line.gap))
        return seconds > limit

    solver.solve(problem, callback=look)
    return curve


def first_time(curve: Curve, eps: float) -> float:
    """Seconds to a gap of eps; infinite if never."""
    return next((seconds for seconds, gap in curve if gap <= eps), np.inf)


def report(found: Curves, options: dict[str, Any]) -> None:
    """Print and store."""
    lines = []
    for (group, name), curves in found.items():
        lines.append(
            {
                "loss": group,
                "solver": name,
                "seconds": [
                    quartiles([first_time(curve, eps) for curve in curves])
                    for eps in EPS
                ],
                "curves": [thinned(curve) for curve in curves],
            }
        )
    rows = [
        [f"{line['loss']}: {line['solver']}", *(s["median"] for s in line["seconds"])]
        for line in lines
    ]
    columns = ["", *(f"s to {eps:g}" for eps in EPS)]
    show(f"MNIST, {options['train']} rows, 12 kernels", columns, rows)
    save("gap_against_time", options=options, eps=EPS, lines=lines)


def thinned(curve: Curve) -> dict[str, list[float]]:
    """Some points of a curve, spread over the logarithm of the rounds."""
    n = len(curve)
    kept = np.unique(np.geomspace(1, n, min(n, POINTS)).round().astype(int)) - 1
    return {
        "time": [curve[i][0] for i in kept],
        "gap": [curve[i][1] for i in kept],
    }


def draw(found: Curves, n_rows: int) -> None:
    """A panel for every loss, a color for every solver, a line for every seed."""
    figure, panels = plt.subplots(
        1, len(GROUPS), figsize=(11, 4.2), layout="constrained", sharey=True
    )
    for axes, (group, (_, solvers)) in zip(panels, GROUPS.items(), strict=True):
        for i, name in enumerate(solvers):
            for number, whole in enumerate(found[group, name]):
                curve = thinned(whole)
                axes.loglog(
                    curve["time"],
                    np.maximum(curve["gap"], 1e-9),
                    color=f"C{i}",
                    linewidth=1.8 if name == "auto" else 1.2,
                    label=name if number == 0 else None,
                )
        axes.set_xlabel("seconds")
        axes.set_title(f"{group} loss, {n_rows:,} MNIST images, 12 kernels", loc="left")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    panels[0].set_ylabel("certified relative gap")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
