"""The objective after k passes, over C and p: OBSCURE, Pegasos and our solver.

The OBSCURE paper's Figure 1, for all its C (1 to 1,000) and for p from 1.05 to 1.5:
Flowers-17, the three splits of its file. Every value is a multiple of the optimum, by a
bound within a thousandth of it. OBSCURE's first five passes are its online stage. Our
solver has no passes: it counts updates of one row, shown as passes of as many updates
as there are rows, and the objective is that of its certified end (gap 0.01). Beside
them the relative error of the objective that a solver reports, against its value in
float64: OBSCURE and Pegasos keep scores in the precision of the kernels.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from common import console, parse, save, show
from contest import datasets
from contest.objective import best_bound, quartiles
from grade import make_problem

from manykernels.solvers import Auto, Obscure, Pegasos
from manykernels.solvers.loop import Epoch
from manykernels.solvers.problem import Problem

CS = (1.0, 10.0, 100.0, 1000.0)
PS = (1.05, 1.1, 1.25, 1.5)
PASSES = (1, 5, 10, 35, 100)
KNOWN = 1e-3  # how near the optimum the bound is
GAP = 1e-2  # that our solver is asked for


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one split, 200 rows, two values of C and p, 10 passes"),
        seeds=(3, "splits, and seeds of the solvers"),
        rows=(680, "training rows"),
    )
    Cs, ps, passes = CS, PS, PASSES
    if options.quick:
        options.seeds, options.rows = 1, 200
        Cs, ps, passes = CS[1:3], PS[::2], PASSES[:3]
    warnings.simplefilter("ignore")
    why = datasets.missing(lambda: datasets.flowers(options.rows))
    if why is not None:
        console.print(f"Nothing can be measured: {why}")
        return
    lines = []
    for seed in range(options.seeds):
        arena = datasets.flowers(options.rows, seed)
        for C in Cs:
            for p in ps:
                problem = make_problem(arena.bank, arena.target, p, C)
                lines += measure(problem, seed, passes)
    report(lines, passes)
    save("passes", options=vars(options), passes=passes, gap=GAP, lines=lines)


def measure(
    problem: Problem, seed: int, passes: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Multiples of the optimum after some passes, for every solver."""
    optimum = best_bound(problem, KNOWN)
    most, rows = passes[-1], problem.n_rows
    solvers = {
        "OBSCURE": Obscure(5, most - 5, random_state=seed),
        "Pegasos": Pegasos(most, random_state=seed),
        "auto": Auto(GAP, random_state=seed),
    }
    lines = []
    for name, solver in solvers.items():
        began = time.perf_counter()
        result = solver.solve(problem)
        seconds = time.perf_counter() - began
        history, own = result.history, name == "auto"
        updates = sum(line.updates for line in history)
        after = [None if own else best_after(history, k) / optimum for k in passes]
        objective = problem.objective(result.model)
        line = {
            "C": problem.C,
            "p": problem.norm.p,
            "seed": seed,
            "solver": name,
            "after": after,
            "after_five": after[passes.index(5)],
            "end": objective / optimum,
            "rounding": abs(result.objective / objective - 1.0),
            "passes": updates / rows if own else float(len(history)),
            "updates": updates,
            "seconds": seconds,
        }
        console.print(line)
        lines.append(line)
    return lines


def best_after(history: list[Epoch], passes: int) -> float:
    """The lowest objective so far; an online stage may end before its time."""
    return min(line.objective for line in history[:passes])


def report(lines: list[dict[str, Any]], passes: tuple[int, ...]) -> None:
    """A table: who is lower after five passes, and by how much."""
    rows = []
    for C, p in dict.fromkeys((line["C"], line["p"]) for line in lines):
        here = [line for line in lines if (line["C"], line["p"]) == (C, p)]
        cells: list[Any] = [f"C = {C:g}, p = {p:g}"]
        for name in ("OBSCURE", "Pegasos"):
            own = [line["after"] for line in here if line["solver"] == name]
            cells += [quartiles(values)["median"] for values in zip(*own, strict=True)]
        ends = [line["end"] for line in here if line["solver"] == "auto"]
        rows.append([*cells, float(np.median(ends))])
    head = [f"{name} {k}" for name in ("OBSCURE", "Pegasos") for k in passes]
    show("multiples of the optimum after k passes", ["", *head, "auto"], rows)


if __name__ == "__main__":
    main()
