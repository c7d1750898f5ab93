"""The demonstration's contest over several seeds: mean and range of every figure.

Once with noise kernels of the usual width, as in the demonstration, and once with wide
ones, which harm the averaged kernel less.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from common import parse, save, show

from manykernels.cli.demo import DemoKernels, DemoResult, compare_methods, warm_up
from manykernels.datasets import load_noisy_digits

GAMMAS = ("scale", 0.1)


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        seeds=(5, "splits"),
        train=(200, "training images"),
        noise=(48, "noise kernels"),
    )
    stored = {}
    for gamma in GAMMAS:
        runs = [contest(options, seed, gamma) for seed in range(options.seeds)]
        report(runs, f"{options.seeds} splits, noise kernels with gamma = {gamma}, %")
        stored[gamma] = [[asdict(result) for result in results] for results in runs]
    save("demo_seeds", options=vars(options), runs_by_noise_gamma=stored)


def contest(options: Any, seed: int, gamma: float | str) -> list[DemoResult]:
    """All contenders on one split."""
    digits = load_noisy_digits(options.train, options.noise, seed, gamma)
    kernels = DemoKernels.build(digits, seed)
    warm_up(kernels)
    return compare_methods(kernels, lambda name: None)[0]


def report(runs: list[list[DemoResult]], title: str) -> None:
    """Mean and range over the splits."""
    rows = []
    for results in zip(*runs, strict=True):
        accuracy = 100 * np.array([result.accuracy for result in results])
        noise = 100 * np.mean([result.noise_weight for result in results])
        label = f"{results[0].method} ({results[0].kernels})"
        rows.append([label, accuracy.mean(), accuracy.min(), accuracy.max(), noise])
    show(title, ["", "accuracy, mean", "lowest", "highest", "weight on noise"], rows)


if __name__ == "__main__":
    main()
