"""What all benchmarks share: alternated timing, tables, options, results."""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import evidence
import numpy as np
from evidence import RESULTS, console, results_folder, save
from rich.table import Table

__all__ = ["RESULTS", "console", "results_folder", "save"]  # for all scripts, from here


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


def medians(runs: Sequence[Any]) -> Any:
    """Some runs as one: the median of every number, and the quartiles of seconds."""
    first = runs[0]
    if isinstance(first, dict):
        found = {key: medians([run[key] for run in runs]) for key in first}
        if "seconds" in first:
            found["spread"] = summary([run["seconds"] for run in runs])
        return found
    if isinstance(first, (float, np.floating)):
        return float(np.median(runs))
    return int(np.median(runs)) if isinstance(first, int) else first


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
    options = parser.parse_args()
    evidence.chosen = vars(options)
    return options


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
