"""Three questions of the OBSCURE paper's Figure 2, on Flowers-17, mfeat and MNIST.

What does p do to accuracy and time? Does OBSCURE need more or fewer updates when there
are more kernels? How does the time grow with the number of training rows? Seconds and
updates are those to a relative gap (by the best bound known), C = 10.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from common import console, exponent, parse, save, show
from contest import datasets
from contest.datasets import Arena
from contest.objective import accuracy, follow, reached
from contest.solvers import FOREVER
from grade import make_problem
from growth import best_bound, some_kernels

from manykernels.solvers import Auto, Obscure

C = 10.0
GAP = 1e-2
ROUGH = 1e-1  # what OBSCURE reaches in reasonable time
P_VALUES = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one seed, fewer rows"),
        seeds=(2, "splits, and seeds of OBSCURE"),
        limit=(10.0, "seconds OBSCURE may take"),
    )
    if options.quick:
        options.seeds, options.limit = 1, 1.5
    warnings.simplefilter("ignore")
    arenas = {
        name: load
        for name, load in loaders(options.quick).items()
        if usable(name, load)
    }
    save(
        "questions",
        options=vars(options),
        p=effect_of_p(arenas, options),
        kernels=effect_of_kernels(arenas, options),
        rows=effect_of_rows(arenas, options),
    )


def loaders(quick: bool) -> dict[str, Callable[[int], Arena]]:
    """Data sets by name; each takes a seed."""
    flowers, mfeat, mnist = (300, 200, 500) if quick else (680, 1000, 2000)
    return {
        "flowers17": lambda seed: datasets.flowers(flowers, seed),
        "mfeat": lambda seed: datasets.of_views("mfeat", mfeat, seed),
        "mnist": lambda _: datasets.mnist(mnist, 1000),
    }


def usable(name: str, load: Callable[[int], Arena]) -> bool:
    """Whether the files are there; tells if not."""
    why = datasets.missing(lambda: load(0))
    if why is not None:
        console.print(f"{name} is left out: {why}")
    return why is None


def effect_of_p(
    arenas: dict[str, Callable[[int], Arena]], options: Any
) -> list[dict[str, Any]]:
    """Accuracy, seconds and kernels in use, by p."""
    lines = []
    for name, load in arenas.items():
        for seed in range(options.seeds):
            arena = load(seed)
            for p in P_VALUES:
                problem = make_problem(arena.bank, arena.target, p, C)
                solver = Auto(GAP, random_state=seed)
                solver.solve(problem)  # compiles
                recorder = follow(solver, problem, np.inf)
                seconds, model, _ = recorder.models[-1]
                lines.append(
                    {
                        "data": name,
                        "p": p,
                        "seed": seed,
                        "seconds": seconds,
                        "accuracy": accuracy(arena, model),
                        "used": int(np.sum(model.weights > 0)),
                    }
                )
    for name in arenas:
        own = [line for line in lines if line["data"] == name]
        rows = [
            [
                key,
                *(
                    float(np.mean([x[key] for x in own if x["p"] == p]))
                    for p in P_VALUES
                ),
            ]
            for key in ("accuracy", "seconds", "used")
        ]
        show(f"{name}: effect of p", ["", *(f"{p:g}" for p in P_VALUES)], rows)
    return lines


def effect_of_kernels(
    arenas: dict[str, Callable[[int], Arena]], options: Any
) -> list[dict[str, Any]]:
    """OBSCURE's passes and seconds to a rough gap, by the number of kernels."""
    lines = []
    for name, load in arenas.items():
        whole = load(0)
        most = whole.bank.n_blocks
        counts = sorted({*(n for n in (1, 2, 4, 8) if n < most), most, 2 * most})
        for count in counts:
            arena = some_kernels(whole, count)
            lines.append({"data": name, "kernels": count, **obscure(arena, options)})
    columns = ["data", "kernels", "passes", "seconds", "seconds, auto"]
    keys = ("data", "kernels", "passes", "seconds", "auto")
    show(
        f"OBSCURE to a gap of {ROUGH:g}",
        columns,
        [[line[key] for key in keys] for line in lines],
    )
    return lines


def effect_of_rows(
    arenas: dict[str, Callable[[int], Arena]], options: Any
) -> list[dict[str, Any]]:
    """Seconds of OBSCURE and of our solver, by the number of rows."""
    lines = []
    for name, load in arenas.items():
        whole = load(0)
        order = np.random.default_rng(0).permutation(whole.bank.n_rows)
        for part in (8, 4, 2, 1):
            rows = np.sort(order[: len(order) // part])
            target = np.unique(whole.target[rows], return_inverse=True)[1]
            arena = replace(whole, bank=whole.bank.subset(rows), target=target)
            lines.append({"data": name, "rows": len(rows), **obscure(arena, options)})
    for name in arenas:
        own = [line for line in lines if line["data"] == name]
        keys = ("rows", "passes", "seconds", "auto")
        show(
            f"{name}: seconds",
            ["rows", "passes", f"OBSCURE to {ROUGH:g}", f"auto to {GAP:g}"],
            [[line[key] for key in keys] for line in own],
        )
        sizes = [line["rows"] for line in own]
        auto = exponent(sizes, [line["auto"] for line in own])
        console.print(f"auto grows as rows^{auto:.2f}")
    return lines


def obscure(arena: Arena, options: Any) -> dict[str, float | None]:
    """Median passes and seconds of OBSCURE to the rough gap, seconds of ours to GAP."""
    problem = make_problem(arena.bank, arena.target, 1.25, C)
    bound = best_bound(problem, ROUGH / 100)
    Obscure(1, 1, random_state=0).solve(problem)  # compiles
    found, auto = [], []
    for seed in range(options.seeds):
        recorder = follow(
            Obscure(5, FOREVER, tol=ROUGH, random_state=seed),
            problem,
            options.limit,
        )
        found.append(reached(recorder, problem, ROUGH, bound))
        recorder = follow(Auto(GAP, random_state=seed), problem, np.inf)
        auto.append(recorder.models[-1][0])
    passes, seconds = np.median(found, axis=0)
    solved = bool(np.isfinite(seconds))
    return {
        "passes": float(passes) if solved else None,
        "seconds": float(seconds) if solved else None,
        "auto": float(np.median(auto)),
    }


if __name__ == "__main__":
    main()
