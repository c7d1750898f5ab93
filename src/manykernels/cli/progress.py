"""Progress and warnings on standard error while a command works."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from manykernels.cli.errors import INTERRUPTED, one_line, printable
from manykernels.inputs.reporting import epoch_text, shown_log
from manykernels.solvers.loop import InterruptedFitWarning

ShowLine = Callable[[str], None]


@contextmanager
def changing_line(console: Console, first: str) -> Iterator[ShowLine]:
    """One line with a clock that changes, and vanishes at the end."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,  # no changing line for a pipe or a log file
    ) as shown:
        task = shown.add_task(first, total=None)
        yield lambda text: shown.update(task, description=text)


@contextmanager
def watched(
    model: Any, verbose: bool = False, quiet: bool = False
) -> Iterator[list[type[Warning]]]:
    """Show a fit: warnings, and a line per epoch or one that changes.

    Yields the list of the warnings.
    """
    console = Console(stderr=True)
    with shown_warnings(console) as warned:
        if verbose or quiet:
            model.set_params(verbose=int(verbose))
            yield warned
        else:
            with changing_line(console, "preparing") as show_line, shown_log(show_line):
                model.set_params(callback=lambda line: show_line(epoch_text(line)))
                yield warned
    # Neither belongs to the model that is saved.
    model.set_params(verbose=0, callback=None)


def learn_and_save(
    model: Any,
    path: Path,
    verbose: bool,
    *data: Any,
    smaller: Callable[[Any], Any] | None = None,
) -> Any:
    """Fit, write and return the model; after Ctrl-C the unfinished one, and exit 130.

    `smaller` turns the fitted model into the one to write.
    """
    with watched(model, verbose) as warned:
        model.fit(*data)  # Ctrl-C ends it with a warning and a usable model
    written = model if smaller is None else smaller(model)
    save_model(written, path, warned)
    leave_if_interrupted(warned)
    return written


def save_model(model: Any, path: Path, warned: list[type[Warning]]) -> None:
    """Write a fitted model; add to the list of warnings."""
    with shown_warnings(Console(stderr=True)) as more:
        model.save(path)
    warned += more


def leave_if_interrupted(warned: list[type[Warning]]) -> None:
    """Exit as shells expect it if Ctrl-C ended the fit."""
    if InterruptedFitWarning in warned:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def shown_warnings(console: Console) -> Iterator[list[type[Warning]]]:
    """Print every warning as one line; yields the list of them."""
    warned: list[type[Warning]] = []

    def show(message: Any, category: Any, *_: Any, **__: Any) -> None:
        warned.append(category)
        text = printable(f"Warning: {one_line(message)}")
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield warned
