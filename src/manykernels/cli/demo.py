"""``manykernels demo``: does learning kernel weights pay?"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from manykernels.cli.contest import Arena, Contest, Result, warm_up
from manykernels.cli.errors import fail
from manykernels.cli.outputs import check_picture
from manykernels.cli.table import conclusion, result_table
from manykernels.datasets import load_noisy_digits
from manykernels.report import plot_fit


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
        typer.echo(_as_json(results, compile_seconds, train, noise, seed, output))
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
    with console.status("Compiling the inner loops (kept for the next run) ..."):
        warm_up(arena)
    seconds = time.perf_counter() - began
    console.print(f"Inner loops ready after {seconds:.1f} s, not counted below.")
    return seconds


def _run(contest: Contest, console: Console) -> list[Result]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")
        return contest.run(lambda name: progress.update(task, description=name))


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


def _as_json(
    results: list[Result],
    compile_seconds: float,
    train: int,
    noise: int,
    seed: int,
    output: Path,
) -> str:
    content = {
        "train": train,
        "noise": noise,
        "seed": seed,
        "compile_seconds": compile_seconds,
        "picture": str(output),
        "results": [result.as_dict() for result in results],
    }
    return json.dumps(content, indent=2)
