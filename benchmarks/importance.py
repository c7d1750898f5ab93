"""Noise that gets a weight, and its share of what holds on new rows.

Two classes whose means differ in 10 columns (by 0.7 standard deviations in each), and
views of pure noise; one RBF kernel with the default width for the 10 columns and for
every noise view; 300 rows to learn from, C = 1. Importance is measured on 1,000 new
rows, and by 5-fold cross-fitting on the 300 rows alone. "noise" is all noise views
together, "one view" the noise view that looks best. Intervals are those for 95 %, so
that one in twenty should miss 0. "unequal" lines draw labels, one class more often, and
compare shares with and without the mean of every kernel's scores taken off. "nugget"
is the same model with nugget="shared".
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from common import parse, save, show
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import manykernels as mk
from manykernels.inputs.groups import GroupKernels

PS = (1.0, 1.1, 1.5)
# Columns of a noise view, and how many such views.
NOISE = tuple((w, v) for v in (1, 5, 20) for w in (2, 20, 200, 1000))
COMMON = (0.5, 0.7, 0.9)  # share of the commoner class
USEFUL, TRAIN, NEW, SHIFT = 10, 300, 1000, 0.35


def main() -> None:
    """Measure, print and store."""
    options = parse(__doc__, seeds=(20, "data sets"), jobs=(2, "processes"))
    cells = [(*noise, s) for noise in NOISE for s in range(options.seeds)]
    found = Parallel(options.jobs)(delayed(measured)(*cell) for cell in cells)
    lines = [line for several in found for line in several]
    cases = [
        summary(lines, p=p, columns=width, views=count)
        for width, count in NOISE
        for p in PS
    ]
    draws = [(common, seed) for common in COMMON for seed in range(options.seeds)]
    apart = Parallel(options.jobs)(delayed(unequal)(*draw) for draw in draws)
    classes = [by_class(apart, common) for common in COMMON]
    report(cases, classes)
    save("importance", cases=cases, overall=overall(cases), unequal=classes)


def data(
    width: int, count: int, seed: int, common: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """All rows: useful columns, then the noise views; by turns of both classes."""
    rng = np.random.default_rng([seed, width, count])
    y = np.arange(TRAIN + NEW) % 2
    if common is not None:
        y = (rng.random(len(y)) < common).astype(int)
    X = rng.normal(size=(len(y), USEFUL + width * count))
    X[:, :USEFUL] += SHIFT * (2 * y - 1)[:, None]
    return X, y


def kernels(width: int, count: int) -> GroupKernels:
    """One for the useful columns, and one for every noise view."""
    starts = [USEFUL + width * v for v in range(count)]
    spans = [slice(0, USEFUL), *(slice(s, s + width) for s in starts)]
    groups = ["useful", *["noise"] * count]
    return GroupKernels([mk.kernels.RBF(columns=s) for s in spans], groups, {}, {})


def measured(width: int, count: int, seed: int) -> list[dict[str, Any]]:
    """One line per p."""
    X, y = data(width, count, seed)
    train, new = slice(TRAIN), slice(TRAIN, None)
    lines = []
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for p in PS:
            model = mk.MKLClassifier(kernels(width, count), p=p, random_state=0)
            model.fit(X[train], y[train])
            options: dict[str, Any] = {"n_permutations": 5, "random_state": seed}
            both = mk.kernel_importance(model, X[new], y[new], by="view", **options)
            each = mk.kernel_importance(model, X[new], y[new], n_permutations=0)
            line = {"p": p, "columns": width, "views": count}
            line |= told("", both) | {"one view": float(each.share[1:].max())}
            model.set_params(nugget="shared").fit(X[train], y[train])
            honest = mk.kernel_importance(
                model, X[new], y[new], by="view", n_permutations=0
            )
            line |= told("nugget ", honest)
            line["nugget itself"] = float(honest.weight[-1])
            model.set_params(nugget=None)
            if count == 1:
                inside = X[train], y[train]
                crossed = mk.kernel_importance(
                    model, *inside, cv=5, by="view", **options
                )
                line |= told("crossed ", crossed)
            lines.append(line)
    return lines


def unequal(common: float, seed: int) -> dict[str, float]:
    """The share of 200 columns of noise at p = 1.1, with and without constants."""
    X, y = data(200, 1, seed, common)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = mk.MKLClassifier(kernels(200, 1), random_state=0)
        model.fit(X[:TRAIN], y[:TRAIN])
        line = {"common": common}
        for name, center in (("", True), ("plain ", False)):
            found = mk.kernel_importance(
                model, X[TRAIN:], y[TRAIN:], center=center, n_permutations=0
            )
            line |= told(name, found)
    return line


def by_class(lines: list[dict[str, float]], common: float) -> dict[str, float]:
    """Means over the seeds, and the range of the shares."""
    own = [line for line in lines if line["common"] == common]
    found = {
        name: float(np.mean([line[name] for line in own]))
        for name in own[0]
        if "permuted" not in name
    }
    for name in ("share", "plain share"):
        values = [line[name] for line in own]
        found |= {f"least {name}": min(values), f"most {name}": max(values)}
    return found


def told(name: str, found: Any) -> dict[str, float]:
    """What is kept of one importance: the noise is its second part."""
    low, high = found.interval()
    return {
        f"{name}weight": float(found.weight[1]),
        f"{name}share": float(found.share[1]),
        f"{name}error": float(found.std_error[1]),
        f"{name}covers": float(low[1] <= 0.0 <= high[1]),
        f"{name}drop": float(found.drop[1]),
        f"{name}permuted": float(found.permuted[1]),
        f"{name}accuracy": found.score,
        f"{name}useful drop": float(found.drop[0]),
        f"{name}useful permuted": float(found.permuted[0]),
    }


def summary(lines: list[dict[str, Any]], **case: float) -> dict[str, Any]:
    """Means over the seeds, and the range of the shares."""
    own = [line for line in lines if all(line[key] == v for key, v in case.items())]
    names = [name for name in own[0] if name not in case]
    names = [name for name in names if not np.isnan(own[0][name])]
    result: dict[str, Any] = {
        **case,
        **{name: float(np.mean([line[name] for line in own])) for name in names},
    }
    for name in ("share", "crossed share", "nugget share"):
        if name in names:
            values = [line[name] for line in own]
            result[f"least {name}"], result[f"most {name}"] = min(values), max(values)
            result[f"spread of {name}"] = float(np.std(values, ddof=1))
    result["most one view"] = max(line["one view"] for line in own)
    return result


def overall(cases: list[dict[str, Any]]) -> dict[str, float]:
    """Over all cases."""
    crossed = [case for case in cases if case["views"] == 1]
    return {
        "covers": float(np.mean([case["covers"] for case in cases])),
        "most": max(case["most share"] for case in cases),
        "least": min(case["least share"] for case in cases),
        "largest mean": max(abs(case["share"]) for case in cases),
        "most one view": max(case["most one view"] for case in cases),
        "largest weight": max(case["weight"] for case in cases),
        "nugget most": max(case["most nugget share"] for case in cases),
        "nugget covers": float(np.mean([case["nugget covers"] for case in cases])),
        "nugget gain": float(
            np.mean([case["nugget accuracy"] - case["accuracy"] for case in cases])
        ),
        "crossed covers": float(np.mean([case["crossed covers"] for case in crossed])),
        "crossed largest mean": max(abs(case["crossed share"]) for case in crossed),
        "error to spread": float(
            np.mean([case["error"] / case["spread of share"] for case in cases])
        ),
        "crossed error to spread": float(
            np.mean(
                [
                    case["crossed error"] / case["spread of crossed share"]
                    for case in crossed
                ]
            )
        ),
    }


def report(cases: list[dict[str, Any]], classes: list[dict[str, float]]) -> None:
    """Print."""
    show("unequal classes", list(classes[0]), [list(one.values()) for one in classes])
    keys = ["p", "columns", "views", "weight", "share", "least share", "most share"]
    keys += ["most one view", "covers", "drop", "permuted", "accuracy"]
    keys += ["nugget weight", "nugget share", "nugget accuracy"]
    keys += ["crossed share", "crossed covers"]
    rows = [[case.get(key) for key in keys] for case in cases]
    show("noise: weight, and share of the margin on new rows", keys, rows)


if __name__ == "__main__":
    main()
