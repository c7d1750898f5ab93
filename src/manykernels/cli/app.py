"""The commands, put together."""

from __future__ import annotations

import typer

from manykernels.cli.bench import bench
from manykernels.cli.demo import demo
from manykernels.cli.errors import plain_errors
from manykernels.cli.evaluate import evaluate
from manykernels.cli.fit import fit
from manykernels.cli.inspect import inspect
from manykernels.cli.label import label
from manykernels.cli.parse import parse
from manykernels.cli.predict import predict

app = typer.Typer(
    help="Multiple kernel learning with certified solutions.",
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks with local variables are long and say little to most people.
    pretty_exceptions_show_locals=False,
)
for command in (fit, predict, evaluate, inspect, label, parse, demo, bench):
    app.command()(plain_errors(command))


def _print_version(wanted: bool) -> None:
    if wanted:
        from manykernels import __version__

        typer.echo(f"manykernels {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(
        False,
        "--version",
        help="Print the version and leave.",
        callback=_print_version,
        is_eager=True,
    ),
) -> None:
    """Multiple kernel learning with certified solutions."""
