"""What people see on standard error while a command works."""

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

Tell = Callable[[str], None]


@contextmanager
def changing_line(console: Console, first: str) -> Iterator[Tell]:
    """One line with a clock that changes, and vanishes at the end."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # A pipe or a log file gets no line that changes.
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task(first, total=None)
        yield lambda text: shown.update(task, description=text)


@contextmanager
def watched(
    model: Any, verbose: bool = False, quiet: bool = False
) -> Iterator[list[type[Warning]]]:
    """Show a fit: warnings, and a line per epoch or one that changes.

    Yields the list of the warnings that came.
    """
    console = Console(stderr=True)
    with shown_warnings(console) as seen:
        if verbose or quiet:
            model.set_params(verbose=int(verbose))
            yield seen
        else:
            with changing_line(console, "preparing") as tell, shown_log(tell):
                model.set_params(callback=lambda line: tell(epoch_text(line)))
                yield seen
    model.set_params(verbose=0, callback=None)


def learn_and_save(
    model: Any,
    path: Path,
    verbose: bool,
    *data: Any,
    smaller: Callable[[Any], Any] | None = None,
) -> Any:
    """Fit and write the model; after Ctrl-C what was learned so far, and exit 130.

    `smaller` makes of the fitted model the one to write, which is returned.
    """
    with watched(model, verbose) as seen:
        model.fit(*data)
    written = model if smaller is None else smaller(model)
    save_model(written, path, seen)
    leave_if_interrupted(seen)
    return written


def save_model(model: Any, path: Path, seen: list[type[Warning]]) -> None:
    """Write a fitted model; adds to the list of the warnings that came."""
    with shown_warnings(Console(stderr=True)) as more:
        model.save(path)
    seen += more


def leave_if_interrupted(seen: list[type[Warning]]) -> None:
    """End the command as shells expect it, if Ctrl-C ended the fit."""
    if InterruptedFitWarning in seen:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def shown_warnings(console: Console) -> Iterator[list[type[Warning]]]:
    """Print every warning as one line; yields the list of those that came."""
    seen: list[type[Warning]] = []

    def show(message: Any, category: Any, *_: Any, **__: Any) -> None:
        seen.append(category)
        text = printable(f"Warning: {one_line(message)}")
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield seen
