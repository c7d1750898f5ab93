"""The tables of docs/benchmarks.md, from saved results: one function a table.

Each takes a function that loads what a benchmark saved, and the words after the name of
the table; it returns the head and the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Load = Callable[[str], dict[str, Any]]
Lines = list[dict[str, Any]]
Rows = list[list[Any]]
GOAL = 1  # the relative gap that leads are about, among those of the race


def race(load: Load, argument: str) -> Rows:
    """Seconds to each gap on one data set for one p."""
    name, p = argument.split()
    saved = load("race")
    (found,) = (
        one
        for one in saved["summaries"]
        if one["data"] == name and one["p"] == float(p)
    )
    head = ["", *(f"s to {eps:g}" for eps in saved["eps"])]
    head += [f"s, model within {eps:g}" for eps in saved["eps"]] + ["accuracy, %"]
    return [head] + [
        [
            solver,
            *one.get("certified", [None] * 3),
            *one.get("reached", [None] * 3),
            100 * one["accuracy"],
        ]
        for solver, one in found["solvers"].items()
    ]


def lead(load: Load, _: str) -> Rows:
    """How many times faster than the fastest rival ours reaches 1e-2."""
    head = ["", "certified", "model within 0.01", "one SVM, s", "largest possible"]
    return [head] + [
        [
            f"{one['data']}, p = {one['p']:g}",
            *one["lead"].values(),
            one["one_svm"],
            one["lead"]["certified"]
            * one["solvers"]["auto"]["certified"][GOAL]
            / one["one_svm"],
        ]
        for one in load("race")["summaries"]
    ]


def useful(load: Load, _: str) -> Rows:
    """Seconds until a model is within a point of the accuracy that ours ends with."""
    marks = load("race")["marks"]
    contests = list(dict.fromkeys((one["data"], one["p"]) for one in marks))
    solvers = dict.fromkeys(one["solver"] for one in marks)
    head = ["", *(f"{data}, p = {p:g}" for data, p in contests)]
    return [head] + [
        [solver, *(_first_useful(marks, solver, *one) for one in contests)]
        for solver in solvers
    ]


def _first_useful(marks: Lines, solver: str, data: str, p: float) -> float | None:
    """The median over the seeds."""
    times = []
    here = [one for one in marks if (one["data"], one["p"]) == (data, p)]
    for seed in sorted({one["seed"] for one in here}):
        own = [one for one in here if one["seed"] == seed]
        goal = [one for one in own if one["solver"] == "auto"][-1]["accuracy"] - 0.01
        reached = [
            one["seconds"]
            for one in own
            if one["solver"] == solver and one["accuracy"] >= goal
        ]
        if not reached:
            return None
        times.append(min(reached))
    return float(np.median(times))


def combinations(load: Load, data: str) -> Rows:
    """Accuracy by training rows, mean and standard error."""
    return _crossed(load("combinations")["accuracies"], data, "rows", "training rows")


def noise(load: Load, data: str) -> Rows:
    """Accuracy by the number of irrelevant kernels."""
    lines = load("noise_kernels")["accuracies"]
    return _crossed(lines, data, "noise", "irrelevant kernels")


def _crossed(lines: Lines, data: str, axis: str, title: str) -> Rows:
    own = [line for line in lines if line["data"] == data]
    sizes = sorted({line[axis] for line in own})
    methods = dict.fromkeys(line["method"] for line in own)
    return [[title, *sizes]] + [
        [method, *(_mean(own, method, axis, size) for size in sizes)]
        for method in methods
    ]


def _mean(lines: Lines, method: str, axis: str, size: int) -> str:
    values = 100 * np.array(
        [
            line["accuracy"]
            for line in lines
            if line["method"] == method and line[axis] == size
        ]
    )
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.1f} ± {error:.1f}"


def growth(load: Load, axis: str) -> Rows:
    """Seconds against rows, kernels or precision, and the exponent."""
    saved = load("growth")
    if axis == "precision":
        sizes, key = [f"{eps:g}" for eps in saved["eps"]], "1 / eps"
        columns = saved["seconds"]["rows"]["1000"]
    else:
        by_size = saved["seconds"][axis]
        sizes, key = list(by_size), axis
        at = saved["eps"].index(saved["at"])
        columns = {
            name: [by_size[size][name][at] for size in sizes]
            for name in by_size[sizes[0]]
        }
    return [["", *sizes, "exponent"]] + [
        [name, *values, saved["exponents"][name][key]]
        for name, values in columns.items()
    ]


def effect_of_p(load: Load, key: str) -> Rows:
    """Mean accuracy (in per cent), seconds or kernels used, by data set and p."""
    lines = load("questions")["p"]
    ps = sorted({line["p"] for line in lines})
    factor = 100 if key == "accuracy" else 1
    return [["p", *(f"{p:g}" for p in ps)]] + [
        [
            data,
            *(
                factor
                * float(
                    np.mean([x[key] for x in lines if (x["data"], x["p"]) == (data, p)])
                )
                for p in ps
            ),
        ]
        for data in dict.fromkeys(line["data"] for line in lines)
    ]


def questions(load: Load, axis: str) -> Rows:
    """OBSCURE and ours against the number of kernels or rows."""
    keys = {
        "data": "",
        axis: axis,
        "passes": "passes, OBSCURE to 0.1",
        "seconds": "s, OBSCURE to 0.1",
        "auto": "s, auto to 0.01",
    }
    lines = load("questions")[axis]
    return [list(keys.values())] + [[line[key] for key in keys] for line in lines]


def mnist(load: Load, _: str) -> Rows:
    """Seconds and test error, by training images."""
    marks = load("mnist_growth")["marks"]
    last = {(mark["rows"], mark["model"]): mark for mark in marks}
    models = list(dict.fromkeys(mark["model"] for mark in marks))
    head = [text for model in models for text in (f"{model}, s", "error, %")]
    rows = []
    for size in sorted({mark["rows"] for mark in marks}):
        cells: list[Any] = [f"{size:,}"]
        for model in models:
            mark = last.get((size, model))
            error = None if mark is None else 100 * (1 - mark["accuracy"])
            cells += [mark and mark["seconds"], error]
        rows.append(cells)
    return [["images", *head], *rows]


TABLES: dict[str, Callable[[Load, str], Rows]] = {
    "race": race,
    "lead": lead,
    "useful": useful,
    "combinations": combinations,
    "noise": noise,
    "growth": growth,
    "p": effect_of_p,
    "questions": questions,
    "mnist": mnist,
}
