"""Run benchmarks by name: python benchmarks/run.py [--full | --stale] [NAME ...].

Without names, says which results are older than the code they measure, then runs all
benchmarks that are quick or have a quick version, in that version (within ten minutes
on two cores). With names, just these, as measured in the documentation; --quick takes
their quick versions. --status only says how all results, or those named, stand.
--stale measures again what is stale or missing, the longest last; --full takes
everything, which is a matter of hours. Afterwards python benchmarks/page.py brings the
figures into README and documentation.
Every script has options of its own: python benchmarks/NAME.py --help.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common import show
from evidence import Standing, standing

FOLDER = Path(__file__).parent
SHORT = ("cold_start", "latency", "digits_speed", "demo_seeds")  # have no other version
CONTESTS = (  # have a quick version
    "race",
    "combinations",
    "noise_kernels",
    "questions",
    "growth",
    "passes",
    "mnist_growth",
    "default_p",
    "svrg_epochs",
    "gap_against_time",
    "groups",
    "stability",
    "study",
    "view_defaults",
)
LONG = (
    "mnist_speed",
    "mnist_large",
    "missing_views",
    "importance",
    "nugget",
    "scaling",
    "storages",
    "streaming",
    "budgets",
    "killed",
    "soak",
    "fuzz",
    "stress",
    "approximations",
    "smooth_wrapper",
    "interactions",
    "terms",
    "rmd_figures",
    "parsing",
    "treebanks",
    "treebank_udpipe",
    "tree_decoders",
    "himalaya",
    "survival",
    "survival_defaults",
    "chunking",
    "tagging",
    "decoders",
    "ocr",
    "ocr_defaults",
    "ocr_figures",
    "gpu",
    "gpu_smooth",
    "gpu_targets",
    "gpu_terms",
    "cluster",
)
KNOWN = SHORT + CONTESTS + LONG
FLAGS = ("--quick", "--full", "--status", "--stale")
# Result files, where a benchmark has others than the one of its name.
RESULTS = {"rmd_figures": ("rmd_figure_1", "rmd_figure_2", "rmd_figure_3")}


def main(arguments: list[str]) -> int:
    """Run each in a process of its own; returns 1 if any failed."""
    names = [text for text in arguments if not text.startswith("--")]
    flags = set(arguments) - set(names)
    unknown = sorted((set(names) - set(KNOWN)) | (flags - set(FLAGS)))
    if unknown:
        print(
            f"Expected {', '.join(FLAGS)} or names from {', '.join(KNOWN)}, got "
            f"{', '.join(unknown)}; choose some of these.",
            file=sys.stderr,
        )
        return 2
    if "--status" in flags or not arguments:
        report(names or KNOWN)
    if "--status" in flags:
        return 0
    return run_all(choose(names, flags), "--quick" in flags or not arguments)


def choose(names: Sequence[str], flags: set[str]) -> Sequence[str]:
    """The benchmarks that a command line stands for."""
    if "--stale" in flags:
        return stale(names or KNOWN)
    return names or (KNOWN if "--full" in flags else SHORT + CONTESTS)


def stale(names: Sequence[str]) -> list[str]:
    """Those whose results are not of the present code, the longest last."""
    found = {name: stands(name) for name in names}
    return sorted(
        (name for name in names if found[name].state != "fresh"),
        key=lambda name: found[name].seconds or float("inf"),
    )


def stands(name: str) -> Standing:
    """Whether the results of a benchmark are those of the present code."""
    return standing(RESULTS.get(name, (name,)))


def report(names: Sequence[str]) -> None:
    """Print how the results stand."""
    rows = []
    for name in names:
        found = stands(name)
        seconds = None if found.seconds is None else f"{found.seconds:.0f}"
        rows.append([name, found.state, found.date, seconds, shortened(found.why)])
    show(
        "Results and the code they measure",
        ["", "state", "measured", "took, s", "changed since"],
        rows,
    )


def shortened(files: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    names = [name.removeprefix("src/manykernels/") for name in files]
    return ", ".join(names[:most]) + f" and {len(names) - most} more" * (
        len(names) > most
    )


def run_all(names: Sequence[str], quick: bool) -> int:
    """1 if any failed, and say which."""
    began = time.perf_counter()
    failed = [name for name in names if run_one(name, quick) != 0]
    print(f"\n{len(names)} benchmarks in {time.perf_counter() - began:.0f} s")
    if not quick:
        print("python benchmarks/page.py writes the new figures into all pages.")
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def run_one(name: str, quick: bool) -> int:
    """The exit status of one script."""
    options = ["--quick"] if quick and name in CONTESTS else []
    print(f"\n== {' '.join([name, *options])}", flush=True)
    command = [sys.executable, str(FOLDER / f"{name}.py"), *options]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
