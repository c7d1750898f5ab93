"""How the cost of a solution grows with rows, kernels and precision.

The comparison of the SVRG paper's Table 1, measured: seconds to a relative gap on MNIST
for the level method (p = 1), UFO-MKL, OBSCURE, SVRG on the smoothed hinge and our
automatic solver (p = 1.25). A gap counts by the best bound that anybody found for the
same problem, so that no solver pays for weak certificates. Rows double from 250 to
4,000 (twelve kernels), kernels from 3 to 48 (1,000 rows), and the gap shrinks from
1e-1 to 1e-4 (1,000 rows, twelve kernels).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from common import console, exponent, parse, save, show
from contest import datasets
from contest.datasets import Arena
from contest.objective import follow, reached
from contest.solvers import FOREVER
from grade import make_problem

from manykernels import compare
from manykernels import solvers as mks
from manykernels.banks import GramBank
from manykernels.losses import SmoothedHinge
from manykernels.solvers import Problem

C = 1.0
EPS = (1e-1, 1e-2, 1e-3, 1e-4)
AT = 1  # index of the gap at which rows and kernels are varied
ROWS = (250, 500, 1000, 2000, 4000)
KERNELS = (3, 6, 12, 24, 48)
BASE_ROWS, BASE_KERNELS = 1000, 12


@dataclass(frozen=True)
class Entrant:
    """A solver with the norm and the loss it is measured with."""

    make: Callable[[float, int], Any]  # from the gap asked for and a seed
    p: float = 1.25
    smooth: bool = False
    one_run: bool = False  # the gap asked for makes no difference on the way


SOLVERS = {
    "auto": Entrant(lambda tol, seed: mks.Auto(tol, random_state=seed)),
    "level method, p = 1": Entrant(
        lambda tol, _: compare.LevelMethod(tol, FOREVER), p=1.0
    ),
    "UFO-MKL": Entrant(
        lambda tol, seed: compare.UFO(FOREVER, tol=tol, random_state=seed), one_run=True
    ),
    "OBSCURE": Entrant(
        lambda tol, seed: mks.Obscure(5, FOREVER, tol=tol, random_state=seed),
        one_run=True,
    ),
    "SVRG, smoothed hinge": Entrant(
        lambda tol, seed: mks.SVRG(tol, FOREVER, random_state=seed), smooth=True
    ),
}


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "smaller sizes"),
        limit=(8.0, "seconds a solver may take"),
        seeds=(1, "seeds of the solvers; medians are shown"),
    )
    if options.quick:
        options.limit, options.seeds = 1.5, 1
    warnings.simplefilter("ignore")
    largest = 1000 if options.quick else ROWS[-1]
    why = datasets.missing(lambda: datasets.mnist(200, 1))
    if why is not None:
        console.print(f"Nothing can be measured: {why}")
        return
    whole = datasets.mnist(largest, 1)
    rows = [n for n in ROWS if n <= largest]
    kernels = [f for f in KERNELS if f <= 12 or not options.quick]
    curves = {
        "rows": {n: times(some_rows(whole, n), options) for n in rows},
        "kernels": {
            f: times(some_kernels(some_rows(whole, BASE_ROWS), f), options)
            for f in kernels
        },
    }
    report(curves, vars(options))


def some_rows(arena: Arena, n_rows: int) -> Arena:
    """The first rows only."""
    bank = GramBank(arena.bank.stack[:n_rows, :, :n_rows])
    return replace(arena, bank=bank, target=arena.target[:n_rows], test=None)


def some_kernels(arena: Arena, n_kernels: int) -> Arena:
    """The first kernels; above twelve, powers 2, 3, ... of them join.

    A power of a positive semi-definite kernel is one, too.
    """
    stack = arena.bank.stack
    more = -(-n_kernels // stack.shape[1])
    powers = np.concatenate([stack**k for k in range(1, more + 1)], axis=1)
    return replace(arena, bank=GramBank(powers[:, :n_kernels]))


def times(arena: Arena, options: Any) -> dict[str, list[float | None]]:
    """Median seconds to every gap, for each solver."""
    found = {}
    for name, entrant in SOLVERS.items():
        problem = make_problem(arena.bank, arena.target, entrant.p, C)
        if entrant.smooth:
            problem = replace(problem, loss=SmoothedHinge())
        bound = best_bound(problem)
        entrant.make(0.1, 0).solve(problem, callback=lambda _: True)  # compiles
        runs = [
            seconds_to(entrant, problem, bound, seed, options.limit)
            for seed in range(options.seeds)
        ]
        middle = np.median(runs, axis=0)
        found[name] = [float(t) if np.isfinite(t) else None for t in middle]
        shape = f"{arena.bank.n_rows} rows, {arena.bank.n_blocks} kernels"
        console.print(f"{shape}, {name}: {found[name]}")
    return found


def seconds_to(
    entrant: Entrant, problem: Problem, bound: float, seed: int, limit: float
) -> list[float]:
    """Seconds until the model is within each gap of the bound."""
    asked = EPS[-1:] if entrant.one_run else EPS
    runs = {tol: follow(entrant.make(tol, seed), problem, limit) for tol in asked}
    return [
        reached(runs.get(eps, runs[asked[-1]]), problem, eps, bound)[1] for eps in EPS
    ]


def best_bound(problem: Problem, tol: float = EPS[-1] / 10) -> float:
    """A dual value within `tol` of the optimum, by the automatic solver."""
    result = mks.Auto(tol, 500, random_state=0).solve(problem)
    return result.objective - result.duality_gap


def report(curves: dict[str, dict[int, Any]], options: dict[str, Any]) -> None:
    """Tables and the exponents of the growth."""
    fits: dict[str, dict[str, float | None]] = {name: {} for name in SOLVERS}
    for axis, by_size in curves.items():
        sizes = list(by_size)
        for name in SOLVERS:
            fits[name][axis] = fit(sizes, [by_size[s][name][AT] for s in sizes])
        rows = [
            [n, *(by_size[s][n][AT] for s in sizes), fits[n][axis]] for n in SOLVERS
        ]
        show(
            f"seconds to {EPS[AT]:g} against {axis}",
            ["", *map(str, sizes), "exponent"],
            rows,
        )
    precise = curves["rows"][BASE_ROWS]
    for name in SOLVERS:
        fits[name]["1 / eps"] = fit([1 / eps for eps in EPS], precise[name])
    rows = [[n, *precise[n], fits[n]["1 / eps"]] for n in SOLVERS]
    show(
        f"seconds to a gap, {BASE_ROWS} rows",
        ["", *(f"{eps:g}" for eps in EPS), "exponent of 1 / eps"],
        rows,
    )
    save("growth", options=options, eps=EPS, at=EPS[AT], seconds=curves, exponents=fits)


def fit(sizes: list[float], seconds: list[float | None]) -> float | None:
    """The exponent, over the sizes that were solved in time."""
    pairs = [(s, t) for s, t in zip(sizes, seconds, strict=True) if t is not None]
    return exponent(*zip(*pairs, strict=True)) if len(pairs) > 1 else None


if __name__ == "__main__":
    main()
