"""The tables of README and of all pages but docs/benchmarks.md, one function a table.

As in contest/tables.py, each takes a function that loads what a benchmark saved, and
the words after the name of the table; it returns the head and the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
from contest.tables import TABLES as CONTESTS
from contest.tables import Load, Rows
from figures import rounded


def two(number: float | None) -> str:
    """Two significant digits."""
    return "-" if number is None or not np.isfinite(number) else rounded(number, 2)


def percent(share: float, places: int = 1) -> str:
    """A share as per cent."""
    return f"{100 * share:.{places}f} %"


def spread(values: Sequence[float], places: int = 1) -> str:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.{places}f} ± {error:.{places}f}"


def range_of(values: Sequence[float], places: int = 1) -> str:
    """Lowest to highest."""
    return f"{min(values):.{places}f} to {max(values):.{places}f}"


def bold_best(values: Sequence[float], texts: Sequence[str], best: Any) -> list[str]:
    """Texts of values, those that look like the best in bold."""
    winner = texts[int(best(values))]
    return [f"**{text}**" if text == winner else text for text in texts]


def demo(load: Load, _: str) -> Rows:
    """Accuracy of every method of the demonstration over splits."""
    runs = load("demo_seeds")["runs_by_noise_gamma"]["scale"]
    head = ["", "kernels", "accuracy", "lowest to highest", "weight on noise"]
    rows: Rows = []
    for lines in zip(*runs, strict=True):
        first, values = lines[0], [100 * line["accuracy"] for line in lines]
        noise = np.mean([line["noise_weight"] for line in lines])
        rows.append(
            [
                first["method"],
                first["kernels"],
                f"{np.mean(values):.1f} %",
                range_of(values),
                f"{100 * noise:.0f} %" if "noise" in first["kernels"] else None,
            ]
        )
    return [head, *rows]


def mnist_large(load: Load, _: str) -> Rows:
    """All of MNIST next to one SVM."""
    head = ["", "fit, s", "predict 10,000, s", "test error", "peak memory, GB", "gap"]
    return [head] + [
        [
            name,
            rounded(one["seconds"], 3),
            two(one["predicting"]),
            percent(one["test_error"], 2),
            two(one["peak_gb"]),
            two(one.get("relative_gap")),
        ]
        for name, one in load("mnist_large")["results"].items()
    ]


def approximations(load: Load, data: str) -> Rows:
    """What each rank costs and brings."""
    head = ["kernels", "rank", "fit, s", "predict, s", "file, MB", "test accuracy"]
    return [head] + [
        [
            one["kernels"],
            one["rank"] or "",
            *(two(one[key]) for key in ("fit", "predict", "megabytes")),
            percent(one["accuracy"]),
        ]
        for one in load("approximations")["tables"][data]
    ]


NOISE = {"0": "none", "4": "4 per useful", "both": "both"}


def default_p(load: Load, _: str) -> Rows:
    """Mean accuracy by data set, noise and p, and three summaries."""
    saved = load("default_p")
    rows: Rows = [["data set", "noise kernels", *(f"p = {p:g}" for p in saved["p"])]]
    for place, ratio in enumerate(saved["noise_ratios"]):
        for name, table in zip(saved["data_sets"], saved["accuracy"], strict=True):
            means = 100 * np.mean(table[place], axis=0)
            texts = [f"{value:.1f}" for value in means]
            rows.append([name, NOISE[str(ratio)], *bold_best(means, texts, np.argmax)])
    for ratio, words in NOISE.items():
        for key, places in (
            ("mean accuracy", 1),
            ("mean rank", 2),
            ("largest loss", 1),
        ):
            values = saved["summary"][f"{key}, noise {ratio}"]
            texts = [f"{value:.{places}f}" for value in values]
            best = np.argmax if key == "mean accuracy" else np.argmin
            rows.append([f"*{key}*", words, *bold_best(values, texts, best)])
    return rows


def recovery(load: Load, _: str) -> Rows:
    """Planted monomials found."""
    lines = load("interactions")["recovery"]
    head = ["columns", "products", "noise", "exact"]
    head += ["true terms among the first 12 (least)", "terms (mean)"]
    head += ["largest relative test error", "seconds (median)"]
    rows: Rows = [head]
    for r, noise in dict.fromkeys((one["r"], one["noise"]) for one in lines):
        own = [one for one in lines if (one["r"], one["noise"]) == (r, noise)]
        errors = [one["relative test error"] for one in own]
        exact = f"{sum(error <= 1e-6 for error in errors)} of {len(own)}"
        rows.append(
            [
                f"{r:,}",
                f"{comb(r + 3, 3):,}",
                f"{100 * noise:.0f} %",
                None if noise else exact,
                f"{min(one['true in first 12'] for one in own)} of 10",
                f"{np.mean([one['terms'] for one in own]):.3g}",
                two(max(errors)),
                two(float(np.median([one["seconds"] for one in own]))),
            ]
        )
    return rows


def half_precision(load: Load, _: str) -> Rows:
    """What rounding to float16 costs."""
    kinds = ("float32", "float16")
    head = ["", *(f"gap in {kind}" for kind in kinds)]
    head += [f"accuracy in {kind}" for kind in kinds]
    return [head] + [
        [
            name,
            *(two(one[kind]["gap"]) for kind in kinds),
            *(percent(one[kind]["accuracy"]) for kind in kinds),
        ]
        for name, one in load("storages")["half_precision"].items()
    ]


def storages(load: Load, _: str) -> Rows:
    """The same fit from every storage."""
    head = ["storage", "build and solve, s", "peak memory, GB", "above the start, GB"]
    head += ["objective", "accuracy"]
    return [head] + [
        [
            name,
            two(one["seconds"]),
            f"{one['peak'] / 1e9:.2f}",
            f"{one['above_start'] / 1e9:.2f}",
            f"{one['objective']:.4g}",
            percent(one["accuracy"]),
        ]
        for name, one in load("storages")["fits"].items()
    ]


def scaling(load: Load, axis: str) -> Rows:
    """Seconds, support rows and updates against rows or kernels."""
    saved = load("scaling")
    by_size = saved[f"by_{axis}"]
    quantities = (
        ("auto to 1e-2", "seconds"),
        ("auto to 1e-2", "support"),
        ("OBSCURE, 2 online passes", "seconds"),
        ("OBSCURE, 2 online passes", "updates"),
    )
    return [[axis, *(f"{int(size):,}" for size in by_size), "exponent"]] + [
        [
            f"{name.split()[0].strip(',')}, {key}",
            *(two(one[name][key]) for one in by_size.values()),
            f"{saved['exponents'][axis][name][key]:.2f}",
        ]
        for name, key in quantities
    ]


def _scores(one: dict[str, Any], *places: tuple[str, int]) -> list[str]:
    return [f"{100 * one[part][place]:.2f}" for part, place in places]


def parsing(load: Load, _: str) -> Rows:
    """Attachment scores of parsers with all templates of a kind."""
    saved = load("parsing")
    head = ["model", "dev", "test", "test, no punctuation", "words per CPU-second"]
    names = list(saved["results"])[:3]
    return [head] + [
        [
            name,
            *_scores(saved["results"][name], ("dev", 0), ("test", 0), ("test", 1)),
            _hundreds(saved["results"][name]["words_per_cpu_second"]),
        ]
        for name in names
    ]


def _hundreds(number: float) -> str:
    return f"{round(number, -2):,.0f}"


def pruning(load: Load, _: str) -> Rows:
    """Templates left by multiple kernel learning, and what they are worth."""
    results = load("parsing")["results"]
    head = ["", "templates left", "itself, dev / test", "refitted, dev / test"]
    head += ["words per CPU-second, first and second fit"]
    rows: Rows = [head]
    for name, one in results.items():
        if name.startswith("MKL"):
            again = [
                fit for title, fit in results.items() if title.endswith(f"of {name}")
            ]
            speeds = [_hundreds(fit["words_per_cpu_second"]) for fit in (one, *again)]
            scores = [
                " / ".join(_scores(fit, ("dev", 0), ("test", 0)))
                for fit in (one, *again)
            ]
            rows.append([name, one["n_selected"], *(scores + [""])[:2]])
            rows[-1].append(" and ".join(speeds))
    return rows


def templates(load: Load, _: str) -> Rows:
    """The strongest templates by MKL and by the SVM."""
    saved = load("parsing")
    results = saved["results"]
    whole = results[f"SVM, {saved['templates']} templates"]
    head = ["templates", "by MKL, dev", "by SVM, dev"]
    head += [f"by {judge}, test, no punctuation" for judge in ("MKL", "SVM")]
    rows: Rows = [head]
    for size in [size for size, _ in saved["figure"]["MKL"]]:
        pair = [
            results.get(f"SVM, {size} templates by {judge}", whole)
            for judge in ("MKL", "SVM")
        ]
        cells = [_scores(one, place)[0] for place in _PLACES for one in pair]
        rows.append([size, *cells])
    return rows


_PLACES = (("dev", 0), ("test", 1))


def mirror_objective(load: Load, _: str) -> Rows:
    """The lowest objective within the limit, by data set."""
    curves = load("rmd_figure_1")["curves"]
    methods = list(next(iter(curves.values())))
    return [["data set", *methods]] + [
        [name, *(float(one[method]["objective"][-1]) for method in methods)]
        for name, one in curves.items()
    ]


def mirror_planted(load: Load, columns: str) -> Rows:
    """Mean test error over variance by the number of columns."""
    saved = load("rmd_figure_2")
    rows: Rows = [["columns", *saved["methods"]]]
    for size in map(int, columns.split()):
        runs = np.array(saved["error"][saved["columns"].index(size)], dtype=float)
        rows.append([size, *(_tiny(error) for error in np.mean(runs, axis=0))])
    return rows


def _tiny(error: float) -> str:
    if not np.isfinite(error):
        return ""
    return "< 1e-12" if error < 1e-12 else two(error)


def mirror_data_sets(load: Load, _: str) -> Rows:
    """Test error on six data sets; bold is at or below every rival."""
    saved = load("rmd_figure_3")
    test = np.array(saved["test"])
    means = test.mean(axis=1)
    rivals = [i for i, kind in enumerate(saved["kinds"]) if kind == "rival"]
    best = means[:, rivals].argmin(axis=1)
    rows: Rows = [["", *saved["data_sets"]]]
    for i, (name, kind) in enumerate(
        zip(saved["methods"], saved["kinds"], strict=True)
    ):
        cells = []
        for k, runs in enumerate(test[:, :, i]):
            text = spread(runs, 3)
            if kind == "rival":
                cells.append(f"*{text}*" if rivals[best[k]] == i else text)
            else:
                beaten = means[k, i] <= means[k, rivals].min()
                cells.append(f"**{text}**" if beaten else text)
        rows.append([name + " (check)" * (kind == "check"), *cells])
    blended = [spread(runs, 3) for runs in saved["rivals_blended_test"]]
    return [*rows, ["Rivals, blended (check)", *blended]]


def himalaya(load: Load, _: str) -> Rows:
    """R^2 and seconds for one and for many targets."""
    targets = load("himalaya")["targets"]
    head = [""]
    for size in targets:
        words = "target" if size == "1" else "targets"
        head += [f"{size} {words}: test R²", "seconds"]
    return [head] + [
        [
            name,
            *(
                two(number)
                for one in targets.values()
                for number in (one[name]["r2"], one[name]["seconds"]["median"])
            ),
        ]
        for name in targets["1"]
    ]


def ocr(load: Load, _: str) -> Rows:
    """Letters right, by kernels, next to the paper's."""
    table = load("ocr")["table"]
    rows: Rows = [["kernels", "validated", "seconds", "rule", "paper"]]
    for name, one in table.items():
        if not name.startswith("rule"):
            rule = table.get(f"rule: {name}")
            rows.append(
                [
                    name,
                    f"{one['accuracy']:.1f} ± {one['deviation']:.1f}",
                    two(one["cpu_seconds"]),
                    rule and f"{rule['accuracy']:.1f} ± {rule['deviation']:.1f}",
                    one["paper"],
                ]
            )
    return rows


def svrg_epochs(load: Load, _: str) -> Rows:
    """Epochs to a gap, by the number of kernels."""
    saved = load("svrg_epochs")
    head = ["kernels", *(f"epochs to {tol:g}" for tol in saved["tols"])]
    return [[*head, "more for each digit"]] + [
        [size, *(f"{n:.1f}" for n in (*one["epochs"], one["epochs_per_digit"]))]
        for size, one in saved["kernels"].items()
    ]


def smooth_wrapper(load: Load, _: str) -> Rows:
    """Seconds to a small gap, next to wrappers."""
    results = load("smooth_wrapper")["results"]
    solvers = list(dict.fromkeys(name for one in results.values() for name in one))
    return [["seconds", *solvers]] + [
        [
            problem,
            *(
                two(one[name]["seconds"]["median"]) if name in one else None
                for name in solvers
            ),
        ]
        for problem, one in results.items()
    ]


def streaming(load: Load, _: str) -> Rows:
    """A million rows in a stream."""
    head = ["", "rows per second", "per CPU second", "test accuracy"]
    rows: Rows = [[*head, "resident memory, MB"]]
    for name, one in load("streaming")["learners"].items():
        memory = [megabytes for _, megabytes in one["memory_mb"]]
        rows.append(
            [
                name,
                _hundreds(one["rows_per_second"]),
                _hundreds(one["rows_per_cpu_second"]),
                percent(one["accuracy"]),
                range_of(memory, 0),
            ]
        )
    return rows


TABLES: dict[str, Callable[[Load, str], Rows]] = {
    **CONTESTS,
    "demo": demo,
    "mnist_large": mnist_large,
    "approximations": approximations,
    "default_p": default_p,
    "recovery": recovery,
    "half_precision": half_precision,
    "storages": storages,
    "scaling": scaling,
    "parsing": parsing,
    "pruning": pruning,
    "templates": templates,
    "mirror_objective": mirror_objective,
    "mirror_planted": mirror_planted,
    "mirror_data_sets": mirror_data_sets,
    "himalaya": himalaya,
    "ocr": ocr,
    "svrg_epochs": svrg_epochs,
    "smooth_wrapper": smooth_wrapper,
    "streaming": streaming,
}
