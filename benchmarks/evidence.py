"""Results on disk: figures, and all that is needed to tell whether they still hold."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sources import changed, fingerprints

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "MKLpy",
    "himalaya",
    "scikit-survival",
    "python-crfsuite",
    "torch",
)
BEGAN = time.perf_counter()  # scripts import this first
# Tables are wide; a pipe has no width of its own.
console = Console(width=None if sys.stdout.isatty() else 110)
chosen: dict[str, Any] = {}  # the options of the command line, filled by common.parse


def save(name: str, **content: Any) -> Path:
    """Write results/<name>.json; figures keep six digits.

    Options and seeds are taken from the command line where the script names none.
    """
    options = content.setdefault("options", dict(chosen))
    content.setdefault("seeds", seeds(options))
    path = results_folder(options.get("quick", False)) / f"{name}.json"
    record = {"benchmark": name, "environment": environment(), **content}
    path.write_text(json.dumps(_rounded(record), indent=2) + "\n")
    console.print(f"Written: {path.relative_to(RESULTS.parents[1])}")
    return path


def results_folder(quick: bool) -> Path:
    """Where results go; --quick has a folder of its own: documents rest on the rest."""
    folder = RESULTS / "quick" if quick else RESULTS
    folder.mkdir(exist_ok=True)
    return folder


def seeds(options: Mapping[str, Any]) -> list[int] | None:
    """The seeds that options stand for; None if the script has to name them."""
    for name in ("seeds", "splits"):
        if name in options:
            return list(range(options[name]))
    return [options["seed"]] if "seed" in options else None


def environment() -> dict[str, Any]:
    """What a figure depends on, and nothing personal."""
    script = Path(sys.modules["__main__"].__file__ or "")
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": time.perf_counter() - BEGAN,
        "command": " ".join([script.name, *sys.argv[1:]]),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "sources": fingerprints(script),
    }


def commit(folder: Path = RESULTS.parent) -> str | None:
    """The commit measured, with "+" after changes to its source.

    MANYKERNELS_COMMIT says it where a copy of the sources is no checkout of it.
    """
    if said := os.environ.get("MANYKERNELS_COMMIT"):
        return said
    named = _git(folder, "rev-parse", "HEAD")
    if named is None:
        return None
    edited = _git(folder, "status", "--porcelain", "--", ":/src", ":/benchmarks/*.py")
    return named + "+" * bool(edited)


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None where there is no git or no checkout."""
    command = ["git", "-C", str(folder), *words]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_rounded(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}")
    return value.item() if isinstance(value, np.generic) else value


def load(name: str) -> dict[str, Any]:
    """What a benchmark saved."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"expected a result {path.name}, got none; run the benchmark that saves it "
            "or take out what quotes it."
        )
    return json.loads(path.read_text("utf-8"))


@dataclass(frozen=True)
class Standing:
    """How one benchmark stands: "fresh", "stale" or "missing", and why."""

    state: str
    why: tuple[str, ...] = ()  # sources that have changed
    date: str = ""
    seconds: float | None = None


def standing(results: Sequence[str]) -> Standing:
    """The worst of some result files."""
    if any(not (RESULTS / f"{name}.json").is_file() for name in results):
        return Standing("missing")
    saved = [load(name) for name in results]
    found = [one["environment"] for one in saved]
    times = [one.get("seconds") for one in found]
    date = min(one["date"] for one in found)
    seconds = None if None in times else sum(times)
    if not all("sources" in one for one in found):
        return Standing("stale", ("no sources recorded",), date, seconds)
    if any(one.get("options", {}).get("quick") for one in saved):
        return Standing("stale", ("a quick version only",), date, seconds)
    why = sorted({file for one in found for file in changed(one["sources"])})
    return Standing("stale" if why else "fresh", tuple(why), date, seconds)
