"""Twelve good kernels and 0 to 200 irrelevant ones: does learning the weights pay?

Multiple Features (six views with two kernels each, 200 training rows) and the embedded
digits (four blocks with three kernels each, 400 rows). An irrelevant kernel is Gaussian
on two columns of noise. C, and p where there is one, are chosen on a third of the
training rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from common import console, parse, save, show, timed
from contest.choosing import test_accuracy, tuned
from contest.combinations import AVERAGED, BEST, EVERYBODY, MKL, Combination
from contest.datasets import BY_NAME, available, make_split
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

DATA = ("mfeat", "digits, 400 rows")
COUNTS = (0, 25, 100, 200)
ALSO = ("EasyMKL", "centered alignment")
# A kernel of noise is slow to fit with a large C, and there are many of them.
BEST_SOON = Combination(BEST.name, partial(BEST.make, Cs=(1.0, 10.0)), {})
METHODS = (MKL, AVERAGED, BEST_SOON, *(m for m in EVERYBODY if m.name in ALSO))


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one split, no and 200 irrelevant kernels, three methods"),
        splits=(3, "splits"),
        jobs=(2, "processes"),
    )
    names = [name for name in DATA if available(BY_NAME[name])]
    counts = COUNTS[:: len(COUNTS) - 1] if options.quick else COUNTS
    n_methods = 3 if options.quick else len(METHODS)
    splits = 1 if options.quick else options.splits
    cells = [
        (name, count, seed, n_methods)
        for name in names
        for count in counts
        for seed in range(splits)
    ]
    jobs = (delayed(measure)(*cell) for cell in cells)
    found, seconds = timed(lambda: Parallel(options.jobs)(jobs))
    lines = [line for cell in found for line in cell]
    report(lines)
    save("noise_kernels", options=vars(options), seconds=seconds, accuracies=lines)


def measure(name: str, count: int, seed: int, n_methods: int) -> list[dict[str, Any]]:
    """Every method on one split."""
    lines = []
    with threadpool_limits(limits=1):
        split = make_split(BY_NAME[name], 0, seed, n_noise=count)
        for method in METHODS[:n_methods]:
            model = tuned(method.make, method.grid, split, seed)
            weights = getattr(model, "kernel_weights_", None)
            lines.append(
                {
                    "data": name,
                    "noise": count,
                    "seed": seed,
                    "method": method.name,
                    "p": getattr(model, "p", None),
                    "accuracy": test_accuracy(model, split),
                    "share_on_noise": noise_share(weights, split.n_useful),
                }
            )
    return lines


def noise_share(weights: np.ndarray | None, n_useful: int) -> float | None:
    """The part of all weight that irrelevant kernels get."""
    if weights is None or weights.ndim > 1:
        return None
    return float(weights[n_useful:].sum() / weights.sum())


def report(lines: list[dict[str, Any]]) -> None:
    """One table per data set, and what 200 irrelevant kernels cost each method."""
    for name in dict.fromkeys(line["data"] for line in lines):
        own = [line for line in lines if line["data"] == name]
        counts = sorted({line["noise"] for line in own})
        rows = []
        for method in dict.fromkeys(line["method"] for line in own):
            curve = [mean_accuracy(own, method, count) for count in counts]
            rows.append([method, *curve, curve[0] - curve[-1]])
        show(f"{name}: accuracy, %", ["noise", *map(str, counts), "lost"], rows)
        costs = {row[0]: row[-1] for row in rows}
        met = costs["MKL"] <= 1.0 and costs["MKL"] < costs[AVERAGED.name]
        console.print(
            "MKL loses at most a point, and less than averaging: "
            f"{'yes' if met else 'NO'}"
        )


def mean_accuracy(lines: list[dict[str, Any]], method: str, count: int) -> float:
    """Over the splits, in per cent."""
    found = [
        line["accuracy"]
        for line in lines
        if line["method"] == method and line["noise"] == count
    ]
    return 100 * float(np.mean(found))


if __name__ == "__main__":
    main()
