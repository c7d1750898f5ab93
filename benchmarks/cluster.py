"""Rows in partitions on worker processes: the same optimum, overhead, growth, size.

Deformed digits drawn by the workers themselves, pixels as bytes, 12 Nystroem kernels
(three for every quarter of the image), log loss at p = 1.1 and C = 10, on a cluster of
processes here, one thread each. `same` compares objectives with the solver in memory
on the same features; `overhead` their seconds to a gap of 1e-2; `growth` and `cuts` how
seconds follow rows and partitions; `large` is one fit with features that do not fit the
workers, next to scikit-learn's SGDClassifier on the same features, one row after the
other. Errors are those of MNIST's test images.
"""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
from common import exponent, parse, save, show, timed
from deformed_digits import deformed
from distributed import Client, LocalCluster
from mnist_speed import C, blocks
from sklearn.linear_model import SGDClassifier

import manykernels as mk
from manykernels.banks import BlockBank, FeatureBlock
from manykernels.kernels import RBF, Kernel, Polynomial
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Problem
from manykernels.solvers.smooth import TruncatedNewton

P = 1.1
WHITE = 255.0
SGD_BLOCK = 5000  # rows whose features are held at a time


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        workers=(2, "processes"),
        memory=("2GB", "limit of each"),
        rank=(200, "columns of every kernel"),
        same=(20_000, "rows whose objectives are compared to 1e-7; 0 leaves it out"),
        overhead=(100_000, "rows in memory and in partitions; 0 leaves it out"),
        growth=("100000,300000,1000000", "numbers of rows, or nothing"),
        cuts=("10,100", "numbers of partitions, or nothing"),
        cut_rows=(100_000, "rows of these"),
        large=(1_000_000, "rows beyond the workers' memory; 0 leaves them out"),
    )
    mnist = mk.datasets.load_mnist()
    results: dict[str, Any] = {}
    limits = {"n_workers": options.workers, "memory_limit": options.memory}
    with (
        LocalCluster(threads_per_worker=1, dashboard_address=":0", **limits) as cluster,
        Client(cluster) as client,
    ):
        bench = Bench(client, mnist, options)
        for name in ("same", "overhead", "growth", "cuts", "large"):
            if getattr(options, name):
                results[name] = getattr(bench, name)()
    save("cluster", versions={"dask": dask.__version__}, seeds=[0], results=results)


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


class Bench:
    """The digits, and fits of them."""

    def __init__(self, client: Client, mnist: Any, options: Any) -> None:
        self.options = options
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
            both = dask.delayed(deformed, nout=2)(*self.there, start, stop)
            size = int(stop - start)
            X.append(da.from_delayed(both[0], (size, 784), np.uint8))
            y.append(da.from_delayed(both[1], (size,), self.labels.dtype))
        return da.concatenate(X), da.concatenate(y)

    def model(self, tol: float) -> mk.MKLClassifier:
        """An unfitted one."""
        return mk.MKLClassifier(
            kernels(self.options.rank), p=P, C=C, loss="log", tol=tol, random_state=0
        )

    def fitted(self, n_rows: int, n_parts: int, tol: float = 1e-2) -> Any:
        """A model, and what there is to say of its fit."""
        model = self.model(tol)
        X, y = self.rows(n_rows, n_parts)
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
            "bytes_of_a_product": 8 * sum(map(np.size, model._model.blocks)),
        }
        show(f"{n_rows} rows", list(found), [list(found.values())])
        return model, found

    def in_memory(self, model: Any, n_rows: int, tol: float) -> dict[str, Any]:
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
            return TruncatedNewton(tol, random_state=0).solve(problem)

        result, seconds = timed(solve)
        return {
            "seconds": seconds,
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
        model, found = self.fitted(self.options.overhead, 10)
        alone = self.in_memory(model, self.options.overhead, 1e-2)
        ratio = found["seconds"] / alone["seconds"]
        return {"dask": found, "one_process": alone, "ratio": ratio}

    def growth(self) -> dict[str, Any]:
        """Seconds by the number of rows, in partitions of the same size."""
        sizes = [int(n) for n in self.options.growth.split(",")]
        runs = {str(n): self.fitted(n, max(1, n // 10_000))[1] for n in sizes}
        seconds = [run["seconds"] for run in runs.values()]
        return {"runs": runs, "exponent": exponent(sizes, seconds)}

    def cuts(self) -> dict[str, Any]:
        """Seconds by the number of partitions, for the same rows."""
        numbers = [int(n) for n in self.options.cuts.split(",")]
        n_rows = self.options.cut_rows
        runs = {str(n): self.fitted(n_rows, n)[1] for n in numbers}
        first, *_, last = (run["seconds"] for run in runs.values())
        return {"runs": runs, "ratio": last / first}

    def large(self) -> dict[str, Any]:
        """A fit beyond memory, next to stochastic descent on the same features."""
        n_rows = self.options.large
        model, found = self.fitted(n_rows, max(2, n_rows // 20_000))
        return {"dask": found, "SGDClassifier": self._stochastic(model, n_rows)}

    def _stochastic(self, model: Any, n_rows: int) -> dict[str, Any]:
        """One pass of SGDClassifier over the features of a fitted model."""
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
            "seconds": seconds,
            "rows_per_second": n_rows / seconds,
            "error": error,
        }


if __name__ == "__main__":
    main()
