"""Test accuracy of every way to combine kernels, against the number of training rows.

The OBSCURE paper's Figure 3 on Flowers-17 and Multiple Features, and views of different
quality with few patients (TCGA breast cancer). C, and p where there is one, are chosen
on a third of the training rows, by everybody. Flowers-17 has the three splits of its
file, and TCGA the file's one: a seed draws the training rows from the training part,
and with all 150 patients it draws only the third that parameters are chosen on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from common import console, parse, save, show, timed
from contest.choosing import test_accuracy, tuned
from contest.combinations import EVERYBODY, PRODUCT, Combination
from contest.datasets import BY_NAME, Split, available, make_split, sized
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

SIZES = {
    "flowers17": (85, 170, 340, 680),
    "mfeat": (50, 100, 200, 500),
    "tcga breast": (30, 60, 100, 150),
}


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one split, two sizes"),
        splits=(3, "splits per size"),
        jobs=(2, "processes"),
    )
    splits = 1 if options.quick else options.splits
    cells = []
    for name, sizes in SIZES.items():
        if not available(BY_NAME[name]):
            console.print(f"No files for {name}: left out (see MANYKERNELS_DATA).")
            continue
        for size in sizes[:2] if options.quick else sizes:
            cells += [(name, size, seed) for seed in range(splits)]
    jobs = (delayed(measure)(*cell) for cell in cells)
    found, seconds = timed(lambda: Parallel(options.jobs)(jobs))
    lines = [line for cell in found for line in cell]
    report(lines)
    save("combinations", options=vars(options), seconds=seconds, accuracies=lines)


def measure(name: str, size: int, seed: int) -> list[dict[str, Any]]:
    """Everybody on one split."""
    split = make_split(sized(name, size), 0, seed)
    with threadpool_limits(limits=1):
        return [
            {"data": name, "rows": size, "seed": seed, **judge(one, split, seed)}
            for one in EVERYBODY
        ]


def judge(combination: Combination, split: Split, seed: int) -> dict[str, Any]:
    """Accuracy, and the time that choosing and fitting took."""
    if combination is PRODUCT and split.train.min() >= 0.0:
        powers = (1.0, "mean")  # the latter: a geometric mean
        combination = replace(PRODUCT, grid=PRODUCT.grid | {"power": powers})
    model, seconds = timed(
        lambda: tuned(combination.make, combination.grid, split, seed)
    )
    return {
        "method": combination.name,
        "accuracy": test_accuracy(model, split),
        "seconds": seconds,
    }


def report(lines: list[dict[str, Any]]) -> None:
    """One table per data set: means and standard errors in per cent."""
    for name in dict.fromkeys(line["data"] for line in lines):
        own = [line for line in lines if line["data"] == name]
        sizes = sorted({line["rows"] for line in own})
        methods = dict.fromkeys(line["method"] for line in own)
        rows = [[m, *(cell_text(own, m, size) for size in sizes)] for m in methods]
        show(f"{name}: accuracy", ["training rows", *map(str, sizes)], rows)


def cell_text(lines: list[dict[str, Any]], method: str, size: int) -> str:
    """Mean and standard error."""
    values = 100 * np.array(
        [
            line["accuracy"]
            for line in lines
            if line["method"] == method and line["rows"] == size
        ]
    )
    if len(values) < 2:
        return f"{values.mean():.1f}"
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


if __name__ == "__main__":
    main()
