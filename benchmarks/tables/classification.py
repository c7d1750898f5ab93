"""Tables of README, and of the pages about p and approximations."""

from __future__ import annotations

from typing import Any

import numpy as np
from contest.tables import Load, Rows
from figures import rounded

from tables.texts import bold_best, percent, range_of, spread, two


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


DIGITS = "digits, 400 rows"


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
