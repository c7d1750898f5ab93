"""Attack everything that is read: models, checkpoints, Gram files, tables, kernels, ...

Every input must be accepted, or refused in a clear sentence, in a process with limits
of memory and time; a model that is accepted must be sound, and no file may take more
than four times its size and 100 MB. An input that breaks this goes into the corpus in
tests/fuzz/corpus, which the tests try again ever after. Without options, 10,000 files
of every format; with --seconds, inputs of every sort for as long as you like.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import console, save, show

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz.attack import Report, attack, keep  # noqa: E402
from tests.fuzz.targets import FORMATS, TARGETS  # noqa: E402
from tests.fuzz.worker import outcome  # noqa: E402

COUNT, QUICK = 10_000, 100  # inputs of every format
COLUMNS = ["accepted", "refused", "unclear", "hung", "died"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, help="of all sorts of input in turns")
    parser.add_argument("--count", type=int, help="of inputs of each sort, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the first input (0)")
    parser.add_argument("--jobs", type=int, default=2, help="formats at a time (2)")
    parser.add_argument("--target", choices=list(TARGETS), help="only this sort")
    parser.add_argument("--replay", type=Path, help="try the input in this file again")
    parser.add_argument("--quick", action="store_true", help="100 of every format")
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
    reports = attack_all(options, names)
    for name, report in reports.items():
        for what, (seed, content) in report.failures.items():
            where = keep(name, content)
            console.print(f"{name}, seed {seed}: {what}\n  in {where}", markup=False)
    results = {name: counted(report) for name, report in reports.items()}
    rows = [[name, *found.values()] for name, found in results.items()]
    show(f"first seed {options.seed}", ["target", *COLUMNS, "most MB"], rows)
    told = {"seed": options.seed, "count": options.count, "quick": not whole(options)}
    save("fuzz", options=told, results={**results, "all": summed(results)})
    return int(any(report.failures for report in reports.values()))


def whole(options: argparse.Namespace) -> bool:
    """Whether this is the attack that the documentation quotes."""
    enough = options.count is not None and options.count >= COUNT
    return enough and options.seconds is None and options.target is None


def attack_all(options: argparse.Namespace, names: list[str]) -> dict[str, Report]:
    """Formats side by side, each in a process of its own; or all sorts in turns."""
    if options.seconds is not None:
        return attack(names, options.seconds, options.seed, options.count)
    if options.count is None:
        options.count = QUICK if options.quick else COUNT
    names = names if options.target else FORMATS
    with ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(
            lambda name: attack([name], float("inf"), options.seed, options.count),
            names,
        )
        return {name: report for part in found for name, report in part.items()}


def counted(report: Report) -> dict[str, float]:
    """What became of the inputs, and the megabytes that the hungriest took."""
    counts = {column: report.counts[column] for column in COLUMNS}
    return {**counts, "most MB": report.most_bytes / 1e6}


def summed(results: dict[str, dict[str, float]]) -> dict[str, float]:
    """Of all sorts together."""
    total = {c: sum(found[c] for found in results.values()) for c in COLUMNS}
    least = min(sum(found[c] for c in COLUMNS) for found in results.values())
    most = max(found["most MB"] for found in results.values())
    failures = total["unclear"] + total["hung"] + total["died"]
    return {**total, "failures": failures, "of each": least, "most MB": most}


if __name__ == "__main__":
    sys.exit(main())
