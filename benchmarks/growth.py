"""How the cost of a solution grows with rows, kernels and precision.

The comparison of the SVRG paper's Table 1, measured on MNIST, C = 1: seconds until the
model is within a relative gap of a bound near the optimum, so that no solver pays for
weak certificates. Only solvers of the same problem stand together, and our automatic
solver is in every group: OBSCURE and UFO-MKL (hinge, p = 1.25), the level method
(hinge, p = 1), SVRG (smoothed hinge, p = 1.25), and SVRG on explicit features, where a
step does not depend on the number of rows, as the paper counts. Rows double (twelve
kernels, or 16 blocks of features), kernels double (1,000 rows), and the gap shrinks
from 1e-1 to 1e-4 (1,000 rows, twelve kernels). Every seed draws rows of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from common import console, exponent, parse, save, show
from contest import datasets
from contest.datasets import some_kernels, some_rows
from contest.objective import Graded, best_bound, fastest_run, quartiles
from contest.solvers import FOREVER
from grade import make_problem

from manykernels import compare
from manykernels import solvers as mks
from manykernels.losses import SmoothedHinge
from manykernels.solvers.problem import Problem

C = 1.0
EPS = (1e-1, 1e-2, 1e-3, 1e-4)
AT = 1e-2  # the gap at which rows and kernels are varied
ROWS = (500, 1000, 2000, 4000)
KERNELS = (3, 6, 12, 24, 48)
BASE_ROWS, BASE_KERNELS = 1000, 12


@dataclass(frozen=True)
class Group:
    """Solvers of one problem; each is made from the gap asked for and a seed."""

    p: float
    solvers: dict[str, Callable[[float, int], Any]]
    smooth: bool = False

    def problem(self, bank: Any, target: np.ndarray) -> Problem:
        """The hinge loss, or the smoothed one."""
        problem = make_problem(bank, target, self.p, C)
        return replace(problem, loss=SmoothedHinge()) if self.smooth else problem


def _auto(tol: float, seed: int) -> Any:
    return mks.Auto(tol, random_state=seed)


def _svrg(tol: float, seed: int) -> Any:
    return mks.SVRG(tol, FOREVER, random_state=seed)


SMOOTHED = Group(1.25, {"auto": _auto, "SVRG": _svrg}, smooth=True)
GROUPS = {
    "hinge, p = 1.25": Group(
        1.25,
        {
            "auto": _auto,
            "OBSCURE": lambda tol, seed: mks.Obscure(
                5, FOREVER, tol=tol, random_state=seed
            ),
            "UFO-MKL": lambda tol, seed: compare.UFO(
                FOREVER, tol=tol, random_state=seed
            ),
        },
    ),
    "hinge, p = 1": Group(
        1.0,
        {
            "auto": _auto,
            "level method": lambda tol, seed: compare.LevelMethod(tol, FOREVER, seed),
        },
    ),
    "smoothed hinge, p = 1.25": SMOOTHED,
}
FEATURES = "smoothed hinge, p = 1.25, explicit features"
Seconds = dict[str, dict[str, list[float]]]  # by group and solver: a value for each eps


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "up to 500 rows, 12 kernels, one seed"),
        limit=(8.0, "seconds a solver may take"),
        seeds=(3, "draws of the rows, and seeds of the solvers"),
    )
    warnings.simplefilter("ignore")
    why = datasets.missing(lambda: datasets.mnist_images(1, 1, 0))
    if why is not None:
        console.print(f"Nothing can be measured: {why}")
        return
    sizes = {"rows": ROWS, "kernels": KERNELS, "features": ROWS}
    base = BASE_ROWS
    if options.quick:
        options.limit, options.seeds, base = 0.5, 1, 250
        sizes = {"rows": (250, 500), "kernels": (3, 12), "features": (250, 500)}
    runs = [one_seed(seed, sizes, base, options.limit) for seed in range(options.seeds)]
    report(runs, sizes, vars(options) | {"base_rows": base})


def one_seed(
    seed: int, sizes: dict[str, tuple[int, ...]], base: int, limit: float
) -> dict[str, dict[Any, Seconds]]:
    """Seconds by what varies and its value."""
    whole = datasets.mnist(max(sizes["rows"]), 1, seed)
    some = some_rows(whole, base)
    curves: dict[str, dict[Any, Seconds]] = {"rows": {}, "kernels": {}, "features": {}}
    for n in sizes["rows"]:
        part = some_rows(whole, n)
        curves["rows"][n] = times(GROUPS, part.bank, part.target, (AT,), seed, limit)
    for f in sizes["kernels"]:
        part = some_kernels(some, f)
        curves["kernels"][f] = times(GROUPS, part.bank, part.target, (AT,), seed, limit)
    for n in sizes["features"]:
        bank, target = datasets.mnist_features(n, seed)
        own = {FEATURES: SMOOTHED}
        curves["features"][n] = times(own, bank, target, (AT,), seed, limit)
    found = times(GROUPS, some.bank, some.target, EPS, seed, limit)
    curves["precision"] = {
        eps: {
            group: {name: [values[i]] for name, values in solvers.items()}
            for group, solvers in found.items()
        }
        for i, eps in enumerate(EPS)
    }
    return curves


def times(
    groups: dict[str, Group],
    bank: Any,
    target: np.ndarray,
    wanted: tuple[float, ...],
    seed: int,
    limit: float,
) -> Seconds:
    """Seconds to the gaps wanted, of every solver in every group."""
    found: Seconds = {}
    for name, group in groups.items():
        problem = group.problem(bank, target)
        bound = best_bound(problem, wanted[-1] / 10)
        found[name] = {
            solver: [
                seconds_to(make, problem, eps, bound, seed, limit) for eps in wanted
            ]
            for solver, make in group.solvers.items()
        }
        console.print(f"{bank.n_rows} rows, {bank.n_blocks} kernels: {found[name]}")
    return found


def seconds_to(
    make: Callable[[float, int], Any],
    problem: Problem,
    eps: float,
    bound: float,
    seed: int,
    limit: float,
) -> float:
    """Seconds until the model is within the gap that was asked for."""
    make(0.1, 0).solve(problem, callback=lambda _: True)  # compiles
    recorder = fastest_run(lambda: make(eps, seed), problem, limit)
    return Graded(recorder, problem).first(eps, bound)[1]


def report(
    runs: list[dict[str, dict[Any, Seconds]]],
    sizes: dict[str, tuple[int, ...]],
    options: dict[str, Any],
) -> None:
    """Tables, and the exponents of the growth with their spread over the seeds."""
    tables = {}
    for axis, points in (sizes | {"precision": EPS}).items():
        steps = [1 / x for x in points] if axis == "precision" else points
        tables[axis] = {
            f"{group}: {solver}": line(runs, axis, points, steps, group, solver)
            for group, solvers in runs[0][axis][points[0]].items()
            for solver in solvers
        }
        rows = [
            [
                name,
                *(cell["median"] for cell in one["seconds"]),
                one["exponent"]["median"],
            ]
            for name, one in tables[axis].items()
        ]
        show(f"seconds against {axis}", ["", *map(str, points), "exponent"], rows)
    save(
        "growth",
        options=options,
        at=AT,
        points=sizes | {"precision": EPS},
        tables=tables,
    )


def line(
    runs: list[dict[str, dict[Any, Seconds]]],
    axis: str,
    points: Any,
    steps: Any,
    group: str,
    solver: str,
) -> dict[str, Any]:
    """Quartiles of the seconds at every point, and of the exponent."""
    seconds = np.array(
        [[run[axis][point][group][solver][0] for point in points] for run in runs]
    )
    fits = [fit(steps, values) for values in seconds]
    known = [value for value in fits if value is not None]
    never = dict.fromkeys(("q25", "median", "q75"))
    return {
        "seconds": [quartiles(column) for column in seconds.T],
        "exponent": quartiles(known) if known else never,
    }


def fit(sizes: Any, seconds: np.ndarray) -> float | None:
    """The exponent, over the sizes that were solved in time."""
    solved = np.isfinite(seconds)
    if solved.sum() < 2:
        return None
    return exponent(np.array(sizes)[solved], seconds[solved])


if __name__ == "__main__":
    main()
