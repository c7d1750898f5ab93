"""The commands, put together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from manykernels.cli.demo import demo
from manykernels.cli.errors import fail, plain_errors
from manykernels.cli.fit import fit
from manykernels.cli.label import label
from manykernels.cli.models import evaluate, inspect, predict
from manykernels.cli.parse import parse
from manykernels.inputs.reporting import say, shown_log


def bench(
    names: list[str] = typer.Argument(
        None, help="Benchmarks; without names, the quick version of most of them."
    ),
    quick: bool = typer.Option(False, "--quick", help="Quick versions of the named."),
    full: bool = typer.Option(False, "--full", help="All of them: some hours."),
) -> None:
    """Run the benchmarks of a source checkout, next to every rival.

    manykernels bench race noise_kernels
    """
    script = find_benchmarks()
    flags = ["--quick"] * quick + ["--full"] * full
    command = [sys.executable, str(script), *(names or []), *flags]
    status = subprocess.run(command, check=False).returncode
    if status:
        raise typer.Exit(status)


def find_benchmarks() -> Path:
    """run.py of the checkout that is installed, or of the one we are in."""
    installed = Path(__file__).resolve().parents[3]
    for root in (installed, Path.cwd()):
        script = root / "benchmarks" / "run.py"
        if script.is_file():
            return script
    fail(
        "expected a source checkout with the folder 'benchmarks', got an installation "
        "without it; clone the repository and call this command there"
    )


def warm_up() -> None:
    """Compile the loops for this machine now, so that no fit has to wait for it.

    manykernels warm-up
    """
    from manykernels.mkl import warm_up

    with shown_log():
        warm_up()
    say("ready: fits start at once")


app = typer.Typer(
    help="Multiple kernel learning with certified solutions.",
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks with local variables are long and say little to most people.
    pretty_exceptions_show_locals=False,
)
for command in (fit, predict, evaluate, inspect, label, parse, demo, bench, warm_up):
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
