"""Rows in partitions on worker processes: the same optimum, overhead, growth, size.

Deformed digits drawn by the workers themselves, pixels as bytes, 12 Nystroem kernels
(three for every quarter of the image), log loss at p = 1.1 and C = 10, on a cluster of
processes here, one thread each. `same` compares objectives with the solver in memory
on the same features; `overhead` their seconds to a gap of 1e-2, where the solver in
memory is stopped after some times as long; `growth` and `cuts` how
seconds follow rows and partitions; `large` is one fit with features that do not fit the
workers, the last point of growth; `sgd` is scikit-learn's SGDClassifier on the same
features, one row after the other. Errors are those of MNIST's test images.

Every part is stored when it is done, with its commit and command: parts that a run
leaves out stay as they were.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import dask
import dask.array as da
import numpy as np
from common import RESULTS, exponent, memory, parse, save, show, timed
from deformed_digits import deformed
from distributed import Client, LocalCluster
from evidence import environment
from mnist_speed import C, blocks
from sklearn.linear_model import SGDClassifier

import manykernels as mk
from manykernels.banks import BlockBank, FeatureBlock
from manykernels.distributed.memory import reused_memory
from manykernels.distributed.partitioned_fit import fit  # noqa: F401  what is measured
from manykernels.kernels import RBF, Kernel, Polynomial
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.smooth import TruncatedNewton

P = 1.1
WHITE = 255.0
MOST_ROUNDS = 200
PARTS = ("same", "overhead", "cuts", "growth", "large", "sgd")
PART_ROWS = 10_000  # of a partition
WARM_ROWS = 5000  # of a fit that nobody looks at: workers import and compile
PATIENCE = 4  # times the seconds of the workers, that one process may take
ROUGHEST = 0.99  # relative gap of a fit that is asked for its features alone
SGD_BLOCK = 5000  # rows whose features are held at a time


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        workers=(2, "processes"),
        memory=("2GB", "limit of each"),
        rank=(200, "columns of every kernel"),
        parts=(",".join(PARTS), "what to measure"),
        same=(20_000, "rows whose objectives are compared to 1e-7"),
        rows=(100_000, "rows of overhead and cuts, and the first of growth"),
        growth=(300_000, "rows of the point between"),
        cuts=(100, "partitions, next to one for 10,000 rows"),
        large=(1_000_000, "rows beyond the workers' memory"),
        sgd=(1_000_000, "rows for SGDClassifier"),
    )
    mnist = mk.datasets.load_mnist()
    limits = {"n_workers": options.workers, "memory_limit": options.memory}
    with (
        LocalCluster(threads_per_worker=1, dashboard_address=":0", **limits) as cluster,
        Client(cluster) as client,
    ):
        bench = Bench(client, mnist, options)
        bench.fitted(WARM_ROWS, 2 * options.workers)
        for name in options.parts.split(","):
            keep(name, *timed(getattr(bench, name)))


def keep(name: str, found: dict[str, Any], seconds: float) -> None:
    """Store one part beside the others, which may be of other runs."""
    stored = RESULTS / "cluster.json"
    saved = json.loads(stored.read_text("utf-8")) if stored.is_file() else {}
    here = environment()
    told = {key: here[key] for key in ("commit", "date", "command")}
    runs = saved.get("runs", {}) | {name: told | {"seconds": seconds}}
    results = {
        key: saved["results"][key] for key in PARTS if key in saved.get("runs", {})
    }
    results[name] = found
    if "overhead" in results and "large" in results:
        points = [results["overhead"]["dask"], results["large"]]
        points[1:1] = [results["growth"]] if "growth" in results else []
        sizes, times = ([one[key] for one in points] for key in ("rows", "seconds"))
        results["exponent"] = exponent(sizes, times)
    versions = {"dask": dask.__version__}
    save("cluster", versions=versions, seeds=[0], runs=runs, results=results)


def kernels(rank: int) -> list[Kernel]:
    """Three kernels for every quarter of the image, for pixels from 0 to 255."""
    unit = 1.0 / WHITE**2
    return [
        kernel
        for columns in blocks()
        for kernel in (
            RBF(0.02 * unit, columns=columns, approximate="nystroem", rank=rank),
            RBF(0.1 * unit, columns=columns, approximate="nystroem", rank=rank),
            Polynomial(5, unit, columns=columns, approximate="nystroem", rank=rank),
        )
    ]


def drawn(*inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Deformed digits, by a worker."""
    with reused_memory():
        return deformed(*inputs)


def peak() -> float:
    """GB that this process has taken at most."""
    return memory() / 1e9


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Leave what is going on after so many seconds, 0 for never."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with suppress(TimeoutError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


class Passes(logging.Handler):
    """What a fit says of its passes over rows."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the numbers of one message: seconds, passes so far."""
        if str(record.msg).startswith("pass over"):
            self.seen.append(record.args)

    def __enter__(self) -> Passes:
        self.seen: list[Any] = []
        logging.getLogger("manykernels").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger("manykernels").removeHandler(self)

    def told(self) -> dict[str, Any]:
        """Passes over all rows, over those held, and seconds of one over all."""
        seconds = [line[0] for line in self.seen]
        _, whole, held = self.seen[-1]
        return {"all": whole, "held": held, "seconds_of_one": np.median(seconds)}


class Bench:
    """The digits, and fits of them."""

    def __init__(self, client: Client, mnist: Any, options: Any) -> None:
        self.options, self.client = options, client
        self.images = np.rint(WHITE * mnist.data).astype(np.uint8)
        self.labels = mnist.target
        self.X_test = np.rint(WHITE * mnist.data_test).astype(np.uint8)
        self.y_test = mnist.target_test
        sent = [self.images, self.labels]
        self.there = client.scatter(sent, broadcast=True)

    def rows(self, n_rows: int, n_parts: int) -> tuple[Any, Any]:
        """Deformed digits as collections; workers draw them."""
        edges = np.linspace(0, n_rows, n_parts + 1).astype(int)
        X, y = [], []
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            both = dask.delayed(drawn, nout=2)(*self.there, start, stop)
            size = int(stop - start)
            X.append(da.from_delayed(both[0], (size, 784), np.uint8))
            y.append(da.from_delayed(both[1], (size,), self.labels.dtype))
        return da.concatenate(X), da.concatenate(y)

    @cache  # noqa: B019
    def fitted(
        self, n_rows: int, n_parts: int = 0, tol: float = 1e-2, solver: str = "auto"
    ) -> Any:
        """A model, and what there is to say of its fit."""
        n_parts = n_parts or max(1, n_rows // PART_ROWS)
        model = mk.MKLClassifier(
            kernels(self.options.rank),
            p=P,
            C=C,
            loss="log",
            solver=solver,
            tol=tol,
            max_iter=MOST_ROUNDS,
            random_state=0,
            verbose=1,
        )
        X, y = self.rows(n_rows, n_parts)
        with Passes() as passes:
            _, seconds = timed(lambda: model.fit(X, y))
        found = {
            "rows": n_rows,
            "partitions": n_parts,
            "seconds": seconds,
            "rows_per_second": n_rows / seconds,
            "objective": model.objective_,
            "gap": model.duality_gap_ / model.objective_,
            "error": 1.0 - model.score(self.X_test, self.y_test),
            "rounds": model.n_iter_,
            "products": sum(line.updates for line in model.history_),
            "passes": passes.told(),
            "load": os.getloadavg()[1],
            "peak_gb": max(self.client.run(peak).values()),
            "bytes_of_a_product": 8 * sum(map(np.size, model._model.blocks)),
        }
        show(f"{n_rows} rows", list(found), [list(found.values())])
        return model, found

    def in_memory(
        self, model: Any, n_rows: int, tol: float, limit: float = 0.0
    ) -> dict[str, Any]:
        """The solver of this process on the features of a fitted model."""
        X, y = deformed(self.images, self.labels, 0, n_rows)
        made = model._model.kernels

        def solve() -> Any:
            parts = [phi for _, phi in made.feature_blocks(X.astype(np.float32))]
            columns = [np.concatenate(list(f)) for f in zip(*parts, strict=True)]
            bank = BlockBank([FeatureBlock(phi) for phi in columns], dtype=np.float32)
            n_classes, weight = len(model.classes_), np.ones(n_rows)
            loss = mk.losses.Softmax()
            norm = LpGroupNorm(P)
            problem = Problem(bank, y, n_classes, loss, norm, C, weight)
            with stopped_after(limit):
                return TruncatedNewton(tol, random_state=0).solve(problem)

        result, seconds = timed(solve)
        if result is None:
            return {"seconds": seconds, "stopped": True}
        return {
            "seconds": seconds,
            "stopped": False,
            "objective": result.objective,
            "gap": result.relative_gap,
        }

    def same(self) -> dict[str, Any]:
        """Objectives of 1, 2 and 7 partitions next to that of one process."""
        n_rows, found = self.options.same, {}
        for n_parts in (1, 2, 7):
            model, found[str(n_parts)] = self.fitted(n_rows, n_parts, 1e-7)
        alone = self.in_memory(model, n_rows, 1e-7)
        for one in found.values():
            one["difference"] = abs(one["objective"] / alone["objective"] - 1.0)
        return {"partitions": found, "one_process": alone}

    def overhead(self) -> dict[str, Any]:
        """Seconds from rows to a certified gap of 1e-2, features included."""
        model, found = self.fitted(self.options.rows)
        limit = PATIENCE * found["seconds"]
        alone = self.in_memory(model, self.options.rows, 1e-2, limit)
        ratio = found["seconds"] / alone["seconds"]
        return {"dask": found, "one_process": alone, "ratio": ratio}

    def cuts(self) -> dict[str, Any]:
        """Seconds by the number of partitions, for the same rows."""
        few = self.fitted(self.options.rows)[1]
        many = self.fitted(self.options.rows, self.options.cuts)[1]
        return {"few": few, "many": many, "ratio": many["seconds"] / few["seconds"]}

    def growth(self) -> dict[str, Any]:
        """A point between."""
        return self.fitted(self.options.growth)[1]

    def large(self) -> dict[str, Any]:
        """A fit whose features are beyond memory."""
        return self.fitted(self.options.large)[1]

    def sgd(self) -> dict[str, Any]:
        """One pass of SGDClassifier over the features of a fitted model."""
        n_rows = self.options.sgd
        # Features do not depend on how far a fit goes.
        model, _ = self.fitted(min(n_rows, self.options.large), tol=ROUGHEST)
        made = model._model.kernels
        rival = SGDClassifier(loss="log_loss", alpha=1.0 / (C * n_rows), random_state=0)

        def features(X: np.ndarray) -> np.ndarray:
            return np.hstack(made.new_features(X.astype(np.float32)))

        def learn() -> None:
            for start in range(0, n_rows, SGD_BLOCK):
                stop = min(start + SGD_BLOCK, n_rows)
                X, y = deformed(self.images, self.labels, start, stop)
                rival.partial_fit(features(X), y, model.classes_)

        _, seconds = timed(learn)
        error = 1.0 - rival.score(features(self.X_test), self.y_test)
        return {
            "rows": n_rows,
            "seconds": seconds,
            "rows_per_second": n_rows / seconds,
            "error": error,
        }


if __name__ == "__main__":
    main()
