"""``manykernels bench``: measure again what the documentation says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from manykernels.cli.errors import fail


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
