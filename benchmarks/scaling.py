"""Seconds and updates as the rows double and as the kernels grow in number.

MNIST with kernels on 14 x 14 blocks, values computed on demand. The OBSCURE paper
reports a time linear in the rows and sublinear in the kernels for its online stage;
the certified solver is measured next to it, and next to storing the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import (
    exponent,
    in_own_process,
    medians,
    memory,
    parse,
    save,
    show,
    timed,
)
from grade import make_problem
from mnist_large import warm_up
from mnist_speed import C, block_kernels, blocks

import manykernels as mk
from manykernels.banks import build_bank
from manykernels.kernels import RBF, Kernel, Linear, Polynomial
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto, Obscure

P = 1.1
SOLVERS: dict[str, Callable[[], Any]] = {
    "OBSCURE, 2 online passes": lambda: Obscure(2, 0, random_state=0),
    "auto to 1e-2": lambda: Auto(tol=1e-2, random_state=0),
}
KINDS: tuple[Callable[[list[int]], Kernel], ...] = (
    lambda columns: Linear(columns=columns),
    lambda columns: Polynomial(5, columns=columns),
    lambda columns: RBF(0.1, columns=columns),
    lambda columns: Polynomial(2, columns=columns),
    lambda columns: RBF(0.02, columns=columns),
    lambda columns: Polynomial(3, columns=columns),
    lambda columns: RBF(0.05, columns=columns),
    lambda columns: Polynomial(4, columns=columns),
    lambda columns: RBF(0.2, columns=columns),
    lambda columns: Polynomial(6, columns=columns),
    lambda columns: RBF(0.01, columns=columns),
    lambda columns: Polynomial(7, columns=columns),
)
LARGE = 10_000  # rows: more are measured once


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        smallest=(2500, "training images at least"),
        doublings=(4, "how often they double"),
        kernel_rows=(5000, "training images as the kernels grow"),
        compared_rows=(10_000, "training images stored and on demand"),
        memory_limit=("4GB", "memory limit on demand"),
        compared_limit=("14GB", "memory limit where values are stored"),
        repeats=(3, "turns, but one where there are more than 10,000 rows"),
    )
    rows = [options.smallest * 2**i for i in range(options.doublings + 1)]
    limit = options.memory_limit
    again = options.repeats
    by_rows = [
        typical(again if n <= LARGE else 1, n, 12, "on_demand", limit) for n in rows
    ]
    counts = [3, 6, 12, 24, 48]
    by_kernels = [
        typical(again, options.kernel_rows, F, "on_demand", limit) for F in counts
    ]
    compared = {
        storage: typical(
            again, options.compared_rows, 12, storage, options.compared_limit
        )
        for storage in ("gram", "on_demand")
    }
    report_growth("rows", rows, by_rows)
    report_growth("kernels", counts, by_kernels)
    report_storages(compared)
    save(
        "scaling",
        options=vars(options),
        seeds=[0],
        by_rows=dict(zip(rows, by_rows, strict=True)),
        by_kernels=dict(zip(counts, by_kernels, strict=True)),
        exponents={
            "rows": exponents(rows, by_rows),
            "kernels": exponents(counts, by_kernels),
        },
        storages=compared,
    )


def typical(repeats: int, *problem: Any) -> dict[str, Any]:
    """Medians of measurements, each in a process of its own."""
    return medians([in_own_process(measure, *problem) for _ in range(repeats)])


def some_kernels(n_kernels: int) -> list[Kernel]:
    """The paper's twelve, or as many kinds on each block as it takes."""
    if n_kernels == 12:
        return block_kernels()
    four = blocks()
    return [KINDS[f // 4](four[f % 4]) for f in range(n_kernels)]


def measure(n_rows: int, n_kernels: int, storage: str, limit: str) -> dict[str, Any]:
    """Both solvers on one problem; building the bank counts where it stores."""
    warm_up()
    mnist = mk.datasets.load_mnist(n_rows, 1)
    found: dict[str, Any] = {}
    for name, solver in SOLVERS.items():
        if storage == "gram" and not name.startswith("auto"):
            continue
        bank, building = timed(
            lambda: build_bank(
                KernelSet.fit(some_kernels(n_kernels), mnist.data), storage, limit
            )
        )
        problem = make_problem(bank, mnist.target, P, C)
        result, solving = timed(lambda s=solver, p=problem: s().solve(p))
        found[name] = {
            "seconds": building + solving,
            "updates": sum(line.updates for line in result.history),
            "objective": result.objective,
            "relative_gap": result.relative_gap,
            "support": int(np.any(result.model.coef != 0.0, axis=1).sum()),
        }
        del bank, problem, result
    return found | {"peak_gb": memory() / 1e9}


def exponents(
    sizes: Sequence[int], found: Sequence[dict[str, Any]]
) -> dict[str, dict[str, float]]:
    """Fitted exponents of seconds and updates for every solver."""
    return {
        name: {
            key: exponent(sizes, [line[name][key] for line in found])
            for key in ("seconds", "updates", "support")
        }
        for name in SOLVERS
    }


def report_growth(
    what: str, sizes: Sequence[int], found: Sequence[dict[str, Any]]
) -> None:
    """One table per solver."""
    fitted = exponents(sizes, found)
    for name in SOLVERS:
        table = [
            [n, line[name]["seconds"], line[name]["updates"], line[name]["support"]]
            for n, line in zip(sizes, found, strict=True)
        ]
        grown = fitted[name]
        last = ["exponent", grown["seconds"], grown["updates"], grown["support"]]
        show(name, [what, "seconds", "updates", "support rows"], [*table, last])


def report_storages(compared: dict[str, dict[str, Any]]) -> None:
    """Stored against on demand, the same problem."""
    name = "auto to 1e-2"
    show(
        "Stored and on demand",
        ["", "build + solve, s", "objective", "relative gap", "peak, GB"],
        [
            [
                storage,
                line[name]["seconds"],
                line[name]["objective"],
                line[name]["relative_gap"],
                line["peak_gb"],
            ]
            for storage, line in compared.items()
        ],
    )


if __name__ == "__main__":
    main()
