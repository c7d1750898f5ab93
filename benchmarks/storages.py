"""Where kernel values live: seconds and peak memory of one fit, a process for each.

MNIST with the OBSCURE paper's 12 kernels, and what half precision does to objective
and accuracy on digits and MNIST. Needs the MNIST files (downloaded, or in
MANYKERNELS_DATA), Linux to read the peak, and about 3 GB of memory for the largest.
"""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from common import in_own_process, medians, memory, parse, save, show
from grade import Grader, make_problem
from mnist_speed import block_kernels
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

import manykernels as mk
from manykernels.banks import Storage, build_bank
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto

C = 10.0
P = 1.1
HALF_P = (1.0, 1.1, 1.5)
CHOICES = {
    "gram": {"storage": "gram"},
    "gram, float16": {"storage": "gram:float16"},
    "memmap": {"storage": "memmap"},
    "memmap, float16": {"storage": "memmap:float16"},
    "on_demand": {"storage": "on_demand"},
}
DIGIT_KERNELS = "rbf@0-31; rbf@32-63; polynomial:degree=2; linear; rbf"


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        train=(5000, "training images"),
        test=(5000, "test images"),
        limit=("1.2GB", "memory_limit of all but the first, which needs more"),
        half_rows=(2000, "training images for the effect of half precision"),
        repeats=(3, "turns"),
    )
    runs = [
        {name: one_fit(name, options) for name in CHOICES}
        for _ in range(options.repeats)
    ]
    fits = {name: medians([turn[name] for turn in runs]) for name in CHOICES}
    effects = {
        f"{name}, p = {p:g}": in_own_process(half_effect, name, options.half_rows, p)
        for name in ("digits", "mnist")
        for p in HALF_P
    }
    report(fits, effects, vars(options))


def one_fit(name: str, options: Namespace) -> dict[str, Any]:
    """A fit in a process of its own."""
    limit = None if name == "gram" else options.limit
    choice = {**CHOICES[name], "memory_limit": limit}
    return in_own_process(fit_once, options.train, options.test, choice)


def fit_once(n_train: int, n_test: int, choice: dict[str, Any]) -> dict[str, Any]:
    """Seconds, peak memory above that of the loaded program, and the result."""
    mnist = mk.datasets.load_mnist(n_train, n_test)
    model = mk.MKLClassifier(block_kernels(), p=P, C=C, random_state=0, **choice)
    model.fit(mnist.data[:600], mnist.target[:600])  # compiled code is loaded
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory("VmRSS")
    began = time.perf_counter()
    model.fit(mnist.data, mnist.target)
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "peak": memory("VmHWM"),
        "above_start": memory("VmHWM") - before,
        "objective": model.objective_,
        "relative_gap": model.duality_gap_ / model.objective_,
        "accuracy": model.score(mnist.data_test, mnist.target_test),
    }


def half_effect(name: str, n_rows: int, p: float) -> dict[str, Any]:
    """Fits in both precisions, marked with exact kernels in float64."""
    data, kernels = read(name, n_rows)
    results, seconds = {}, {}
    for dtype in ("float32", "float16"):
        fitted = KernelSet.fit(kernels, data.data)
        bank = build_bank(fitted, Storage("gram", dtype))
        problem = make_problem(bank, data.target, p, C)
        Auto(tol=1e-3, random_state=0).solve(problem)
        began = time.perf_counter()
        results[dtype] = Auto(tol=1e-3, random_state=0).solve(problem)
        seconds[dtype] = time.perf_counter() - began
    marks = Grader.build(kernels, data).grade(
        {t: (r, p, C) for t, r in results.items()}
    )
    return {
        dtype: {
            **marks[dtype],
            "claimed_objective": result.objective,
            "claimed_gap": result.relative_gap,
            "seconds": seconds[dtype],
        }
        for dtype, result in results.items()
    }


def read(name: str, n_rows: int) -> tuple[Bunch, list[Any]]:
    """Data and kernels."""
    if name == "mnist":
        return mk.datasets.load_mnist(n_rows, 5000), block_kernels()
    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16.0, y, train_size=1200, random_state=0, stratify=y)
    keys = ("data", "data_test", "target", "target_test")
    return Bunch(**dict(zip(keys, parts, strict=True))), as_kernels(DIGIT_KERNELS)


def report(fits: dict[str, Any], effects: dict[str, Any], options: Any) -> None:
    """Print and store."""
    show(
        f"MNIST, {options['train']} rows, 12 kernels, p = {P:g}, C = {C:g}",
        ["storage", "seconds", "peak GB", "above start", "objective", "accuracy"],
        [
            [
                name,
                found["seconds"],
                found["peak"] / 1e9,
                found["above_start"] / 1e9,
                found["objective"],
                found["accuracy"],
            ]
            for name, found in fits.items()
        ],
    )
    show(
        "Half precision, fits to a gap of 1e-3 marked with exact kernels",
        ["data", "stored", "seconds", "claimed gap", "exact gap", "accuracy"],
        [
            [
                data,
                dtype,
                found["seconds"],
                found["claimed_gap"],
                found["gap"],
                found["accuracy"],
            ]
            for data, both in effects.items()
            for dtype, found in both.items()
        ],
    )
    save(
        "storages",
        options=options,
        seeds=[0],
        p=P,
        C=C,
        fits=fits,
        half_precision=effects,
    )


if __name__ == "__main__":
    main()
