"""MNIST, all 60,000 images, the OBSCURE paper's 12 kernels, never stored.

Kernel values are computed on demand within a memory limit; a support vector machine of
scikit-learn's with one RBF kernel on the whole images gets the same rows in the same
run. Each fit has a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import (
    in_own_process,
    medians,
    memory,
    parse,
    save,
    show,
    summary,
    timed,
)
from mnist_speed import C, block_kernels
from sklearn.svm import SVC

import manykernels as mk

P = 1.1
OURS = "manykernels, 12 kernels on demand"
SVM = "SVC, one RBF kernel"


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        train=(60_000, "training images"),
        test=(10_000, "test images"),
        memory_limit=("4GB", "memory limit of the fit"),
        tol=(1e-2, "relative duality gap to reach"),
        without_svc=(False, "leave the support vector machine out"),
        repeats=(3, "turns, each with another seed"),
    )
    runs = [turn(seed, options) for seed in range(options.repeats)]
    report(runs, vars(options))


def turn(seed: int, options: Any) -> dict[str, dict[str, Any]]:
    """Our fit and the support vector machine's, one after the other."""
    data = options.train, options.test
    results = {
        OURS: in_own_process(fit_many, *data, options.memory_limit, options.tol, seed)
    }
    if not options.without_svc:
        results[SVM] = in_own_process(fit_svc, *data)
    return results


def fit_many(
    n_train: int, n_test: int, limit: str, tol: float, seed: int
) -> dict[str, Any]:
    """Our certified fit; the seed chooses the samples it begins with."""
    warm_up()
    mnist = mk.datasets.load_mnist(n_train, n_test)
    model = mk.MKLClassifier(
        block_kernels(),
        p=P,
        C=C,
        tol=tol,
        storage="on_demand",
        memory_limit=limit,
        random_state=seed,
        verbose=1,
    )
    result = measured(model, mnist)
    return result | {
        "relative_gap": model.duality_gap_ / model.objective_,
        "objective": model.objective_,
        "support": len(model.support_),
        "updates": sum(line.updates for line in model.history_),
        "weights": dict(zip(model.kernel_names_, model.kernel_weights_, strict=True)),
    }


def fit_svc(n_train: int, n_test: int) -> dict[str, Any]:
    """The support vector machine, with the cache that its documentation advises."""
    mnist = mk.datasets.load_mnist(n_train, n_test)
    model = SVC(C=C, gamma="scale", cache_size=1000)
    result = measured(model, mnist)
    return result | {"support": int(model.n_support_.sum())}


def warm_up() -> None:
    """Compile before the clock starts; `cold_start` reports what that takes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 4)), rng.integers(3, size=1500)
    fit = mk.MKLClassifier(["rbf", "linear"], max_iter=2, storage="on_demand", tol=0.5)
    fit.fit(X.astype(np.float32), y)


def measured(model: Any, mnist: Any) -> dict[str, Any]:
    """Seconds, error and memory."""
    _, seconds = timed(lambda: model.fit(mnist.data, mnist.target))
    peak = memory()
    accuracy, scoring = timed(lambda: model.score(mnist.data_test, mnist.target_test))
    return {
        "seconds": seconds,
        "predicting": scoring,
        "test_error": 1.0 - accuracy,
        "peak_gb": peak / 1e9,
    }


def report(runs: list[dict[str, dict[str, Any]]], options: dict[str, Any]) -> None:
    """Print the table of medians and save it, with the ratio within the turns."""
    results = medians(runs)
    show(
        f"MNIST, {options['train']:,} training images, memory limit "
        f"{options['memory_limit']}",
        ["", "fit, s", "predict, s", "test error, %", "peak, GB", "support rows"],
        [
            [
                name,
                found["seconds"],
                found["predicting"],
                100.0 * found["test_error"],
                found["peak_gb"],
                found["support"],
            ]
            for name, found in results.items()
        ],
    )
    gap = next(iter(results.values()))["relative_gap"]
    show("Certificate", ["", ""], [["relative duality gap", gap]])
    ratio = None
    if SVM in results:
        ratio = summary([run[OURS]["seconds"] / run[SVM]["seconds"] for run in runs])
        show(
            "Seconds, in units of the SVC's", ["", "median"], [[OURS, ratio["median"]]]
        )
    save(
        "mnist_large",
        seeds=list(range(options["repeats"])),
        options=options,
        results=results,
        ratio_to_svc=ratio,
    )


if __name__ == "__main__":
    main()
