"""``manykernels demo``: does learning kernel weights pay?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from manykernels.cli.contest import Arena, Contest, Result, warm_up
from manykernels.cli.errors import fail
from manykernels.cli.outputs import check_picture, print_json
from manykernels.cli.progress import changing_line
from manykernels.datasets import load_noisy_digits
from manykernels.report import plot_fit

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
    >>> learnt = Result("MKL, p = 1", "2 useful + 4 noise", 0.9, 0.1, 1.0)
    >>> mean = Result("SVM, averaged kernel", "2 useful + 4 noise", 0.8, 0.1, 1.0)
    >>> print(conclusion([learnt, mean]))
    With 2 useful + 4 noise kernels, learning weights gains 10.0 points over averaging.
    """
    sets = by_kernels(results)
    return "\n".join(_sentence(kernels, rows) for kernels, rows in sets.items())


def _sentence(kernels: str, results: list[Result]) -> str:
    learnt = next(r for r in results if r.method.startswith("MKL"))
    mean = next(r for r in results if "averaged" in r.method)
    points = 100.0 * (learnt.accuracy - mean.accuracy)
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
