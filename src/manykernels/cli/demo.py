"""``manykernels demo``: does learning kernel weights pay, next to simpler uses?"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
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
from manykernels.kernels import KernelSet, Precomputed, as_kernels
from manykernels.mkl import MKLClassifier
from manykernels.report import plot_fit

# Every contender chooses its C from these by cross-validation on the training rows.
C_VALUES = (1.0, 10.0, 100.0)
FOLDS = 3
WARM_UP_ROWS = 120  # enough for every compiled loop to run once


@dataclass(frozen=True)
class Result:
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

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Arena:
    """Kernel values of one data set, ready for every contender.

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
    def build(cls, digits: Bunch, seed: int) -> Arena:
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

    def useful(self) -> Arena:
        """The same rows without the noise kernels."""
        keep = self.groups == "useful"
        return Arena(
            self.train[..., keep],
            self.test[..., keep],
            self.target,
            self.target_test,
            [name for name, k in zip(self.names, keep, strict=True) if k],
            self.groups[keep],
            self.seed,
        )

    @property
    def title(self) -> str:
        """What the kernels are, in words."""
        n_noise = int((self.groups == "noise").sum())
        useful = len(self.groups) - n_noise
        return f"{useful} useful + {n_noise} noise" if n_noise else f"{useful} useful"

    def search(self, model: Any) -> GridSearchCV:
        """A search for C by cross-validation, which refits on all training rows."""
        smallest = int(np.bincount(self.target).min())
        n_folds = max(2, min(FOLDS, smallest))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed)
        return GridSearchCV(model, {"C": list(C_VALUES)}, cv=folds, error_score="raise")


def learn_weights(arena: Arena, p: float) -> tuple[Result, MKLClassifier]:
    """Multiple kernel learning at exponent p."""
    specs = [Precomputed(columns=f, name=n) for f, n in enumerate(arena.names)]
    model = MKLClassifier(specs, p=p, random_state=arena.seed)
    with warnings.catch_warnings():
        # A fold that stops early only makes the choice of C a little rougher; the
        # table shows the gap of the final fit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = arena.search(model).fit(arena.train, arena.target)
    fitted = search.best_estimator_
    weights = fitted.kernel_weights_
    result = Result(
        f"MKL, p = {p:g}",
        arena.title,
        float(fitted.score(arena.test, arena.target_test)),
        float(search.refit_time_),
        float(fitted.C),
        float(fitted.duality_gap_ / fitted.objective_),
        int((weights > 0.0).sum()),
        float(weights[arena.groups == "noise"].sum()),
    )
    return result, fitted


def average_kernels(arena: Arena) -> Result:
    """An SVM on the mean of all kernels."""
    search = _svm(arena, arena.train.mean(axis=-1))
    accuracy = search.score(arena.test.mean(axis=-1), arena.target_test)
    noise = float(np.mean(arena.groups == "noise"))
    return Result(
        "SVM, averaged kernel",
        arena.title,
        float(accuracy),
        float(search.refit_time_),
        float(search.best_params_["C"]),
        used=len(arena.names),
        noise_weight=noise,
    )


def best_single_kernel(arena: Arena) -> Result:
    """An SVM on the kernel with the best cross-validated accuracy."""
    searches = [_svm(arena, arena.train[..., f]) for f in range(len(arena.names))]
    best = int(np.argmax([search.best_score_ for search in searches]))
    accuracy = searches[best].score(arena.test[..., best], arena.target_test)
    return Result(
        "SVM, best single kernel",
        arena.title,
        float(accuracy),
        float(searches[best].refit_time_),
        float(searches[best].best_params_["C"]),
        used=1,
        noise_weight=float(arena.groups[best] == "noise"),
        note=arena.names[best],
    )


def warm_up(arena: Arena) -> None:
    """Run the compiled loops once, so that their compilation is not timed."""
    rows = np.arange(min(WARM_UP_ROWS, len(arena.target)))
    stack = arena.train[np.ix_(rows, rows)]
    model = MKLClassifier("precomputed", p=1.25, tol=0.5, random_state=0)
    model.fit(stack, arena.target[rows])


Step = tuple[str, Callable[[], Result]]


class Contest:
    """All contenders in order; `model` is the one in the picture."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.model: MKLClassifier | None = None

    def run(self, announce: Callable[[str], object]) -> list[Result]:
        """Results of all contenders; `announce` is told who comes next."""
        results = []
        # The matrices are small: more BLAS threads would mostly wait for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            for name, action in self.steps():
                announce(name)
                results.append(action())
        return results

    def steps(self) -> Iterator[Step]:
        """Names and actions, to be run one after the other."""
        yield "learning weights, p = 1", self._sparse
        yield "learning weights, p = 1.25", self._mild
        yield "averaging all kernels", lambda: average_kernels(self.arena)
        yield "trying single kernels", lambda: best_single_kernel(self.arena)
        if (self.arena.groups == "noise").any():
            useful = self.arena.useful()
            yield "learning, useful only", lambda: learn_weights(useful, 1.0)[0]
            yield "averaging, useful only", lambda: average_kernels(useful)

    def _sparse(self) -> Result:
        result, self.model = learn_weights(self.arena, 1.0)
        return result

    def _mild(self) -> Result:
        return learn_weights(self.arena, 1.25)[0]


def _svm(arena: Arena, kernel: np.ndarray) -> GridSearchCV:
    return arena.search(SVC(kernel="precomputed")).fit(kernel, arena.target)


# Points of accuracy within which two methods count as equal; two standard errors of
# a difference on 1,600 images are about as much.
AS_GOOD = 1.0


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
    digits = load_noisy_digits(train, noise, seed)
    arena = Arena.build(digits, seed)
    compile_seconds = _compile(arena, console)
    contest = Contest(arena)
    results = _run(contest, console)
    _write_picture(contest.model, arena, results[0], output)
    if as_json:
        print_json(
            {
                "train": train,
                "noise": noise,
                "seed": seed,
                "compile_seconds": compile_seconds,
                "picture": str(output),
                "results": [result.as_dict() for result in results],
            }
        )
        return
    console.print(result_table(results, len(arena.target_test)))
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


def _compile(arena: Arena, console: Console) -> float:
    began = time.perf_counter()
    with changing_line(console, "compiling the inner loops, kept for the next run"):
        warm_up(arena)
    seconds = time.perf_counter() - began
    console.print(f"Inner loops ready after {seconds:.1f} s, not counted below.")
    return seconds


def _run(contest: Contest, console: Console) -> list[Result]:
    with changing_line(console, "") as tell:
        return contest.run(tell)


def _write_picture(model: Any, arena: Arena, result: Result, output: Path) -> None:
    title = (
        f"{len(arena.target)} training images, {arena.title} kernels, p = {model.p:g}: "
        f"{result.accuracy:.1%} of the test images right"
    )
    figure = plot_fit(model, arena.groups.tolist(), title)
    try:
        figure.savefig(output, dpi=110)
    except OSError as error:
        fail(f"--output must be writable, got '{output}' ({error.strerror})")


def result_table(results: list[Result], n_test: int) -> Table:
    """One row per contender, one section per set of kernels."""
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


def by_kernels(results: list[Result]) -> dict[str, list[Result]]:
    """The results of each set of kernels, in order."""
    sets = dict.fromkeys(result.kernels for result in results)
    return {name: [r for r in results if r.kernels == name] for name in sets}


def conclusion(results: list[Result]) -> str:
    """What the numbers say, in words chosen by the numbers.

    Examples
    --------
    >>> learned = Result("MKL, p = 1", "2 useful + 4 noise", 0.9, 0.1, 1.0)
    >>> mean = Result("SVM, averaged kernel", "2 useful + 4 noise", 0.8, 0.1, 1.0)
    >>> print(conclusion([learned, mean]))
    With 2 useful + 4 noise kernels, learning weights gains 10.0 points over averaging.
    """
    sets = by_kernels(results)
    return "\n".join(_sentence(kernels, rows) for kernels, rows in sets.items())


def _sentence(kernels: str, results: list[Result]) -> str:
    learned = next(r for r in results if r.method.startswith("MKL"))
    mean = next(r for r in results if "averaged" in r.method)
    points = 100.0 * (learned.accuracy - mean.accuracy)
    if abs(points) < AS_GOOD:
        verdict = f"averaging is as good as learning weights ({points:+.1f} points)"
    elif points > 0.0:
        verdict = f"learning weights gains {points:.1f} points over averaging"
    else:
        verdict = f"learning weights loses {-points:.1f} points to averaging"
    return f"With {kernels} kernels, {verdict}."


def _cells(result: Result) -> list[str]:
    return [
        f"  {result.method}",
        f"{result.accuracy:.1%}",
        f"{result.seconds:.3f}",
        "-" if result.gap is None else f"{result.gap:.1e}",
        "-" if result.used is None else str(result.used),
        "-" if result.noise_weight is None else f"{result.noise_weight:.0%}",
    ]
