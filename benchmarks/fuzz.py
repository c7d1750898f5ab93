"""Break inputs for as long as you like: files, kernels, models, estimators, commands.

Every input must be accepted, or refused in a clear sentence. The first one that is not
is written to a file, which `--replay FILE --target NAME` tries again.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from common import console, show

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz import targets as fuzz  # noqa: E402

FOUND = Path("fuzz_found.bin")
# A loop in compiled code hears no alarm: end the process and say where.
DEADLINE = 3 * fuzz.SECONDS


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--seed", type=int, default=0, help="of all inputs (0)")
    parser.add_argument("--target", choices=list(fuzz.TARGETS), help="only this sort")
    parser.add_argument("--replay", type=Path, help="try the input in this file again")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at one")
    parser.add_argument("--out", type=Path, default=FOUND, help=f"({FOUND})")
    return parser.parse_args()


def attempt(name: str, content: bytes, out: Path) -> str:
    """What became of an input; one that is unclear stays in the file `out`."""
    out.write_bytes(content)  # before the attempt: the process itself may die
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    try:
        return "accepted" if fuzz.TARGETS[name].attempt(content) else "refused"
    except fuzz.UnclearError as error:
        return " ".join(str(error).split())[:160]
    finally:
        faulthandler.cancel_dump_traceback_later()


def main() -> int:
    options = arguments()
    names = [options.target] if options.target else list(fuzz.TARGETS)
    if options.replay is not None:
        content = options.replay.read_bytes()
        outcomes = {name: attempt(name, content, options.out) for name in names}
        show("replayed", ["target", "outcome"], list(outcomes.items()))
        return int(not set(outcomes.values()) <= {"accepted", "refused"})
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    unclear: Counter[tuple[str, str]] = Counter()
    end = time.monotonic() + options.seconds
    turn = 0
    while time.monotonic() < end and (options.keep_going or not unclear):
        for place, name in enumerate(names):
            rng = np.random.default_rng([options.seed, turn, place])
            content = fuzz.TARGETS[name].make(rng)
            outcome = attempt(name, content, options.out)
            if outcome in ("accepted", "refused"):
                counts[name][outcome] += 1
                continue
            counts[name]["unclear"] += 1
            if not unclear[name, outcome]:
                kept = options.out.with_stem(f"{options.out.stem}_{len(unclear)}")
                kept.write_bytes(content)
                console.print(f"{name}: {outcome}\n  input in {kept}", markup=False)
            unclear[name, outcome] += 1
            if not options.keep_going:
                break
        turn += 1
    options.out.unlink(missing_ok=True)
    columns = ["accepted", "refused", "unclear"]
    rows = [[name, *(counts[name][c] for c in columns)] for name in names]
    show(f"seed {options.seed}", ["target", *columns], rows)
    return int(bool(unclear))


if __name__ == "__main__":
    sys.exit(main())
