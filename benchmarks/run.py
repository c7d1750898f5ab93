"""Run benchmarks by name: python benchmarks/run.py [--full] [NAME ...].

Without names, all that are quick or have a quick version, in that version (within ten
minutes on two cores). With names, just these, as measured in the documentation;
--quick takes their quick versions. --full takes everything, which is a matter of hours.
Every script has options of its own: python benchmarks/NAME.py --help.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
SHORT = ("cold_start", "digits_speed", "demo_seeds")  # have no other version
CONTESTS = (  # have a quick version
    "race",
    "combinations",
    "noise_kernels",
    "questions",
    "growth",
    "mnist_growth",
)
LONG = (
    "default_p",
    "mnist_speed",
    "mnist_large",
    "scaling",
    "storages",
    "streaming",
    "killed",
    "approximations",
    "smooth_wrapper",
    "svrg_epochs",
    "gap_against_time",
    "interactions",
    "rmd_figures",
    "parsing",
    "tree_decoders",
    "himalaya",
    "decoders",
    "ocr",
    "ocr_figures",
)
KNOWN = SHORT + CONTESTS + LONG


def main(arguments: list[str]) -> int:
    """Run each in a process of its own; returns 1 if any failed."""
    names = [text for text in arguments if not text.startswith("--")]
    flags = set(arguments) - set(names)
    unknown = sorted((set(names) - set(KNOWN)) | (flags - {"--quick", "--full"}))
    if unknown:
        print(
            f"Expected --quick, --full or names from {', '.join(KNOWN)}, got "
            f"{', '.join(unknown)}; choose some of these.",
            file=sys.stderr,
        )
        return 2
    full = "--full" in flags
    chosen = names or (KNOWN if full else SHORT + CONTESTS)
    quick = "--quick" in flags or not (names or full)
    began = time.perf_counter()
    failed = [name for name in chosen if run_one(name, quick) != 0]
    print(f"\n{len(chosen)} benchmarks in {time.perf_counter() - began:.0f} s")
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
