"""A process that tries inputs until it is told to stop, or dies of one.

It lives under a limit of memory. Lines come in, `target first count`; for every input a
line goes out before (its number), which a parent needs if nothing follows, and one
behind (what became of it); a last one says how much memory they took at most. The
input itself lies in a file meanwhile; one that was neither accepted nor clearly refused
stays in a file of its own.
"""

import resource
import sys
from pathlib import Path

import numpy as np

from tests.fuzz.memory import PEAK
from tests.fuzz.targets import TARGETS, UnclearError

GIGABYTES = 6  # of addresses, of which a process has many that it never uses


def main(kept: Path) -> None:
    limit = GIGABYTES << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", flush=True)
    for line in sys.stdin:
        name, first, count = line.rsplit(maxsplit=2)
        for seed in range(int(first), int(first) + int(count)):
            print(f"trying {seed}", flush=True)
            kept.write_bytes(b"")
            content = TARGETS[name].make(np.random.default_rng(seed))
            kept.write_bytes(content)
            found = outcome(name, content)
            if found.startswith("unclear"):
                kept.with_name(f"{name} {seed}").write_bytes(content)
            print(found, flush=True)
        print(f"done {PEAK.forget()}", flush=True)


def outcome(name: str, content: bytes) -> str:
    """What became of an input, in one line."""
    try:
        return "accepted" if TARGETS[name].attempt(content) else "refused"
    except UnclearError as error:
        return "unclear " + " ".join(str(error).split())[:300]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
