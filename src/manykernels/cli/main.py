"""The list of commands, each of which is imported when it runs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from manykernels.base.imports import require_library
from manykernels.cli.errors import (
    BAD_INPUT,
    INTERRUPTED,
    fail,
    one_line,
    one_sentence_errors,
    show,
)

# The module of each command, and its line in the list of commands.
COMMANDS = {
    "fit": ("fit_rows", "Learn a model and the weight of every kernel from a file."),
    "predict": ("models", "Write a prediction for every row, token or word of a file."),
    "evaluate": ("models", "Compare a model's predictions with the truth in a file."),
    "inspect": (
        "models",
        "Show what a model file holds: kernels with their weights, the certificate, "
        "...",
    ),
    "report": ("pages", "Write a model's results on unseen rows as an HTML page."),
    "study": (
        "pages",
        "Find out whether learning the weights pays, and which views matter.",
    ),
    "label": ("label", "Learn to label sequences, or label the tokens in a file."),
    "parse": (
        "parse",
        "Learn a dependency parser, or find the heads of the words in a file.",
    ),
    "demo": (
        "demo",
        "Learn from 12 useful and 48 irrelevant kernels on handwritten digits.",
    ),
    "bench": (
        "main",
        "Run the benchmarks of a source checkout, next to every rival.",
    ),
    "warm-up": (
        "main",
        "Compile the loops for this machine now, so that no fit has to wait for it.",
    ),
}
TABLE_LIBRARIES = ("pandas", "pyarrow")


class Commands(TyperGroup):
    """Commands that are imported when they run; listing them imports none."""

    def list_commands(self, context: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: Any, name: str) -> Any:
        """Return the name with the line of the list."""
        return TyperCommand(name, help=COMMANDS[name][1]) if name in COMMANDS else None

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        """Return the command itself, with its options."""
        name, found, rest = super().resolve_command(context, arguments)
        return name, found and load_command(str(name)), rest

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; report bad options in one sentence without a frame."""
        # In standalone mode typer would print its own frames and exit by itself.
        alone = options.get("standalone_mode", True)
        options["standalone_mode"] = False
        if not alone:
            return super().main(*args, **options)
        try:
            code = super().main(*args, **options)
        except Exception as error:
            code = _report_usage_error(error)
        sys.exit(code if isinstance(code, int) else 0)


def _report_usage_error(error: Any) -> int:
    """Print an error of typer; the module of its class depends on the version."""
    # Classes of click, which newer versions of typer carry inside of them.
    kind = type(error).__name__
    if kind == "Abort":
        show("Interrupted.", err=True)
        return INTERRUPTED
    if not hasattr(error, "format_message"):
        raise error
    if kind == "NoArgsIsHelpError":
        error.show()
        return BAD_INPUT
    where = error.ctx.command_path if getattr(error, "ctx", None) else "manykernels"
    message = one_line(error.format_message()).rstrip(".")
    show(f"Error: {message}; see '{where} --help'.", err=True)
    return BAD_INPUT


def load_command(name: str) -> Any:
    """Import the module of a command, and the libraries that it needs."""
    home, _ = COMMANDS[name]
    for library in TABLE_LIBRARIES if home != "main" else ():
        require_library(library, "cli")
    module = import_module(f"manykernels.cli.{home}")
    function = getattr(module, name.replace("-", "_"))
    alone = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    alone.command(name)(one_sentence_errors()(function))
    return typer.main.get_command(alone)


def bench(
    names: list[str] = typer.Argument(
        None, help="Benchmarks; without names, the quick version of most of them."
    ),
    quick: bool = typer.Option(False, "--quick", help="Quick versions of the named."),
    full: bool = typer.Option(False, "--full", help="All of them: some hours."),
    status: bool = typer.Option(
        False, "--status", help="Only list results that are older than the code."
    ),
    stale: bool = typer.Option(False, "--stale", help="Measure just these again."),
) -> None:
    """Run the benchmarks of a source checkout, next to every rival.

    manykernels bench race noise_kernels
    """
    script = find_benchmarks()
    asked = {"quick": quick, "full": full, "status": status, "stale": stale}
    flags = [f"--{name}" for name, wanted in asked.items() if wanted]
    command = [sys.executable, str(script), *(names or []), *flags]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise typer.Exit(code)


def find_benchmarks() -> Path:
    """Return run.py of the installed checkout, or of the current folder."""
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
    from manykernels.inputs.reporting import say, shown_log
    from manykernels.mkl import warm_up as compile_loops

    with shown_log():
        compile_loops()
    say("ready: fits start at once")


app = typer.Typer(
    cls=Commands,
    help="Multiple kernel learning with certified solutions.",
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks with local variables are too long to read.
    pretty_exceptions_show_locals=False,
)


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
