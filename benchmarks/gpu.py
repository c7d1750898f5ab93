"""MNIST with the OBSCURE paper's 12 kernels on a GPU: seconds, errors, memory.

Fits from pixels at p = 1.1 and p = 1, growth with the rows, predictions, a given stack
in half precision that lies on the device, the same fits on the processor of the same
machine, and where the time of a fit goes. Transfers are included, compilation is not.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from common import medians, parse, save, show, timed
from mnist_speed import C, block_kernels

import manykernels as mk
from manykernels.banks import build_bank
from manykernels.banks.device_bank import DeviceBank
from manykernels.base.imports import require_library
from manykernels.device import open_device
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.estimator import MKLEstimator
from manykernels.solvers.device_blocks import DeviceBlocks
from manykernels.solvers.weights import DualMixture

# What a fit consists of: the part's name, and the method that does it.
PARTS: dict[str, tuple[Any, str]] = {
    "rows to the device": (MKLEstimator, "_read"),
    "combined kernels": (DeviceBlocks, "begin"),
    "blocks of rows": (DeviceBlocks, "ascend"),
    "scores of all rows": (DeviceBank, "_scores"),
    "block norms": (DeviceBank, "square_norms"),
    "mixtures of dual points": (DualMixture, "add"),
}


def pytorch() -> Any:
    """The library, asked for when it is needed: others import this script."""
    return require_library("torch", "torch")


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        device=("cuda", "where to compute"),
        rows=("10000,20000,40000,60000", "training images, of which the last for all"),
        small=(
            "500,1000,2000,5000,10000",
            "training images on both, GPU and processor",
        ),
        given=(20_000, "rows of the given stack"),
        repeats=(3, "fits, each with another seed"),
    )
    mnist = mk.datasets.load_mnist()
    sizes = [int(n) for n in options.rows.split(",")]
    small = [int(n) for n in options.small.split(",")]
    fit(mnist, options.device, 3000)  # compile
    seeds = range(options.repeats)
    results: dict[str, Any] = {
        "growth": {
            n: medians([fit(mnist, options.device, n, seed=s) for s in seeds])
            for n in sizes
        },
        "p = 1": medians(
            [fit(mnist, options.device, sizes[-1], 1.0, s) for s in seeds]
        ),
        "tol 1e-3": medians(
            [fit(mnist, options.device, sizes[-1], seed=s, tol=1e-3) for s in seeds]
        ),
        "within 4 GB": medians(
            [fit(mnist, options.device, sizes[-1], seed=s, limit="4GB") for s in seeds]
        ),
        "given": medians(given_fits(mnist, options.device, options.given, seeds)),
        "crossover": {n: both(mnist, options.device, n, seeds) for n in small},
        "profile": profile(mnist, options.device, sizes[-1]),
    }
    report(results)
    name = pytorch().cuda.get_device_name() if pytorch().cuda.is_available() else "none"
    versions = {"torch": pytorch().__version__, "cuda": pytorch().version.cuda}
    save("gpu", gpu=name, torch=versions, seeds=list(seeds), results=results)


def fit(
    mnist: Any,
    device: str | None,
    n_rows: int,
    p: float = 1.1,
    seed: int = 0,
    tol: float = 1e-2,
    limit: str | None = None,
) -> dict[str, Any]:
    """Seconds of a certified fit from pixels and of predictions, and their worth."""
    storage = "auto" if device else "on_demand"
    model = mk.MKLClassifier(
        block_kernels(), p=p, C=C, tol=tol, device=device, storage=storage
    )
    model.set_params(random_state=seed, memory_limit=limit)
    X, y = mnist.data[:n_rows], mnist.target[:n_rows]
    device_bytes()
    before = device_bytes()  # what is held by now
    _, seconds = timed(lambda: model.fit(X, y))
    peak = device_bytes() - before
    found = {
        "seconds": seconds,
        "relative_gap": model.duality_gap_ / model.objective_,
        "objective": model.objective_,
        "support": len(model.support_),
        "kernels": int(np.count_nonzero(model.kernel_weights_)),
        "peak_gb": peak / 1e9,
    }
    if device is None:
        return found
    model.predict(mnist.data_test[:100])  # the support rows go to the device
    labels, found["predicting"] = timed(lambda: model.predict(mnist.data_test))
    return found | {"test_error": float(np.mean(labels != mnist.target_test))}


def device_bytes() -> int:
    """The most bytes of the device since the last call; now, at the first."""
    if not pytorch().cuda.is_available():
        return 0
    gc.collect()
    most = pytorch().cuda.max_memory_allocated()
    pytorch().cuda.reset_peak_memory_stats()
    return int(most)


def both(mnist: Any, device: str, n_rows: int, seeds: Any) -> dict[str, Any]:
    """The same fit on the device and on the processor, in turns."""
    runs = [
        {
            "device": fit(mnist, device, n_rows, seed=s),
            "here": fit(mnist, None, n_rows, seed=s),
        }
        for s in seeds
    ]
    return medians(runs)


def given_fits(
    mnist: Any, device: str, n_rows: int, seeds: Any
) -> list[dict[str, Any]]:
    """Fits on a stack of kernel matrices in half precision, made on the device."""
    opened, y = open_device(device), mnist.target[:n_rows]
    kernels = KernelSet.fit(as_kernels(block_kernels()), mnist.data[:n_rows])
    there: Any = build_bank(kernels, device=opened).on_device()
    shape = n_rows, n_rows, kernels.n_kernels
    stack = pytorch().empty(shape, dtype=pytorch().float16, device=opened.place)
    for part in there.parts(slice(0, n_rows)):
        for f, tile in there.tiles(part, slice(0, n_rows)):
            stack[part, :, f] = tile.half()
    runs = []
    for seed in seeds:
        model = mk.MKLClassifier("precomputed", p=1.1, C=C, device=device)
        model.set_params(random_state=seed)
        _, seconds = timed(lambda: model.fit(stack, y))  # noqa: B023
        gap = model.duality_gap_ / model.objective_
        _, predicting = timed(lambda: model.predict(stack[:2000]))  # noqa: B023
        runs.append(
            {"seconds": seconds, "relative_gap": gap, "support": len(model.support_)}
            | {"predicting": predicting, "stack_gb": 2.0 * stack.numel() / 1e9}
        )
    return runs


def profile(mnist: Any, device: str, n_rows: int) -> dict[str, float]:
    """Seconds in every part of a fit, waiting for the device after each."""
    spent = dict.fromkeys(PARTS, 0.0)
    kept = {name: getattr(owner, method) for name, (owner, method) in PARTS.items()}
    for name, (owner, method) in PARTS.items():
        setattr(owner, method, _watched(kept[name], name, spent, open_device(device)))
    try:
        whole = fit(mnist, device, n_rows)["seconds"]
    finally:
        for name, (owner, method) in PARTS.items():
            setattr(owner, method, kept[name])
    return spent | {"all else": whole - sum(spent.values()), "whole fit": whole}


def _watched(
    method: Callable[..., Any], name: str, spent: dict[str, float], device: Any
) -> Callable[..., Any]:
    def watched(*arguments: Any, **options: Any) -> Any:
        began = perf_counter()
        try:
            return method(*arguments, **options)
        finally:
            device.get(device.empty((1,), np.float32))  # after all that came before
            spent[name] += perf_counter() - began

    return watched


def report(results: dict[str, Any]) -> None:
    """Print everything."""
    fits = {f"{n:,} rows, p = 1.1": one for n, one in results["growth"].items()}
    fits |= {"p = 1": results["p = 1"], "to 1e-3": results["tol 1e-3"]}
    fits |= {"within 4 GB": results["within 4 GB"]}
    columns = ["", "fit, s", "gap", "error, %", "support", "predict, s", "GB"]
    rows = [
        [
            name,
            one["seconds"],
            one["relative_gap"],
            100.0 * one["test_error"],
            one["support"],
            one["predicting"],
            one["peak_gb"],
        ]
        for name, one in fits.items()
    ]
    show("From pixels, on the device", columns, rows)
    given = results["given"]
    show("Given stack", ["fit, s", "gap"], [[given["seconds"], given["relative_gap"]]])
    show(
        "Device and processor",
        ["rows", "device, s", "processor, s"],
        [
            [n, one["device"]["seconds"], one["here"]["seconds"]]
            for n, one in results["crossover"].items()
        ],
    )
    show("Where the time goes", ["", "s"], list(map(list, results["profile"].items())))


if __name__ == "__main__":
    main()
