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


def took(load: Load, names: str) -> Rows:
    """When and with what benchmarks were run."""
    rows: Rows = [["benchmark", "measured", "minutes", "seeds", "commit"]]
    for name in names.split():
        saved = load(name)
        around = saved["environment"]
        seconds, commit = around.get("seconds"), around.get("commit")
        rows.append(
            [
                f"`{name}`",
                around["date"],
                None if seconds is None else two(seconds / 60),
                len(saved["seeds"]) if saved.get("seeds") else None,
                commit and commit[:9],
            ]
        )
    return rows


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


def speed(load: Load, benchmark: str) -> Rows:
    """Times of an SVM on the averaged kernel, in the same run, with quartiles."""
    saved = load(benchmark)
    rows: Rows = [["", "times the SVC", "quartiles", "s", "gap", "accuracy"]]
    for name, one in saved["ratio_to_svc"].items():
        mark = saved["marks"].get(name, {})
        rows.append(
            [
                name,
                two(one["median"]),
                f"{two(one['q25'])} to {two(one['q75'])}",
                two(saved["seconds"][name]["median"]),
                two(mark.get("gap")),
                percent(mark["accuracy"]) if mark else None,
            ]
        )
    return rows


def rivals(load: Load, argument: str) -> Rows:
    """Seconds to a proven gap of 0.01 on one data set, the fastest first."""
    data, *norms = argument.split()
    found = {
        float(one["p"]): {name: _median(s) for name, s in _proven(one["solvers"])}
        for one in load("race")["summaries"]
        if one["data"] == data
    }
    rows: Rows = [["seconds", "auto", "the fastest rivals", "not within the limit"]]
    for p in map(float, norms):
        own = found[p].pop("auto")
        reached = [name for name, s in found[p].items() if s is not None]
        reached.sort(key=found[p].__getitem__)
        late = [name for name in found[p] if name not in reached]
        cells = [f"{name} {two(found[p][name])}" for name in reached[:4]]
        rows.append([f"p = {p:g}", two(own), "; ".join(cells), "; ".join(late) or None])
    return rows


def _proven(solvers: dict[str, Any]) -> list[tuple[str, Any]]:
    """Seconds until solvers of the same problem prove a gap of 0.01."""
    return [
        (name, s["certified"][1]) for name, s in solvers.items() if "certified" in s
    ]


def _median(seconds: Any) -> float | None:
    """One time, or the median of several."""
    return seconds["median"] if isinstance(seconds, dict) else seconds


def accuracies(load: Load, _: str) -> Rows:
    """Combinations of kernels where some are useless, and where views differ."""
    noisy, views = (
        load("noise_kernels")["accuracies"],
        load("combinations")["accuracies"],
    )
    columns = {
        "digits, 12 good kernels": (noisy, {"data": DIGITS, "noise": 0}),
        "and 200 irrelevant ones": (noisy, {"data": DIGITS, "noise": 200}),
        "TCGA breast cancer, 60 patients": (views, {"data": "tcga breast", "rows": 60}),
    }
    rows: Rows = [["", *columns]]
    for method in dict.fromkeys(line["method"] for line in (*noisy, *views)):
        cells = []
        for lines, wanted in columns.values():
            own = [line for line in lines if line.items() >= wanted.items()]
            values = [100 * one["accuracy"] for one in own if one["method"] == method]
            cells.append(spread(values) if values else None)
        rows.append([method, *cells])
    return rows


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
    head += ["lowest to highest"]
    return [head] + [
        [
            one["kernels"],
            one["rank"] or "",
            *(two(one[key]) for key in ("fit", "predict", "megabytes")),
            percent(one["accuracy"]),
            f"{percent(one['lowest'])} to {percent(one['highest'])}"
            if "lowest" in one
            else None,
        ]
        for one in load("approximations")["tables"][data]
    ]


DIGITS = "digits, 400 rows"
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


def _with_quartiles(one: dict[str, Any]) -> str:
    """Median seconds and, of several runs, their quartiles."""
    spread = one.get("spread", {"repeats": 1})
    if spread["repeats"] == 1:
        return two(one["seconds"])
    return f"{two(one['seconds'])} ({two(spread['q25'])} to {two(spread['q75'])})"


def storages(load: Load, _: str) -> Rows:
    """The same fit from every storage."""
    head = ["storage", "build and solve, s", "peak memory, GB", "above the start, GB"]
    head += ["objective", "accuracy"]
    return [head] + [
        [
            name,
            _with_quartiles(one),
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
            *(
                _with_quartiles(one[name]) if key == "seconds" else two(one[name][key])
                for one in by_size.values()
            ),
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


def budgets(load: Load, _: str) -> Rows:
    """Test accuracy by budget and policy."""
    lines = load("budgets")["lines"]
    policies = [line["policy"] for line in lines if line["budget"] == 100]
    rows: Rows = [["budget", *(f'`"{policy}"`' for policy in policies)]]
    for size in dict.fromkeys(line["budget"] for line in lines if line["budget"]):
        own = {line["policy"]: line for line in lines if line["budget"] == size}
        rows.append([f"{size:,}", *(percent(own[x]["accuracy"]) for x in policies)])
    free = lines[0]
    title = f"none ({free['support']:,} support rows)"
    return [*rows, [title, *[percent(free["accuracy"])] * len(policies)]]


TABLES: dict[str, Callable[[Load, str], Rows]] = {
    **CONTESTS,
    "took": took,
    "demo": demo,
    "speed": speed,
    "rivals": rivals,
    "accuracies": accuracies,
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
    "budgets": budgets,
}
