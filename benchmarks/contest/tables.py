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
Cell = dict[str, float | None]  # quartiles
NEVER: Cell = {"q25": None, "median": None, "q75": None}


def _spread(cell: Cell) -> str | None:
    """The median and, in brackets, the quartiles; "never" is a dash."""
    if cell["median"] is None:
        return None
    low, middle, high = (_number(cell[key]) for key in ("q25", "median", "q75"))
    return middle if low == middle == high else f"{middle} ({low} to {high})"


def _number(value: float | None) -> str:
    """Three digits, and no powers of ten."""
    if value is None:
        return "-"
    short = f"{value:.3g}"
    return f"{float(short):,.0f}" if abs(value) >= 1000 else short


def notes(load: Load, names: str) -> Rows:
    """Results that were not measured as their page says: a file's note tells how.

    A script writes no note, so that running it takes the line away.
    """
    found = [(name, load(name).get("note")) for name in names.split()]
    rows: Rows = [[f"`{name}`", note] for name, note in found if note]
    return [["result", "how it differs from what is described"], *rows]


def race(load: Load, argument: str) -> Rows:
    """Seconds to each gap on one data set for one p."""
    name, p = argument.split()
    saved = load("race")
    (found,) = (
        one
        for one in saved["summaries"]
        if one["data"] == name and one["p"] == float(p)
    )
    gaps = saved["eps"][1:]
    head = ["", *(f"s to {eps:g}" for eps in gaps)]
    head += [f"s, model within {eps:g}" for eps in gaps] + ["accuracy, %"]
    return [head] + [
        [
            solver,
            *(
                _spread(cell)
                for clock in ("certified", "reached")
                for cell in one.get(clock, [NEVER] * 3)[1:]
            ),
            100 * one["accuracy"],
        ]
        for solver, one in found["solvers"].items()
    ]


def inner(load: Load, _: str) -> Rows:
    """Which solver every entrant has inside, and how precise it is."""
    by_inner: dict[str, list[str]] = {}
    for solver, text in load("race")["inner"].items():
        by_inner.setdefault(text, []).append(solver)
    return [["inside", "of"]] + [
        [text, "; ".join(solvers)] for text, solvers in by_inner.items()
    ]


def lead(load: Load, argument: str) -> Rows:
    """How many times faster than the fastest rival ours reaches 1e-2.

    Among "everybody", or those who do not share the looseness of our SVMs: "precise".
    """
    head = ["", "certified", "fastest rival", "model within 0.01", "fastest rival"]
    head += ["one SVM, s", "largest possible"]
    rows: Rows = []
    for one in load("race")["summaries"]:
        cells: list[Any] = [f"{one['data']}, p = {one['p']:g}"]
        for found in one["leads"][argument].values():
            cells += _lead(found)
        best, svm = one["leads"][argument]["certified"], one["one_svm"]["median"]
        possible = None if best is None else best["theirs"]["median"] / svm
        rows.append([*cells, svm, possible])
    return [head, *rows]


def _lead(found: dict[str, Any] | None) -> list[Any]:
    """Times and the rival; a lead within the spread is called noise."""
    if found is None:
        return [None, None]
    noise = "" if found["counts"] else ", noise"
    return [f"{found['times']:.2f}{noise}", found["rival"]]


def useful(load: Load, _: str) -> Rows:
    """Seconds until a model is within a point of the accuracy that ours ends with."""
    contests = load("race")["summaries"]
    solvers = dict.fromkeys(name for one in contests for name in one["solvers"])
    head = ["", *(f"{one['data']}, p = {one['p']:g}" for one in contests)]
    return [head] + [
        [
            name,
            *(
                _spread(one["solvers"].get(name, {"useful": NEVER})["useful"])
                for one in contests
            ),
        ]
        for name in solvers
    ]


def passes(load: Load, argument: str) -> Rows:
    """Multiples of the optimum after some passes, by C (rows) and p (columns)."""
    saved = load("passes")
    at = saved["passes"].index(int(argument))
    return _by_C_and_p(saved["lines"], ("OBSCURE", "Pegasos"), lambda x: x["after"][at])


def passes_seconds(load: Load, _: str) -> Rows:
    """Seconds of all the passes of OBSCURE, and of ours to its gap."""
    lines = load("passes")["lines"]
    return _by_C_and_p(lines, ("OBSCURE", "auto"), lambda line: line["seconds"])


def _by_C_and_p(
    lines: Lines, solvers: tuple[str, ...], value: Callable[[dict[str, Any]], float]
) -> Rows:
    """Quartiles over the seeds."""
    ps, Cs = (list(dict.fromkeys(line[key] for line in lines)) for key in ("p", "C"))
    rows: Rows = []
    for C in Cs:
        for solver in solvers:
            cells: list[Any] = [f"C = {C:g}, {solver}"]
            for p in ps:
                wanted = (C, p, solver)
                own = [x for x in lines if (x["C"], x["p"], x["solver"]) == wanted]
                found = np.percentile([value(x) for x in own], [25, 50, 75])
                cells.append(
                    _spread(dict(zip(("q25", "median", "q75"), found, strict=True)))
                )
            rows.append(cells)
    return [["", *(f"p = {p:g}" for p in ps)], *rows]


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
    points = [f"{point:g}" for point in saved["points"][axis]]
    return [["", *points, "exponent"]] + [
        [name, *(_spread(cell) for cell in [*one["seconds"], one["exponent"]])]
        for name, one in saved["tables"][axis].items()
    ]


def epochs(load: Load, kind: str) -> Rows:
    """SVRG's epochs to each gap, on kernels or on explicit features."""
    saved = load("svrg_epochs")
    head = ["kernels", *(f"epochs to {tol:g}" for tol in saved["tols"])]
    head += ["more for each digit", "R²"]
    return [head] + [
        [
            n,
            *(_spread(cell) for cell in found["epochs"]),
            found["epochs_per_digit"],
            found["r2"],
        ]
        for n, found in saved["practical"][kind].items()
    ]


def exponents(load: Load, _: str) -> Rows:
    """How SVRG's steps and smoothness grow with the number of kernels."""
    titles = {
        "steps": "steps of an epoch",
        "L": "L",
        "steps_if_L_stayed": "steps, kernels divided by F",
        "combined_L": "L of the combined kernel",
    }
    return [["p", "the paper's 1/q", *titles.values()]] + [
        [p, one["paper"], *(one["exponents"][key] for key in titles)]
        for p, one in load("svrg_epochs")["theory"].items()
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
        "passes": "passes, OBSCURE to 0.1",
        "seconds": "s, OBSCURE to 0.1",
        "auto": "s, auto to 0.01",
    }
    lines = load("questions")[axis]
    return [["", axis, *keys.values()]] + [
        [line["data"], line[axis], *(_spread(line[key]) for key in keys)]
        for line in lines
    ]


def to_accuracy(load: Load, argument: str) -> Rows:
    """OBSCURE's updates or passes to fixed accuracies, by the number of kernels."""
    data, key = argument.split()
    saved = load("questions")
    levels = [f"{level:.0%}" for level in saved["levels"][data]]
    return [["kernels", *levels]] + [
        [line["kernels"], *(_spread(cell) for cell in line[key])]
        for line in saved["accuracy"]
        if line["data"] == data
    ]


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
    "notes": notes,
    "race": race,
    "inner": inner,
    "lead": lead,
    "useful": useful,
    "passes": passes,
    "passes_seconds": passes_seconds,
    "combinations": combinations,
    "noise": noise,
    "growth": growth,
    "epochs": epochs,
    "exponents": exponents,
    "p": effect_of_p,
    "questions": questions,
    "to_accuracy": to_accuracy,
    "mnist": mnist,
}
