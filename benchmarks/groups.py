"""Hundreds of overlapping groups of columns: seconds, memory and accuracy.

Columns are standard normal, groups hold 10 to 60 of them at random, and the label is
the sign of a sum over the columns of five groups with noise. One RBF per group is
learned with p = 1 and p = 1.1, next to scikit-learn's SVC on the mean of the same
kernels, computed by scikit-learn too. Every method has a process of its own and, here,
a limit of memory; a small fit loads the compiled loops first. Processor seconds are
those of all threads: the ones to look at where others use the machine as well.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from common import in_own_process, medians, memory, parse, save, show
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import manykernels as mk

LIMIT = "4GB"
N_TEST, N_TRUE = 1000, 5
NOISE = 0.5  # standard deviation of the noise, that of the signal being one
ANNOUNCED = re.compile(r"as (\w+).*?: about (\S+) GB of memory")


@dataclass(frozen=True)
class Case:
    """How many groups, rows and columns."""

    groups: int
    rows: int
    columns: int


CASES = (Case(50, 5000, 2000), Case(1000, 500, 5000))
QUICK = (Case(10, 300, 200), Case(100, 100, 500))


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "fewer groups and rows"),
        repeats=(3, "runs of each case"),
        seed=(0, "of the data"),
    )
    cases = QUICK if options.quick else CASES
    results = []
    for case in cases:
        runs = [
            {
                name: in_own_process(measure, name, case, options.seed)
                for name in METHODS
            }
            for _ in range(1 if options.quick else options.repeats)
        ]
        results.append({**asdict(case), "methods": medians(runs)})
    for one in results:
        show(
            f"{one['groups']} groups x {one['rows']} rows",
            ["", "s", "processor s", "predict, s", "gap", "GB", "announced", "%"],
            [
                [
                    name,
                    *(found.get(key) for key in COLUMNS),
                    100 * found["accuracy"],
                ]
                for name, found in one["methods"].items()
            ],
        )
    save("groups", memory_limit=LIMIT, n_test=N_TEST, true_groups=N_TRUE, cases=results)


COLUMNS = ("seconds", "processor", "predicting", "gap", "peak_gb", "announced_gb")


@dataclass(frozen=True)
class Data:
    """A table, its groups and labels."""

    groups: dict[str, list[int]]
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def make(case: Case, seed: int) -> Data:
    """Draw groups, rows and labels."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, 61, case.groups)
    groups = {
        f"group{g}": rng.choice(case.columns, size, replace=False).tolist()
        for g, size in enumerate(sizes)
    }
    X = rng.normal(size=(case.rows + N_TEST, case.columns))
    signal = np.zeros(len(X))
    for g in range(N_TRUE):
        part = X[:, groups[f"group{g}"]] @ rng.normal(size=sizes[g])
        signal += part / part.std()
    signal = signal / signal.std() + NOISE * rng.normal(size=len(X))
    y = (signal > 0).astype(int)
    n = case.rows
    return Data(groups, X[:n], y[:n], X[n:], y[n:])


def measure(name: str, case: Case, seed: int) -> dict[str, Any]:
    """One method on the data of a case."""
    data = make(case, seed)
    warm_up(data)
    return METHODS[name](data)


def warm_up(data: Data) -> None:
    """Compiled loops from their cache, in all the ways that a fit may go."""
    small = mk.group_kernels(dict(list(data.groups.items())[:3]))
    for storage in ("gram", "on_demand"):
        model = mk.MKLClassifier(small, storage=storage, random_state=0)
        model.fit(data.X[:90], data.y[:90]).predict(data.X_test[:9])


def learned(data: Data, p: float) -> dict[str, Any]:
    """One RBF per group, with what the fit says that it will take."""
    said = Said()
    logger = logging.getLogger("manykernels.banks.build")
    logger.setLevel(logging.INFO)
    logger.addHandler(said)
    before = memory("VmRSS")
    kernels = mk.group_kernels(data.groups)
    model = mk.MKLClassifier(kernels, p=p, memory_limit=LIMIT, random_state=0)
    times = clocked(lambda: model.fit(data.X, data.y))
    peak = memory() - before
    logger.removeHandler(said)
    predicted, predicting = predicted_in(model, data)
    weights = kernels.group_weights(model.kernel_weights_)
    true = [f"group{g}" for g in range(N_TRUE)]
    return {
        **times,
        "predicting": predicting,
        "gap": float(model.duality_gap_ / model.objective_),
        "peak_gb": peak / 1e9,
        "announced_gb": said.gigabytes,
        "storage": said.storage,
        "accuracy": float(np.mean(predicted == data.y_test)),
        "weight_of_true_groups": float(sum(weights[g] for g in true)),
        "kernels_used": int(np.count_nonzero(model.kernel_weights_)),
    }


def averaged(data: Data) -> dict[str, Any]:
    """The mean of the same kernels by scikit-learn, and its SVC."""
    parts = [data.X[:, columns] for columns in data.groups.values()]
    gammas = [1.0 / (part.shape[1] * part.var()) for part in parts]

    def mean_kernel(X: np.ndarray) -> np.ndarray:
        total = np.zeros((len(X), len(data.X)))
        rows = zip(data.groups.values(), parts, gammas, strict=True)
        for columns, part, gamma in rows:
            total += rbf_kernel(X[:, columns], part, gamma=gamma)
        return total / len(parts)

    model = SVC(kernel="precomputed")
    times = clocked(lambda: model.fit(mean_kernel(data.X), data.y))
    began = time.perf_counter()
    predicted = model.predict(mean_kernel(data.X_test))
    predicting = time.perf_counter() - began
    accuracy = float(np.mean(predicted == data.y_test))
    return {**times, "predicting": predicting, "accuracy": accuracy}


def predicted_in(model: Any, data: Data) -> tuple[np.ndarray, float]:
    """Labels of the test rows, and the seconds they took."""
    began = time.perf_counter()
    predicted = model.predict(data.X_test)
    return predicted, time.perf_counter() - began


def clocked(action: Callable[[], Any]) -> dict[str, float]:
    """Seconds, and processor seconds of all threads."""
    began, used = time.perf_counter(), time.process_time()
    action()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "processor": time.process_time() - used}


class Said(logging.Handler):
    """What a fit announces: how kernels are stored, and gigabytes of memory."""

    storage: str | None = None
    gigabytes: float | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Read one line of the log."""
        if found := ANNOUNCED.search(record.getMessage()):
            self.storage, self.gigabytes = found[1], float(found[2])


METHODS: dict[str, Callable[[Data], dict[str, Any]]] = {
    "MKLClassifier, p = 1": partial(learned, p=1.0),
    "MKLClassifier, p = 1.1": partial(learned, p=1.1),
    "SVC, averaged kernel": averaged,
}


if __name__ == "__main__":
    main()
