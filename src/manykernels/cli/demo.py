"""``manykernels demo``: learned kernel weights next to simpler uses of kernels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from manykernels.cli.errors import fail
from manykernels.cli.outputs import check_picture, print_json
from manykernels.cli.progress import changing_line
from manykernels.datasets import load_noisy_digits
from manykernels.kernels import Precomputed
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl import MKLClassifier
from manykernels.report import plot_fit

C_VALUES = (1.0, 10.0, 100.0)  # every method chooses among these on training rows


@dataclass(frozen=True)
class DemoResult:
    """One line of the table; None where a column makes no sense."""

    method: str
    kernels: str
    accuracy: float
    seconds: float
    C: float
    gap: float | None = None
    used: int | None = None
    noise_weight: float | None = None
    note: str = ""


@dataclass(frozen=True)
class DemoKernels:
    """Kernel values of one data set, which all methods share.

    Stacks have shape (rows, training rows, kernels), what scikit-learn can slice.
    """

    train: np.ndarray
    test: np.ndarray
    target: np.ndarray
    target_test: np.ndarray
    names: list[str]
    groups: np.ndarray
    seed: int

    @classmethod
    def build(cls, digits: Bunch, seed: int) -> DemoKernels:
        """Compute all kernels once, normalized with the training rows only."""
        kernels = KernelSet.fit(as_kernels(digits.kernels), digits.data)
        test = np.concatenate([b for _, b in kernels.cross(digits.data_test)], axis=1)
        return cls(
            np.moveaxis(kernels.stack(), 0, -1),
            np.moveaxis(test, 0, -1),
            digits.target,
            digits.target_test,
            kernels.names,
            np.array(digits.groups),
            seed,
        )

    def useful(self) -> DemoKernels:
        """Return the same rows without the noise kernels."""
        keep = self.groups == "useful"
        return replace(
            self,
            train=self.train[..., keep],
            test=self.test[..., keep],
            names=[name for name, k in zip(self.names, keep, strict=True) if k],
            groups=self.groups[keep],
        )

    @property
    def title(self) -> str:
        """Numbers of useful kernels and of noise kernels."""
        n_noise = int((self.groups == "noise").sum())
        useful = len(self.groups) - n_noise
        return f"{useful} useful + {n_noise} noise" if n_noise else f"{useful} useful"

    def search(self, model: Any, kernels: np.ndarray) -> GridSearchCV:
        """Fit the model with the best C by cross-validation on the training rows."""
        smallest = int(np.bincount(self.target).min())
        # Three folds, unless a class has only two images.
        n_folds = max(2, min(3, smallest))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed)
        grid = {"C": list(C_VALUES)}
        search = GridSearchCV(model, grid, cv=folds, error_score="raise")
        return search.fit(kernels, self.target)

    def result(
        self, method: str, search: GridSearchCV, test: np.ndarray, **others: Any
    ) -> DemoResult:
        """Measure a searched model on the test rows."""
        accuracy = float(search.score(test, self.target_test))
        C = float(search.best_params_["C"])
        seconds = float(search.refit_time_)
        return DemoResult(method, self.title, accuracy, seconds, C, **others)


def learn_weights(kernels: DemoKernels, p: float) -> tuple[DemoResult, MKLClassifier]:
    """Multiple kernel learning at exponent p."""
    specs = [Precomputed(columns=f, name=n) for f, n in enumerate(kernels.names)]
    model = MKLClassifier(specs, p=p, random_state=kernels.seed)
    with warnings.catch_warnings():
        # A fold that stops early only makes the choice of C a little rougher; the
        # table shows the gap of the final fit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = kernels.search(model, kernels.train)
    fitted = search.best_estimator_
    weights = fitted.kernel_weights_
    result = kernels.result(
        f"MKL, p = {p:g}",
        search,
        kernels.test,
        gap=float(fitted.duality_gap_ / fitted.objective_),
        used=int((weights > 0.0).sum()),
        noise_weight=float(weights[kernels.groups == "noise"].sum()),
    )
    return result, fitted


def average_kernels(kernels: DemoKernels) -> DemoResult:
    """An SVM on the mean of all kernels."""
    search = kernels.search(SVC(kernel="precomputed"), kernels.train.mean(axis=-1))
    return kernels.result(
        "SVM, averaged kernel",
        search,
        kernels.test.mean(axis=-1),
        used=len(kernels.names),
        noise_weight=float(np.mean(kernels.groups == "noise")),
    )


def best_single_kernel(kernels: DemoKernels) -> DemoResult:
    """An SVM on the kernel with the best cross-validated accuracy."""
    svm = SVC(kernel="precomputed")
    n_kernels = len(kernels.names)
    searches = [kernels.search(svm, kernels.train[..., f]) for f in range(n_kernels)]
    best = int(np.argmax([search.best_score_ for search in searches]))
    return kernels.result(
        "SVM, best single kernel",
        searches[best],
        kernels.test[..., best],
        used=1,
        noise_weight=float(kernels.groups[best] == "noise"),
        note=kernels.names[best],
    )


def warm_up(kernels: DemoKernels) -> None:
    """Run the compiled loops once, so that their compilation is not timed."""
    # As many rows as it takes for every compiled loop to run once.
    rows = np.arange(min(120, len(kernels.target)))
    stack = kernels.train[np.ix_(rows, rows)]
    model = MKLClassifier("precomputed", p=1.25, tol=0.5, random_state=0)
    model.fit(stack, kernels.target[rows])


def compare_methods(
    kernels: DemoKernels, announce: Callable[[str], object]
) -> tuple[list[DemoResult], MKLClassifier]:
    """Results of all methods in order, and the first model; `announce` gets titles."""
    # The matrices are small: more BLAS threads would mostly wait for each other.
    with threadpool_limits(limits=1, user_api="blas"):
        announce("learning weights, p = 1")
        sparse, model = learn_weights(kernels, 1.0)
        announce("learning weights, p = 1.25")
        results = [sparse, learn_weights(kernels, 1.25)[0]]
        announce("averaging all kernels")
        results.append(average_kernels(kernels))
        announce("trying single kernels")
        results.append(best_single_kernel(kernels))
        if (kernels.groups == "noise").any():
            useful = kernels.useful()
            announce("learning, useful only")
            results.append(learn_weights(useful, 1.0)[0])
            announce("averaging, useful only")
            results.append(average_kernels(useful))
    return results, model


# Points of accuracy within which two methods count as equal; two standard errors of
# a difference on 1,600 images are about as much.
EQUAL_POINTS = 1.0


def demo(
    train: int = typer.Option(200, help="Training images (30 to 1500)."),
    noise: int = typer.Option(48, help="Irrelevant kernels to add (0 to 500)."),
    seed: int = typer.Option(0, help="Seed of the split and the noise."),
    output: Path = typer.Option(
        Path("manykernels_demo.png"), help="Where to write the picture."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print the results as JSON instead of a table."
    ),
) -> None:
    """Learn from 12 useful and 48 irrelevant kernels on handwritten digits."""
    console = Console(stderr=as_json)
    _check(train, noise, seed, output)
    console.print(
        f"Learning to read digits from {train} images with 12 useful kernels and "
        f"{noise} that only see noise; each method chooses its C by cross-validation."
    )
    kernels = DemoKernels.build(load_noisy_digits(train, noise, seed), seed)
    began = time.perf_counter()
    with changing_line(console, "compiling the inner loops, kept for the next run"):
        warm_up(kernels)
    compile_seconds = time.perf_counter() - began
    console.print(
        f"Inner loops ready after {compile_seconds:.1f} s, not counted below."
    )
    with changing_line(console, "") as show_step:
        results, model = compare_methods(kernels, show_step)
    _write_picture(model, kernels, results[0], output)
    if as_json:
        print_json(
            {
                "train": train,
                "noise": noise,
                "seed": seed,
                "compile_seconds": compile_seconds,
                "picture": str(output),
                "results": [asdict(result) for result in results],
            }
        )
        return
    console.print(result_table(results, len(kernels.target_test)))
    console.print(conclusion(results))
    console.print(f"Picture: {output}", soft_wrap=True)


def _check(train: int, noise: int, seed: int, output: Path) -> None:
    for name, value, low, high in (
        ("--train", train, 30, 1500),
        ("--noise", noise, 0, 500),
        ("--seed", seed, 0, 2**31 - 1),
    ):
        if not low <= value <= high:
            fail(
                f"{name} must lie between {low} and {high}, got {value}; choose a "
                "number in this range"
            )
    check_picture("--output", output)


def _write_picture(
    model: Any, kernels: DemoKernels, result: DemoResult, output: Path
) -> None:
    title = (
        f"{len(kernels.target)} training images, {kernels.title} kernels, "
        f"p = {model.p:g}: {result.accuracy:.1%} of the test images right"
    )
    figure = plot_fit(model, kernels.groups.tolist(), title)
    try:
        figure.savefig(output, dpi=110)
    except OSError as error:
        fail(f"--output must be writable, got '{output}' ({error.strerror})")


def result_table(results: list[DemoResult], n_test: int) -> Table:
    """One row per method, one section per set of kernels."""
    table = Table(
        title=f"{n_test} test images",
        caption="used: kernels with weight; noise: weight on noise kernels",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("method", no_wrap=True)
    for name in ("accuracy", "fit s", "certified gap", "used", "noise"):
        table.add_column(name, justify="right", no_wrap=True)
    for kernels, rows in by_kernels(results).items():
        table.add_section()
        table.add_row(f"[bold]{kernels}")
        for result in rows:
            table.add_row(*_cells(result))
    return table


def by_kernels(results: list[DemoResult]) -> dict[str, list[DemoResult]]:
    """The results of each set of kernels, in order."""
    sets = dict.fromkeys(result.kernels for result in results)
    return {name: [r for r in results if r.kernels == name] for name in sets}


def conclusion(results: list[DemoResult]) -> str:
    """Compare learning with averaging, in one sentence per set of kernels.

    Examples
    --------
    >>> learned = DemoResult("MKL, p = 1", "2 useful + 4 noise", 0.9, 0.1, 1.0)
    >>> mean = DemoResult("SVM, averaged kernel", "2 useful + 4 noise", 0.8, 0.1, 1.0)
    >>> print(conclusion([learned, mean]))
    With 2 useful + 4 noise kernels, learning weights gains 10.0 points over averaging.
    """
    sets = by_kernels(results)
    return "\n".join(_sentence(kernels, rows) for kernels, rows in sets.items())


def _sentence(kernels: str, results: list[DemoResult]) -> str:
    learned = next(r for r in results if r.method.startswith("MKL"))
    mean = next(r for r in results if "averaged" in r.method)
    points = 100.0 * (learned.accuracy - mean.accuracy)
    if abs(points) < EQUAL_POINTS:
        verdict = f"averaging is as good as learning weights ({points:+.1f} points)"
    elif points > 0.0:
        verdict = f"learning weights gains {points:.1f} points over averaging"
    else:
        verdict = f"learning weights loses {-points:.1f} points to averaging"
    return f"With {kernels} kernels, {verdict}."


def _cells(result: DemoResult) -> list[str]:
    return [
        f"  {result.method}",
        f"{result.accuracy:.1%}",
        f"{result.seconds:.3f}",
        "-" if result.gap is None else f"{result.gap:.1e}",
        "-" if result.used is None else str(result.used),
        "-" if result.noise_weight is None else f"{result.noise_weight:.0%}",
    ]
