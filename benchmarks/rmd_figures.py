"""Figures 1, 2 and 3 of the paper on randomized mirror descent, with our modes.

python benchmarks/rmd_figures.py --figure 2    measures, stores and draws one of them
python benchmarks/rmd_figures.py --draw        draws all that is stored

Figure 1: objective against time. Figure 2: test error and seconds of a fit against the
number of columns, planted monomials. Figure 3: test error on six data sets, which need
their files (see benchmarks/loaders). Seconds of fits are CPU seconds. With --quick
there are fewer runs and rows. Drawing products takes most of the time in Figure 3:
--kept Stoch,UCD measures all other methods and keeps what is stored for these.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from common import RESULTS, console, parse, results_folder, save, show, timed
from joblib import Parallel, delayed
from rmd_data import SIZES, planted_split, table_split
from rmd_drawing import DRAW
from rmd_methods import (
    Method,
    Outcome,
    best_on_validation,
    mirror_descent,
    ours,
    rivals,
    sparse_default,
    stoch,
)
from threadpoolctl import threadpool_limits

from manykernels.compare import (
    HierarchicalKernelLearning,
    PolynomialKernelLearning,
    UniformCoordinateDescent,
    UniformPower,
)
from manykernels.losses.one_score import SquaredError
from manykernels.products import ExplicitLpNorm, RandomizedMirrorDescent
from manykernels.products.blend import blend_weights
from manykernels.products.product_problem import ProductProblem

NAME = "rmd_figure_{}"
CONVERGENCE_DATA = ("german", "ionosphere", "ringnorm", "waveform")
CONVERGENCE_REG = 1e-5
PLANTED_COLUMNS = (5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
PLANTED_REGS = tuple(10.0**k for k in range(2, -9, -2))
TABLE_REGS = tuple(10.0**k for k in range(3, -5, -1))
# Splits 0 to 9, 100 to 107 and 200 to 229 were used to find our modes.
FIRST_SPLIT = 10
KLOFT_LIMIT = "64MB"  # 30 columns: beyond, a fit takes minutes


def main() -> None:
    """Measure, print, store and draw."""
    options = parse(
        __doc__,
        figure=(0, "1, 2 or 3; 0 for all of them"),
        quick=(False, "about a minute for all three; files of their own"),
        draw=(False, "draw what is stored and measure nothing"),
        runs=(10, "random splits in Figure 3, a third of them in Figure 2"),
        kept=("", "methods in Figure 3 not to measure again, by how names begin"),
        jobs=(2, "processes"),
    )
    measures = {1: convergence, 2: planted, 3: tables}
    for figure in [options.figure] if options.figure else measures:
        name, folder = NAME.format(figure), results_folder(options.quick)
        if not options.draw:
            found, seconds = timed(lambda f=figure: measures[f](options))
            save(name, options=vars(options), seconds=seconds, **found)
        record = json.loads((folder / f"{name}.json").read_text())
        console.print(f"Drawn: {DRAW[figure](record, name, options.quick)}")


def on_all(options: Any, work: Any, cells: Sequence[tuple[Any, ...]]) -> list[Any]:
    """work(*cell) for every cell, one core each."""
    return Parallel(options.jobs)(delayed(_alone)(work, cell) for cell in cells)


def _alone(work: Any, cell: tuple[Any, ...]) -> Any:
    with threadpool_limits(limits=1):
        return work(*cell)


# --- Figure 1 ---------------------------------------------------------------


def convergence(options: Any) -> dict[str, Any]:
    """Best objective so far against CPU seconds: C sum loss + 1/2 ||w||^2, C = 1e5."""
    limit = 1.0 if options.quick else 20.0
    share = 0.4 if options.quick else 1.0
    cells = [
        (data, name, limit, share)
        for data in CONVERGENCE_DATA
        for name in ("Kloft", "Stoch", "UCD")
    ]
    found = on_all(options, descent, cells)
    curves: dict[str, dict[str, Any]] = {data: {} for data in CONVERGENCE_DATA}
    for (data, name, *_), curve in zip(cells, found, strict=True):
        curves[data][name] = curve
    rows = [
        [
            data,
            *(
                curves[data][name]["objective"][-1]
                for name in ("Kloft", "Stoch", "UCD")
            ),
        ]
        for data in CONVERGENCE_DATA
    ]
    show(f"objective after {limit:g} s", ["data set", "Kloft", "Stoch", "UCD"], rows)
    return {"seeds": [0], "reg": CONVERGENCE_REG, "limit": limit, "curves": curves}


def descent(data: str, name: str, limit: float, share: float) -> dict[str, list[float]]:
    """The objective of one solver while its time lasts."""
    split = table_split(data, 0, share)
    problem = ProductProblem(
        split.known,
        split.target[split.train],
        np.ones(4),
        C=1.0 / CONVERGENCE_REG,
        intercept=False,
    )
    forever = 10**6
    solver = {
        "Kloft": ExplicitLpNorm(tol=0.0, max_iter=forever),
        "Stoch": RandomizedMirrorDescent(
            forever, tol=0.0, patience=None, look_every=25, random_state=0
        ),
        "UCD": UniformCoordinateDescent(
            forever, tol=0.0, look_every=25, random_state=0
        ),
    }[name]
    began = time.process_time()
    seconds: list[float] = []

    def watch(line: Any) -> bool:
        seconds.append(time.process_time() - began)
        return seconds[-1] > limit

    result = solver.solve(problem, None, watch)
    values = [problem.scale * line.objective for line in result.history]
    return {"seconds": seconds, "objective": list(np.minimum.accumulate(values))}


# --- Figure 2 ---------------------------------------------------------------


def planted(options: Any) -> dict[str, Any]:
    """Relative test error and seconds of a fit against the number of columns."""
    columns = (5, 20, 50) if options.quick else PLANTED_COLUMNS
    runs = 1 if options.quick else max(1, options.runs // 3)
    sizes = (150, 200, 200) if options.quick else (500, 1000, 1000)
    draws = 60 if options.quick else 500
    names = [method.name for method in planted_methods(draws)] + ["Sparse (default)"]
    cells = [
        (r, seed, name, draws, sizes)
        for r in columns[::-1]
        for seed in range(runs)
        for name in names
    ]
    found = on_all(options, planted_cell, cells)
    shape = (len(columns), runs, len(names), 2)
    values = np.array(found, dtype=float).reshape(shape)[::-1]
    mean = values.mean(axis=1)
    for k, what in enumerate(("test MSE / variance", "seconds of a fit")):
        rows = [[r, *mean[i, :, k]] for i, r in enumerate(columns)]
        show(f"{what}, mean of {runs} runs", ["r", *names], rows)
    return {
        "columns": columns,
        "seeds": list(range(runs)),
        "runs": runs,
        "draws": draws,
        "sizes": sizes,
        "methods": names,
        "error": _plain(values[..., 0]),
        "fit_seconds": _plain(values[..., 1]),
    }


def planted_methods(draws: int) -> list[Method]:
    """Those of the paper's figure, degree 3."""
    rho = (1, 1, 1, 1)
    return [
        Method("Kloft", ExplicitLpNorm(tol=1e-2, memory_limit=KLOFT_LIMIT), rho),
        Method("Stoch", mirror_descent(draws), rho, kind="paper"),
        Method("Cortes", PolynomialKernelLearning(), rho),
        Method("Bach", HierarchicalKernelLearning(tol=1e-2), (1, 2, 4, 8)),
        Method("Uniform", UniformPower(), rho),
    ]


def planted_cell(
    r: int, seed: int, name: str, draws: int, sizes: tuple[int, ...]
) -> tuple[float, float]:
    """Relative test error and seconds; NaN where the list of products is refused."""
    split = planted_split(r, seed, sizes)
    variance = float(np.var(split.target[split.test]))
    if name == "Sparse (default)":
        error, seconds = sparse_default(split)
        return error / variance, seconds
    method = next(m for m in planted_methods(draws) if m.name == name)
    try:
        found = best_on_validation(method, split, PLANTED_REGS)
    except MemoryError:
        return np.nan, np.nan
    return found.test / variance, found.seconds


# --- Figure 3 ---------------------------------------------------------------


def tables(options: Any) -> dict[str, Any]:
    """Test errors on six data sets, everything chosen on the validation rows."""
    runs = 1 if options.quick else options.runs
    share = 0.3 if options.quick else 1.0
    draws = 40 if options.quick else 1000
    methods = all_methods(draws)
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + runs)
    found = _kept_outcomes(options, methods, seeds)
    # The slowest first, so that no core waits at the end.
    order = ("splice", "ringnorm", "waveform", "german", "ionosphere", "sonar")
    cells = [
        (d, seed, share, m)
        for m in methods
        for d in order
        for seed in seeds
        if (d, seed, m.name) not in found
    ]
    measured = on_all(options, table_cell, cells)
    for (d, seed, _, m), outcome in zip(cells, measured, strict=True):
        found[d, seed, m.name] = outcome
    grid = [
        [[found[d, seed, m.name] for m in methods] for seed in seeds] for d in SIZES
    ]
    values = np.array([[[_numbers(o) for o in run] for run in row] for row in grid])
    validation, test, regs, seconds = np.moveaxis(values, -1, 0)
    together = np.array(
        [
            [_rivals_together(d, seed, share, methods, found) for seed in seeds]
            for d in SIZES
        ]
    )
    summary = _verdict(methods, test.mean(axis=1), together)
    _show_tables(methods, test, together, summary)
    return {
        "seeds": list(seeds),
        "runs": runs,
        "draws": draws,
        "data_sets": list(SIZES),
        "methods": [method.name for method in methods],
        "kinds": [method.kind for method in methods],
        "validation": _plain(validation),
        "test": _plain(test),
        "reg": _plain(regs),
        "fit_seconds": _plain(seconds.mean(axis=1)),
        "rivals_blended_test": _plain(together),
        "verdict": summary,
    }


def _kept_outcomes(
    options: Any, methods: list[Method], seeds: Sequence[int]
) -> dict[tuple[str, int, str], Outcome]:
    """What is stored of the methods that are not to be measured again."""
    if not options.kept:
        return {}
    record = json.loads((RESULTS / f"{NAME.format(3)}.json").read_text())
    beginnings = tuple(options.kept.split(","))
    return {
        (d, seed, method.name): Outcome(
            *(record[key][i][run][place] for key in ("validation", "test", "reg")),
            record["fit_seconds"][i][place],
        )
        for method in methods
        if method.name.startswith(beginnings) and method.name in record["methods"]
        for place in [record["methods"].index(method.name)]
        for i, d in enumerate(record["data_sets"])
        for run, seed in enumerate(seeds)
    }


def _rivals_together(
    data: str,
    seed: int,
    share: float,
    methods: list[Method],
    found: dict[tuple[str, int, str], Outcome],
) -> float:
    """Test error of all rivals whose scores we have, weighed on the validation rows."""
    split = table_split(data, seed, share)
    outcomes = [found[data, seed, m.name] for m in methods if m.kind == "rival"]
    scores = np.column_stack([o.scores for o in outcomes if o.scores is not None])
    rows = split.validation
    weights = blend_weights(SquaredError(), scores[rows], split.target[rows])
    return split.errors(scores @ weights)[1]


def _numbers(outcome: Outcome) -> tuple[float, float, float, float]:
    return outcome.validation, outcome.test, outcome.reg, outcome.seconds


def all_methods(draws: int) -> list[Method]:
    """Ours first."""
    return [*ours(draws), *stoch(draws), *rivals(draws)]


def table_cell(data: str, seed: int, share: float, method: Method) -> Outcome:
    """One method on one split."""
    if hasattr(method.solver, "random_state"):
        method = replace(method, solver=replace(method.solver, random_state=seed))
    return best_on_validation(method, table_split(data, seed, share), TABLE_REGS)


def _verdict(
    methods: list[Method], test: np.ndarray, together: np.ndarray
) -> dict[str, Any]:
    """On how many data sets no rival has a lower mean, for every way to be ours."""
    others = [k for k, method in enumerate(methods) if method.kind == "rival"]
    bar = test[:, others].min(axis=1)
    wins = {
        method.name: int((test[:, k] <= bar).sum())
        for k, method in enumerate(methods)
        if method.kind in ("ours", "paper")
    }
    best = [methods[others[k]].name for k in test[:, others].argmin(axis=1)]
    return {
        "data_sets_won": wins,
        "best_rival": best,
        "its_test": _plain(bar),
        "won_against_blended_rivals": int((test[:, 0] <= together.mean(axis=1)).sum()),
    }


def _show_tables(
    methods: list[Method],
    test: np.ndarray,
    together: np.ndarray,
    summary: dict[str, Any],
) -> None:
    mean = test.mean(axis=1)
    error = (
        test.std(axis=1, ddof=1) / np.sqrt(test.shape[1])
        if test.shape[1] > 1
        else 0 * mean
    )
    rows = [
        [
            method.name,
            *(
                f"{m:.3f} ± {e:.3f}"
                for m, e in zip(mean[:, k], error[:, k], strict=True)
            ),
        ]
        for k, method in enumerate(methods)
    ]
    rows.append(["Rivals, blended", *(f"{m:.3f}" for m in together.mean(axis=1))])
    show("test MSE, mean and standard error", ["", *SIZES], rows)
    console.print(summary)


def _plain(values: np.ndarray) -> Any:
    """Lists without NaN, which JSON does not have."""
    if values.ndim:
        return [_plain(item) for item in values]
    return float(values) if np.isfinite(values) else None


if __name__ == "__main__":
    main()
