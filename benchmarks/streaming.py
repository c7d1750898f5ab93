"""partial_fit over a million rows with a bounded support: memory, rows per second.

Three classes in two views, a mixture of Gaussians in each, so that no linear rule and
no single view is enough. Rows are generated chunk by chunk from a seed and never held
together. Next to it runs scikit-learn's SGDClassifier on Nystroem features of an RBF
kernel on all columns: the same chunks, and as many landmarks as there may be support
rows. Every learner has a process of its own, which tells its memory apart; seconds are
those inside the learner, and CPU seconds of all its threads tell a busy machine apart
from a slow learner. The options of SGDClassifier and Nystroem are the best of a
few that were tried on 50,000 rows.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
from common import console, in_own_process, memory, parse, save, show, timed

CLASSES = np.arange(3)
COLUMNS = 8  # of each view
CENTERS = 12  # of each class in each view
SPREAD = 0.7  # of the rows around their center
KERNELS = "rbf:gamma=0.1@0-7; rbf:gamma=0.4@0-7; rbf:gamma=0.1@8-15; rbf:gamma=0.4@8-15"
TEST_ROWS = 10_000
TEST_CHUNK = -1
MEMORY_EVERY = 10  # chunks
SGD = "sgd"
TITLES = {
    "project": "manykernels, project",
    "smallest": "manykernels, smallest",
    "oldest": "manykernels, oldest",
    "unbounded": "manykernels, no budget",
    SGD: "SGD on Nystroem features",
}


def main() -> None:
    """Run every learner in a process of its own, print and store."""
    options = parse(
        __doc__,
        rows=(1_000_000, "rows in all"),
        chunk=(10_000, "rows at a time"),
        budget=(2_000, "support rows, and landmarks of Nystroem"),
        learners=(f"project,{SGD}", f"some of {', '.join(TITLES)}"),
        trial=(False, "store nothing"),
    )
    results = {}
    for name in options.learners.split(","):
        results[name] = in_own_process(stream, name, options)
        memory_curve(name, results[name])
    report(results, options)


def stream(name: str, options: Namespace) -> dict[str, Any]:
    """Learn all chunks; seconds of learning, memory as it goes, test accuracy."""
    learn, score, history = LEARNERS[name](options)
    # A small problem first: compilation and imports are not what is measured.
    LEARNERS[name](Namespace(budget=50))[0](*chunk(0, 200))
    seconds, curve, cpu_seconds = 0.0, [], 0.0
    n_chunks = options.rows // options.chunk
    for position in range(n_chunks):
        X, y = chunk(position, options.chunk)
        began = time.process_time()
        seconds += timed(lambda X=X, y=y: learn(X, y))[1]
        cpu_seconds += time.process_time() - began
        if (position + 1) % MEMORY_EVERY == 0 or position + 1 == n_chunks:
            curve.append([(position + 1) * options.chunk, memory("VmRSS") / 1e6])
    return {
        "rows": n_chunks * options.chunk,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "rows_per_second": n_chunks * options.chunk / seconds,
        "rows_per_cpu_second": n_chunks * options.chunk / cpu_seconds,
        "memory_mb": curve,
        "peak_mb": memory("VmHWM") / 1e6,
        "accuracy": score(*chunk(TEST_CHUNK, TEST_ROWS)),
        **history(),
    }


def chunk(position: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that depend on their position in the stream only."""
    centers = np.random.default_rng(0).normal(size=(2, len(CLASSES), CENTERS, COLUMNS))
    rng = np.random.default_rng([1, position - TEST_CHUNK])
    y = rng.integers(len(CLASSES), size=n_rows)
    views = [
        centers[view, y, rng.integers(CENTERS, size=n_rows)]
        + SPREAD * rng.normal(size=(n_rows, COLUMNS))
        for view in (0, 1)
    ]
    return np.concatenate(views, axis=1).astype(np.float32), y


def many_kernels(policy: str) -> Callable[[Namespace], tuple[Callable, ...]]:
    """MKLClassifier with this policy, or without a budget."""

    def make(options: Namespace) -> tuple[Callable, ...]:
        import manykernels as mk

        free = policy == "unbounded"
        budget = None if free else mk.Budget(options.budget, policy)
        model = mk.MKLClassifier(KERNELS, budget=budget, random_state=0)

        def history() -> dict[str, Any]:
            last = model.history_[-1]
            return {
                "progressive_accuracy": last.progressive,
                "support": last.support,
                "updates": sum(line.updates for line in model.history_),
                "kernel_weights": model.kernel_weights_,
            }

        return (
            lambda X, y: model.partial_fit(X, y, classes=CLASSES),
            model.score,
            lambda: json.loads(json.dumps(history(), default=np.ndarray.tolist)),
        )

    return make


def nystroem_sgd(options: Namespace) -> tuple[Callable, ...]:
    """Landmarks from the first chunk, then hinge loss on the features."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDClassifier

    features = Nystroem(gamma=0.1, n_components=options.budget, random_state=0)
    model = SGDClassifier(alpha=1e-7, average=True, random_state=0)

    def learn(X: np.ndarray, y: np.ndarray) -> None:
        if not hasattr(features, "components_"):
            features.fit(X)
        model.partial_fit(features.transform(X), y, classes=CLASSES)

    return learn, lambda X, y: model.score(features.transform(X), y), dict


LEARNERS = {
    **{name: many_kernels(name) for name in TITLES if name != SGD},
    SGD: nystroem_sgd,
}


def memory_curve(name: str, result: dict[str, Any]) -> None:
    """Print the memory after every few chunks."""
    curve = ", ".join(f"{rows:,}: {mb:.0f}" for rows, mb in result["memory_mb"])
    console.print(f"{TITLES[name]}, resident MB after so many rows: {curve}")


def report(results: dict[str, dict[str, Any]], options: Namespace) -> None:
    """Print and store."""
    columns = [
        "",
        "rows/s",
        "rows/CPU s",
        "test accuracy",
        "progressive",
        "support",
        "peak MB",
    ]
    rows = [
        [
            TITLES[name],
            round(result["rows_per_second"]),
            round(result["rows_per_cpu_second"]),
            result["accuracy"],
            result.get("progressive_accuracy"),
            result.get("support"),
            result["peak_mb"],
        ]
        for name, result in results.items()
    ]
    title = (
        f"{options.rows:,} rows in chunks of {options.chunk:,}, budget "
        f"{options.budget:,}, 4 kernels on 2 views"
    )
    show(title, columns, rows)
    if not options.trial:
        save(
            "streaming",
            seeds=[0],
            chunk=options.chunk,
            budget=options.budget,
            kernels=KERNELS,
            learners={TITLES[name]: result for name, result in results.items()},
        )


if __name__ == "__main__":
    main()
