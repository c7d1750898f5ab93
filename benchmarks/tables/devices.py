"""Tables of the page about GPUs."""

from __future__ import annotations

from typing import Any

from contest.tables import Load, Rows

from tables.texts import percent, two, with_quartiles


def fits(load: Load, _: str) -> Rows:
    """Fits from pixels, with their certificate and memory."""
    results = load("gpu")["results"]
    largest = max(results["growth"], key=int)
    named: dict[str, Any] = {
        f"{int(n):,} rows, p = 1.1": one for n, one in results["growth"].items()
    }
    whole = f"{int(largest):,} rows"
    named[f"{whole}, p = 1"] = results["p = 1"]
    named[f"{whole}, p = 1.1, to a gap of 1e-3"] = results["tol 1e-3"]
    named[f"{whole}, p = 1.1, memory_limit of 4 GB"] = results["within 4 GB"]
    head = ["", "fit, s", "gap", "test error", "predict 10,000, s", "device memory, GB"]
    return [head] + [
        [
            name,
            with_quartiles(one),
            two(one["relative_gap"]),
            percent(one["test_error"], 2),
            two(one["predicting"]),
            two(one["peak_gb"]),
        ]
        for name, one in named.items()
    ]


def crossover(load: Load, _: str) -> Rows:
    """The same fits on the GPU and on the processor beside it."""
    head = ["rows", "GPU, s", "processor, s"]
    return [head] + [
        [f"{int(n):,}", with_quartiles(one["device"]), with_quartiles(one["here"])]
        for n, one in load("gpu")["results"]["crossover"].items()
    ]


def terms(load: Load, _: str) -> Rows:
    """Tables of planted interactions on the GPU and on the processor beside it."""
    head = ["columns x rows", "products", "GPU, s", "processor, s", "a look: GPU, s"]
    return [[*head, "processor, s"]] + [
        [
            " x ".join(f"{int(part):,}" for part in size.split("x")),
            f"{one['products']:,}",
            with_quartiles(one["gpu"]),
            two(one["processor"]["seconds"]) if "processor" in one else "-",
            two(one["gpu"]["look"]),
            two(one["processor"]["look"]) if "processor" in one else "-",
        ]
        for size, one in load("gpu_terms")["results"].items()
    ]


def profile(load: Load, _: str) -> Rows:
    """Where the seconds of a fit go."""
    parts = load("gpu")["results"]["profile"].items()
    return [["part of a fit", "s"]] + [[name, two(seconds)] for name, seconds in parts]
