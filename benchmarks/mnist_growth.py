"""MNIST: accuracy over time as the training set grows (the OBSCURE paper's Figure 4).

Twelve kernels (four quarters of an image with three kernels each), held as the memory
limit of 4 GB allows, p = 1.1, C = 10. The models that the solver passes through are
graded on the test images after the run. Next to it, what an SVM reaches on the averaged
kernel (p = 2 of the same solver) and on the best of the single kernels (by a third of
1,000 training images).

How time grows is set beside the least there is to do: a certificate needs the combined
kernel between the support rows and all rows, which is computed once more, alone.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from common import console, exponent, parse, save, show, summary, timed
from contest import datasets
from contest.objective import follow
from grade import Grader, make_problem
from mnist_speed import block_kernels

import manykernels as mk
from manykernels.banks import OnDemandBank, build_bank
from manykernels.kernels import Kernel
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto

C, P = 10.0, 1.1
TOL = 1e-2
ROWS = (1000, 3000, 10_000, 20_000, 60_000)
MEMORY = "4GB"
# A quarter of an image errs on every fifth digit: nearly all rows become support rows,
# and 60,000 of them take longer than all the rest.
SINGLE_ROWS = 20_000
GROWTH_ROWS = (10_000, 20_000, 60_000)  # computed on demand within the limit
HELD = 1024  # kernel rows at a time where no solver needs them


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "1,000 and 3,000 images"),
        rows=(ROWS[-1], "training images at most"),
        test=(10_000, "test images"),
        seeds=(3, "draws of the images whose fits are timed for the growth"),
    )
    if options.quick:
        options.rows, options.test, options.seeds = 3000, 2000, 1
    warnings.simplefilter("ignore")
    why = datasets.missing(lambda: mk.datasets.load_mnist(10, 10))
    if why is not None:
        console.print(f"Nothing can be measured: {why}")
        return
    best = best_single()
    lines: list[dict[str, Any]] = []
    for n_rows in (n for n in ROWS if n <= options.rows):
        mnist = mk.datasets.load_mnist(n_rows, options.test)
        lines += curve("MKL", block_kernels(), P, mnist)
        lines += curve("averaged kernel", block_kernels(), 2.0, mnist, last=True)
        if n_rows <= SINGLE_ROWS:
            lines += curve("best single kernel", [best], 2.0, mnist, last=True)
    report(lines)
    sizes = [n for n in GROWTH_ROWS if n <= options.rows] or list(ROWS[:2])
    save(
        "mnist_growth",
        options=vars(options),
        best_kernel=best.name,
        marks=lines,
        growth=growth(sizes, options.seeds),
    )


def growth(sizes: list[int], seeds: int) -> dict[str, Any]:
    """Seconds of fits on drawn images, and the b of seconds ~ rows^b in each draw.

    Beside it the same for the kernel values that a certificate needs, and how many
    times as long as these a fit takes.
    """
    mnist = mk.datasets.load_mnist(n_test=1)
    seconds: dict[int, list[float]] = {n: [] for n in sizes}
    alone: dict[int, list[float]] = {n: [] for n in sizes}
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(mnist.target))
        for n_rows in sizes:
            X, y = mnist.data[order[:n_rows]], mnist.target[order[:n_rows]]
            model = mk.MKLClassifier(
                block_kernels(),
                p=P,
                C=C,
                tol=TOL,
                memory_limit=MEMORY,
                random_state=seed,
            )
            seconds[n_rows].append(timed(lambda m=model, X=X, y=y: m.fit(X, y))[1])
            alone[n_rows].append(values_alone(X, model))
    times = {
        n: [fit / least for fit, least in zip(seconds[n], alone[n], strict=True)]
        for n in sizes
    }
    found, least = exponents(seconds), exponents(alone)
    lines = [[n, *(np.median(s[n]) for s in (seconds, alone, times))] for n in sizes]
    lines.append(["^", found["median"], least["median"], None])
    show("Growth", ["images", "fit, s", "values alone, s", "times"], lines)
    return {
        "seconds": {str(n): summary(s) for n, s in seconds.items()},
        "exponent": found,
        "values_alone": {str(n): summary(s) for n, s in alone.items()},
        "values_alone_exponent": least,
        "times_values_alone": {str(n): summary(s) for n, s in times.items()},
    }


def values_alone(X: Any, model: Any) -> float:
    """Seconds of the combined kernel between the support rows and all rows."""
    bank = OnDemandBank(KernelSet.fit(block_kernels(), X))
    held = np.empty((HELD, len(X)), bank.dtype)
    parts = np.split(model.support_, range(HELD, len(model.support_), HELD))

    def combine() -> None:
        for part in parts:
            bank.combine(model.kernel_weights_, part, held[: len(part)])

    return timed(combine)[1]


def exponents(found: dict[int, list[float]]) -> dict[str, Any]:
    """Quartiles of b in values ~ rows^b over the draws."""
    draws = zip(*found.values(), strict=True)
    return summary([exponent(list(found), draw) for draw in draws])


def best_single(n_rows: int = 1000) -> Kernel:
    """The kernel that alone predicts a third of the first images best."""
    mnist = mk.datasets.load_mnist(n_rows, 1)
    cut = 2 * n_rows // 3
    scores = [
        mk.MKLClassifier([kernel], C=C, random_state=0)
        .fit(mnist.data[:cut], mnist.target[:cut])
        .score(mnist.data[cut:], mnist.target[cut:])
        for kernel in block_kernels()
    ]
    return block_kernels()[int(np.argmax(scores))]


def curve(
    name: str, kernels: list[Kernel], p: float, mnist: Any, last: bool = False
) -> list[dict[str, Any]]:
    """Accuracy after every round of one fit, or the last."""
    fitted = KernelSet.fit(kernels, mnist.data)
    bank = build_bank(fitted, memory_limit=MEMORY)
    problem = make_problem(bank, mnist.target, p, C)
    recorder = follow(Auto(TOL, random_state=0), problem, np.inf)
    kept = recorder.models[-1:] if last else recorder.models
    models = {str(i): model for i, (_, model, _) in enumerate(kept)}
    grader = Grader(fitted, mnist.target, mnist.data_test, mnist.target_test)
    accuracies = grader.accuracies(models)
    lines = [
        {
            "model": name,
            "rows": len(mnist.target),
            "seconds": seconds,
            "accuracy": accuracies[str(i)],
        }
        for i, (seconds, _, _) in enumerate(kept)
    ]
    console.print(f"{lines[-1]}")
    return lines


def report(lines: list[dict[str, Any]]) -> None:
    """The last mark of each fit."""
    last = {(line["rows"], line["model"]): line for line in lines}
    models = dict.fromkeys(line["model"] for line in lines)
    rows = [
        [n, *(value for m in models for value in marks(last.get((n, m))))]
        for n in sorted({line["rows"] for line in lines})
    ]
    columns = [text for m in models for text in (f"{m}: s", "error, %")]
    show("MNIST", ["images", *columns], rows)


def marks(line: dict[str, Any] | None) -> tuple[float | None, float | None]:
    if line is None:
        return None, None
    return line["seconds"], 100 * (1 - line["accuracy"])


if __name__ == "__main__":
    main()
