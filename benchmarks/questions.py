"""Three questions of the OBSCURE paper's Figure 2, on Flowers-17, mfeat and MNIST.

What does p do to accuracy and time? Does OBSCURE need more or fewer iterations when
there are more kernels? How does the time grow with the number of training rows? The
paper counts iterations to a given accuracy; here are passes and updates to fixed test
accuracies, with kernels that a seed draws, and next to them passes and seconds to a
relative gap (by a bound near the optimum). C = 10. Every seed has rows of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from common import console, exponent, parse, save, show
from contest import datasets
from contest.datasets import Arena, some_kernels, some_rows
from contest.objective import Graded, accuracy, best_bound, follow, quartiles
from contest.solvers import FOREVER
from grade import make_problem

from manykernels.hot.mirror_passes import MirrorRule
from manykernels.solvers import Auto, Obscure
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.problem import Problem

C = 10.0
P = 1.25  # but for the question about p
GAP = 1e-2
ROUGH = 1e-1  # what OBSCURE reaches in reasonable time
P_VALUES = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)
LEVELS = {  # accuracies that few kernels reach late, and many soon
    "flowers17": (0.4, 0.5, 0.6, 0.7),
    "mfeat": (0.8, 0.9, 0.95, 0.97),
    "mnist": (0.7, 0.8, 0.9, 0.94),
}
ONLINE, BATCH = 5, 30  # passes of OBSCURE's stages
LOOKS = 40  # at the accuracy, spread over the logarithm of the rows visited
Load = Callable[[int], Arena]
Lines = list[dict[str, Any]]


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one seed, fewer rows"),
        seeds=(3, "splits or draws of rows, draws of kernels, seeds of OBSCURE"),
        limit=(5.0, "seconds OBSCURE may take"),
    )
    if options.quick:
        options.seeds, options.limit = 1, 1.0
    warnings.simplefilter("ignore")
    arenas = {
        name: cache(load)
        for name, load in loaders(options.quick).items()
        if usable(name, load)
    }
    save(
        "questions",
        options=vars(options),
        levels=LEVELS,
        sizes={name: load(0).bank.n_rows for name, load in arenas.items()},
        p=effect_of_p(arenas, options.seeds),
        accuracy=kernels_to_accuracy(arenas, options.seeds),
        kernels=effect_of_kernels(arenas, options),
        rows=effect_of_rows(arenas, options),
    )


def loaders(quick: bool) -> dict[str, Load]:
    """Data sets by name; each takes a seed."""
    flowers, mfeat, mnist = (200, 200, 300) if quick else (680, 1000, 2000)
    return {
        "flowers17": lambda seed: datasets.flowers(flowers, seed),
        "mfeat": lambda seed: datasets.of_views("mfeat", mfeat, seed),
        "mnist": lambda seed: datasets.mnist(mnist, 1000, seed),
    }


def usable(name: str, load: Load) -> bool:
    """Whether the files are there; tells if not."""
    why = datasets.missing(lambda: load(0))
    if why is not None:
        console.print(f"{name} is left out: {why}")
    return why is None


def effect_of_p(arenas: dict[str, Load], seeds: int) -> Lines:
    """Accuracy, seconds and kernels in use, by p."""
    lines = []
    for name, load in arenas.items():
        for seed in range(seeds):
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


def counts(most: int) -> list[int]:
    """Numbers of kernels: some, all, and twice as many."""
    return sorted({*(n for n in (1, 2, 4, 8) if n < most), most, 2 * most})


def kernels_to_accuracy(arenas: dict[str, Load], seeds: int) -> Lines:
    """OBSCURE's passes and updates to fixed accuracies, by the number of kernels."""
    lines = []
    for name, load in arenas.items():
        for count in counts(load(0).bank.n_blocks):
            found = [
                first_looks(some_kernels(load(seed), count, seed), seed, LEVELS[name])
                for seed in range(seeds)
            ]
            passes, updates = np.moveaxis(np.array(found), -1, 0)  # (seeds, levels)
            lines.append(
                {
                    "data": name,
                    "kernels": count,
                    "passes": [quartiles(column) for column in passes.T],
                    "updates": [quartiles(column) for column in updates.T],
                }
            )
    for name in arenas:
        rows = [
            [line["kernels"], *(cell["median"] for cell in line["updates"])]
            for line in lines
            if line["data"] == name
        ]
        head = ["kernels", *(f"{level:.0%}" for level in LEVELS[name])]
        show(f"{name}: OBSCURE's updates to a test accuracy", head, rows)
    return lines


def first_looks(
    arena: Arena, seed: int, levels: tuple[float, ...]
) -> list[tuple[float, float]]:
    """Passes and updates to each level; infinite where it is never seen."""
    never = (np.inf, np.inf)
    problem = make_problem(arena.bank, arena.target, P, C)
    looks = list(course(problem, arena, np.random.default_rng(seed)))
    return [
        next(((p, u) for p, u, seen in looks if seen >= level), never)
        for level in levels
    ]


def course(
    problem: Problem, arena: Arena, rng: np.random.Generator
) -> Iterator[tuple[float, int, float]]:
    """Passes, updates and accuracy on OBSCURE's way; more often than once a pass."""
    n, q, reg = problem.n_rows, problem.norm.q, problem.reg
    descent = MirrorDescent(problem)
    total = ONLINE + BATCH
    order = np.concatenate([rng.permutation(n) for _ in range(total)])
    stops = np.unique(np.geomspace(n / 20, total * n, LOOKS).astype(int))
    stops = np.union1d(stops, ONLINE * n)  # where the stage changes
    rule, visited, updates = MirrorRule(q, reg, eta=2.0, online=True), 0, 0
    for stop in stops:
        if visited == ONLINE * n:
            radius = float(np.sqrt(2.0 * descent.objective() / reg))
            rule = MirrorRule(q, reg, self_tuned=True, radius=radius)
        updates += descent.run_pass(rule, order[visited:stop])
        visited = int(stop)
        yield visited / n, updates, accuracy(arena, descent.model())


def effect_of_kernels(arenas: dict[str, Load], options: Any) -> Lines:
    """OBSCURE's passes and seconds to a rough gap, by the number of kernels."""
    lines = [
        {
            "data": name,
            "kernels": count,
            **to_gaps(
                [some_kernels(load(seed), count) for seed in range(options.seeds)],
                options.limit,
            ),
        }
        for name, load in arenas.items()
        for count in counts(load(0).bank.n_blocks)
    ]
    show_gaps(lines, "kernels")
    return lines


def effect_of_rows(arenas: dict[str, Load], options: Any) -> Lines:
    """Seconds of OBSCURE and of our solver, by the number of rows."""
    lines = []
    for name, load in arenas.items():
        most = load(0).bank.n_rows
        for n_rows in (most // 8, most // 4, most // 2, most):
            parts = [some_rows(load(seed), n_rows) for seed in range(options.seeds)]
            lines.append({"data": name, "rows": n_rows} | to_gaps(parts, options.limit))
    show_gaps(lines, "rows")
    for name in arenas:
        own = [line for line in lines if line["data"] == name]
        sizes = [line["rows"] for line in own]
        auto = exponent(sizes, [line["auto"]["median"] for line in own])
        console.print(f"{name}: auto grows as rows^{auto:.2f}")
    return lines


def show_gaps(lines: Lines, axis: str) -> None:
    """Medians."""
    keys = ("passes", "seconds", "auto")
    show(
        f"OBSCURE to a gap of {ROUGH:g}, auto to {GAP:g}",
        ["data", axis, "passes", "seconds", "seconds, auto"],
        [
            [line["data"], line[axis], *(line[key]["median"] for key in keys)]
            for line in lines
        ],
    )


def to_gaps(arenas: list[Arena], limit: float) -> dict[str, Any]:
    """Passes and seconds of OBSCURE to the rough gap, seconds of ours to GAP.

    Quartiles over the seeds, which are the places in the list.
    """
    found = [obscure_and_ours(arena, seed, limit) for seed, arena in enumerate(arenas)]
    keys = ("passes", "seconds", "auto")
    return {
        key: quartiles(values)
        for key, values in zip(keys, zip(*found, strict=True), strict=True)
    }


def obscure_and_ours(
    arena: Arena, seed: int, limit: float
) -> tuple[float, float, float]:
    """Passes and seconds of OBSCURE, seconds of ours."""
    problem = make_problem(arena.bank, arena.target, P, C)
    bound = best_bound(problem, ROUGH / 100)
    Obscure(1, 1, random_state=0).solve(problem)  # compiles
    obscure = Obscure(5, FOREVER, tol=ROUGH, random_state=seed)
    graded = Graded(follow(obscure, problem, limit), problem)
    ours = follow(Auto(GAP, random_state=seed), problem, np.inf)
    return (*graded.first(ROUGH, bound), ours.models[-1][0])


if __name__ == "__main__":
    main()
