"""What all benchmarks share: the environment, alternated timing, tables, results."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "manykernels",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "MKLpy",
    "himalaya",
    "python-crfsuite",
)
# Tables are wide; a pipe has no width of its own.
console = Console(width=None if sys.stdout.isatty() else 110)


def environment() -> dict[str, Any]:
    """Date, commit, cores and versions: what a figure depends on, nothing personal."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def commit(folder: Path = RESULTS.parent) -> str | None:
    """The short name of the commit measured, with "+" after changes to its source.

    None outside of a checkout, where there is nothing to name.
    """
    named = _git(folder, "rev-parse", "--short", "HEAD")
    if named is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--", ":/src", ":/benchmarks/*.py")
    return named + "+" * bool(changed)


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None where there is no git or no checkout."""
    command = ["git", "-C", str(folder), *words]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def _version(package: str) -> str | None:
    if package == "manykernels":
        import manykernels

        return manykernels.__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def results_folder(quick: bool) -> Path:
    """Where results go; --quick has a folder of its own: documents rest on the rest."""
    folder = RESULTS / "quick" if quick else RESULTS
    folder.mkdir(exist_ok=True)
    return folder


def save(name: str, **content: Any) -> Path:
    """Write results/<name>.json; figures keep six digits."""
    folder = results_folder(content.get("options", {}).get("quick", False))
    path = folder / f"{name}.json"
    record = {"benchmark": name, "environment": environment(), **content}
    path.write_text(json.dumps(_rounded(record), indent=2) + "\n")
    console.print(f"Written: {path.relative_to(RESULTS.parents[1])}")
    return path


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_rounded(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}")
    return value.item() if isinstance(value, np.generic) else value


def alternate(
    actions: dict[str, Callable[[], Any]], repeats: int
) -> dict[str, list[float]]:
    """Seconds of every action, in turns (A B A B ...).

    A busy moment of the machine then hits all of them alike.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles."""
    low, middle, high = np.percentile(seconds, [25, 50, 75])
    return {"q25": low, "median": middle, "q75": high, "repeats": len(seconds)}


def ratios(seconds: dict[str, list[float]], base: str) -> dict[str, dict[str, Any]]:
    """Quartiles of time / the base's time within the same turn."""
    reference = np.array(seconds[base])
    return {name: summary(np.array(s) / reference) for name, s in seconds.items()}


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """The action's value and its seconds."""
    began = time.perf_counter()
    value = action()
    return value, time.perf_counter() - began


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; numbers with four digits."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    console.print(table)


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, (float, np.floating)) else str(cell)


def parse(description: str, **options: tuple[Any, str]) -> argparse.Namespace:
    """Command line options with defaults: name=(default, help)."""
    parser = argparse.ArgumentParser(description=description)
    for name, (default, text) in options.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true", help=text)
        else:
            parser.add_argument(
                flag, type=type(default), default=default, help=f"{text} ({default})"
            )
    return parser.parse_args()


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """work(*arguments) in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def memory(field: str = "VmHWM") -> int:
    """Bytes of this process: VmHWM, the most so far, or VmRSS, now (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"expected {field} in the status of the process, got none.")


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The b of values ~ a * sizes^b, by least squares in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
