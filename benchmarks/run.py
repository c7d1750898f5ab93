"""Run benchmarks by name: python benchmarks/run.py [NAME ...], default the quick ones.

Options after a name's own file are its business: python benchmarks/NAME.py --help.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUICK = ("cold_start", "digits_speed", "demo_seeds", "default_p")
SLOW = (
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


def main(names: list[str]) -> int:
    """Run each in a process of its own; returns how many failed."""
    known = QUICK + SLOW
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(
            f"Expected names from {', '.join(known)}, got {', '.join(unknown)}; "
            "choose some of these.",
            file=sys.stderr,
        )
        return 2
    failed = 0
    for name in names or QUICK:
        print(f"\n== {name}", flush=True)
        script = Path(__file__).parent / f"{name}.py"
        failed += subprocess.run([sys.executable, str(script)], check=False).returncode
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
