"""MNIST, all 60,000 images, the OBSCURE paper's 12 kernels, never stored.

Kernel values are computed on demand within a memory limit; a support vector machine of
scikit-learn's with one RBF kernel on the whole images gets the same rows in the same
run. Each fit has a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import in_own_process, memory, parse, save, show, timed
from mnist_speed import C, block_kernels
from sklearn.svm import SVC

import manykernels as mk

P = 1.1


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        train=(60_000, "training images"),
        test=(10_000, "test images"),
        memory_limit=("4GB", "memory limit of the fit"),
        tol=(1e-2, "relative duality gap to reach"),
        without_svc=(False, "leave the support vector machine out"),
    )
    results = {
        "manykernels, 12 kernels on demand": in_own_process(
            fit_many, options.train, options.test, options.memory_limit, options.tol
        )
    }
    if not options.without_svc:
        results["SVC, one RBF kernel"] = in_own_process(
            fit_svc, options.train, options.test
        )
    report(results, vars(options))


def fit_many(n_train: int, n_test: int, limit: str, tol: float) -> dict[str, Any]:
    """Our certified fit."""
    warm_up()
    mnist = mk.datasets.load_mnist(n_train, n_test)
    model = mk.MKLClassifier(
        block_kernels(),
        p=P,
        C=C,
        tol=tol,
        storage="on_demand",
        memory_limit=limit,
        random_state=0,
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


def report(results: dict[str, dict[str, Any]], options: dict[str, Any]) -> None:
    """Print the table and save it."""
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
    save("mnist_large", options=options, results=results)


if __name__ == "__main__":
    main()
