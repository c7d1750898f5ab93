"""Tables of the pages about views and groups of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from contest.tables import Load, Rows

from tables.texts import bold_best, percent, two


def groups(load: Load, _: str) -> Rows:
    """Hundreds of groups of columns: time, memory and accuracy."""
    head = ["groups × rows", "method", "fit, s", "processor s", "predict 1,000, s"]
    head += ["gap", "memory, GB", "announced, GB", "weight", "accuracy"]
    rows: Rows = [head]
    for case in load("groups")["cases"]:
        for name, one in case["methods"].items():
            weight = one.get("weight_of_true_groups")
            rows.append(
                [
                    f"{case['groups']:,} × {case['rows']:,}",
                    name,
                    *(two(one[k]) for k in ("seconds", "processor", "predicting")),
                    *(two(one.get(k)) for k in ("gap", "peak_gb", "announced_gb")),
                    None if weight is None else f"{weight:.2f}",
                    percent(one["accuracy"]),
                ]
            )
    return rows


def view_defaults(load: Load, _: str) -> Rows:
    """Accuracy on test rows of the default and of everything it is compared with."""
    saved = load("view_defaults")
    names, test = saved["data_sets"], saved["test"]
    rows: Rows = [["", *names, "mean"]]
    for method, values in test.items():
        shares = [values[name] for name in names]
        texts = [None if share is None else f"{100 * share:.1f}" for share in shares]
        mean = None if None in shares else f"{100 * np.mean(shares):.1f}"
        rows.append([method, *texts, mean])
    return rows


def view_gains(load: Load, _: str) -> Rows:
    """What learned weights add to uniform ones."""
    saved = load("view_defaults")
    rows: Rows = [["", "mean", "standard error", "least", "most", "least on"]]
    for name, one in saved["summary"].items():
        if name.endswith("against uniform"):
            texts = [f"{one[key]:+.1f}" for key in ("mean", "least", "most")]
            name = name.removesuffix(", against uniform")
            error = f"{one['error']:.1f}"
            rows.append([name, texts[0], error, *texts[1:], one["where"]])
    return rows


def view_lines(load: Load, _: str) -> Rows:
    """Differences in points on every data set, with errors over splits."""
    saved = load("view_defaults")
    lines = {
        "`MKLClassifier()`, best of 64": "default against best of 64",
        "averaged kernel": "default against averaged kernel",
        "`MKLClassifierCV()`, best of 64": "search against best of 64",
        "averaged kernel ": "search against averaged kernel",
    }
    found = [saved["summary"][key] for key in lines.values()]
    rows: Rows = [["points ahead of", *map(str.strip, lines)]]
    for name in saved["data_sets"]:
        rows.append([name, *(_points(one["by_set"][name]) for one in found)])
    return [*rows, ["mean", *map(_points, found)]]


def narrow_kernels(load: Load, _: str) -> Rows:
    """What the default gives narrow kernels, and what they add."""
    saved = load("view_defaults")["narrow"]
    rows: Rows = [["", "weight of narrow RBFs", "points that they add"]]
    for name, one in sorted(saved.items(), key=lambda item: item[1]["gain"]):
        points = _points({"mean": one["gain"], "error": one["error"]})
        rows.append([name, percent(one["weight"], 0), points])
    return rows


def _points(one: dict[str, Any]) -> str:
    return f"{one['mean']:+.1f} ± {one['error']:.1f}"


def view_families(load: Load, _: str) -> Rows:
    """Mean accuracy on validation rows by kernels and p, at the best C for each."""
    saved = load("view_defaults")
    rows: Rows = [["kernels for every view", *(f"p = {p:g}" for p in saved["p"])]]
    for family, table in saved["validation"].items():
        best = [100 * max(line) for line in table]
        rows.append([family, *bold_best(best, [f"{v:.1f}" for v in best], np.argmax)])
    return rows


WAYS = {
    "rescale": "`rescale`",
    "zero": "`zero`",
    "complete": "`complete`",
    "mean": "mean of the column",
    "drop": "drop incomplete patients",
}


def missing_views(load: Load, _: str) -> Rows:
    """Accuracy by the share of views that are missing."""
    saved = load("missing_views")
    head = ["missing", *(f"{100 * share:.0f} %" for share in saved["shares"])]
    lines = saved["accuracy"].items()
    return [head, *([WAYS[way], *map(_with_error, line)] for way, line in lines)]


def missing_at_predict(load: Load, _: str) -> Rows:
    """Accuracy where test patients lack a whole view."""
    saved = load("missing_views")["without"]
    ways = list(next(iter(saved.values())))
    head = ["without", *(WAYS[way] for way in ways)]
    return [
        head,
        *(
            [name, *(_with_error(own[way]) for way in ways)]
            for name, own in saved.items()
        ),
    ]


def _with_error(one: dict[str, Any]) -> str:
    return f"{100 * one['mean']:.1f} ± {100 * one['error']:.1f}"


def noise_importance(load: Load, _: str) -> Rows:
    """Views of noise: their weight, and their share on new rows."""
    cases = load("importance")["cases"]
    ps = sorted({case["p"] for case in cases})
    head = ["noise views × columns"]
    for p in ps:
        head += [f"weight, p = {p:g}", f"share, p = {p:g}"]
    head += ["one view at most", "intervals with 0"]
    rows: Rows = [head]
    for views, columns in sorted({(c["views"], c["columns"]) for c in cases}):
        own = [c for c in cases if (c["views"], c["columns"]) == (views, columns)]
        row = [f"{views} × {columns:,}"]
        for case in own:
            row += [f"{case['weight']:.2f}", _share(case, "share")]
        best = max(case["most one view"] for case in own)
        row += [f"{best:.3f}", percent(np.mean([c["covers"] for c in own]), 0)]
        rows.append(row)
    return rows


def crossed_importance(load: Load, _: str) -> Rows:
    """The same for one noise view, by cross-fitting on the training rows alone."""
    cases = [c for c in load("importance")["cases"] if c["views"] == 1]
    head = ["noise columns", "p", "weight", "share", "standard error"]
    rows: Rows = [[*head, "spread over data sets", "intervals with 0"]]
    for case in cases:
        rows.append(
            [
                f"{case['columns']:,}",
                f"{case['p']:g}",
                f"{case['crossed weight']:.2f}",
                _share(case, "crossed share"),
                f"{case['crossed error']:.3f}",
                f"{case['spread of crossed share']:.3f}",
                percent(case["crossed covers"], 0),
            ]
        )
    return rows


def unequal_importance(load: Load, _: str) -> Rows:
    """Noise where one class is commoner: constants taken off, and not."""
    rows: Rows = [["commoner class", "weight", "share", "intervals with 0"]]
    rows[0].append("share, `center=False`")
    for case in load("importance")["unequal"]:
        row = [percent(case["common"], 0), f"{case['weight']:.2f}"]
        row += [_share(case, "share"), percent(case["covers"], 0)]
        rows.append([*row, _share(case, "plain share")])
    return rows


def _share(case: dict[str, Any], name: str) -> str:
    ends = f"{case[f'least {name}']:.2f} to {case[f'most {name}']:.2f}"
    return f"{case[name]:.3f} ({ends})"
