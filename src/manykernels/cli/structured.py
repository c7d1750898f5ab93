"""What the commands for sequences and trees share: learn first, or load, then tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console

from manykernels.cli.errors import INTERRUPTED, fail
from manykernels.cli.outputs import STDOUT, check_output, print_json
from manykernels.cli.progress import shown_warnings
from manykernels.files import load
from manykernels.solvers.loop import InterruptedFitWarning

Model = TypeVar("Model")


def check_files(
    data: str | None, train: str | None, model: Path, out: str, purpose: str
) -> None:
    """Refuse what cannot work, before anything is read: `purpose` is what DATA is for.

    Standard input has the same name as standard output.
    """
    if data is None and train is None:
        fail(f"expected a file to {purpose}, or --train, got neither; name one")
    if data == train == STDOUT:
        fail("expected at most one file from standard input, got two; name the other")
    check_output("--out", out)
    if train is not None:
        check_output("--model", model)


def chosen(**given: Any) -> dict[str, Any]:
    """The parameters that were given; the estimator knows the others.

    Examples
    --------
    >>> chosen(C=2.0, loss=None)
    {'C': 2.0}
    """
    return {name: value for name, value in given.items() if value is not None}


def learn_and_save(fit: Callable[[], Any], path: Path) -> None:
    """Fit and write the model; after Ctrl-C what was learnt so far, and exit 130."""
    with shown_warnings(Console(stderr=True)) as seen:
        model = fit()
    model.save(path)
    if InterruptedFitWarning in seen:
        raise typer.Exit(INTERRUPTED)


def load_as(kind: type[Model], name: str, path: Path) -> Model:
    """The model in a file, which must be of this kind."""
    model = load(path)
    if not isinstance(model, kind):
        fail(
            f"expected the file of a {name}, got one of {type(model).__name__}; learn "
            f"a {name} with --train"
        )
    return model


def tell(content: dict[str, Any], as_json: bool) -> None:
    """One line per entry, or JSON."""
    if as_json:
        print_json(content)
        return
    for name, value in content.items():
        lines = value if isinstance(value, list) else [value]
        shown = [f"{v:.4f}" if isinstance(v, float) else str(v) for v in lines]
        typer.echo(f"{name.replace('_', ' ')}: {'; '.join(shown)}")
