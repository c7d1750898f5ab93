"""Attack everything that is read: models, checkpoints, Gram files, tables, kernels, ...

Every input must be accepted, or refused in a clear sentence, in a process with limits
of memory and time; a model that is accepted must be sound. An input that breaks this
goes into the corpus in tests/fuzz/corpus, which the tests try again ever after.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common import console, save, show

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz.attack import attack, keep  # noqa: E402
from tests.fuzz.targets import TARGETS  # noqa: E402
from tests.fuzz.worker import outcome  # noqa: E402

COLUMNS = ["accepted", "refused", "unclear", "hung", "died"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="at most (60)")
    parser.add_argument("--count", type=int, help="of inputs of each sort, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the first input (0)")
    parser.add_argument("--target", choices=list(TARGETS), help="only this sort")
    parser.add_argument("--replay", type=Path, help="try the input in this file again")
    return parser.parse_args()


def main() -> int:
    """Attack, print and store."""
    options = arguments()
    names = [options.target] if options.target else list(TARGETS)
    if options.replay is not None:
        content = options.replay.read_bytes()
        outcomes = {name: outcome(name, content) for name in names}
        show("replayed", ["target", "outcome"], list(outcomes.items()))
        return int(not set(outcomes.values()) <= {"accepted", "refused"})
    reports = attack(names, options.seconds, options.seed, options.count)
    for name, report in reports.items():
        for what, (seed, content) in report.failures.items():
            where = keep(name, content)
            console.print(f"{name}, seed {seed}: {what}\n  in {where}", markup=False)
    rows = [[name, *(r.counts[c] for c in COLUMNS)] for name, r in reports.items()]
    show(f"first seed {options.seed}", ["target", *COLUMNS], rows)
    counts = {name: dict(report.counts) for name, report in reports.items()}
    save("fuzz", options={"seed": options.seed}, results=counts)
    return int(any(report.failures for report in reports.values()))


if __name__ == "__main__":
    sys.exit(main())
