"""What people see on standard error while a fit runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from manykernels.cli.errors import one_line
from manykernels.solvers import Epoch


@contextmanager
def shown_warnings(console: Console) -> Iterator[list[type[Warning]]]:
    """Print every warning as one line; yields the list of those that came."""
    seen: list[type[Warning]] = []

    def show(message: Any, category: Any, *_: Any, **__: Any) -> None:
        seen.append(category)
        text = f"Warning: {one_line(message)}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield seen


@contextmanager
def shown_epochs(
    model: Any, console: Console, verbose: bool, quiet: bool
) -> Iterator[None]:
    """Show the epochs of a fit: a line each, or one line that changes."""
    if verbose or quiet:
        model.set_params(verbose=int(verbose))
        yield
        model.set_params(verbose=0)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # A pipe or a log file gets no line that changes.
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task("preparing kernels", total=None)

        def show(line: Epoch) -> None:
            gap = f"gap {line.gap:.2g} (goal {model.tol:g})"
            shown.update(task, description=f"epoch {line.epoch}, {gap}")

        model.set_params(callback=show)
        yield
        model.set_params(callback=None)
