"""A bounded support in a stream: test accuracy by budget and by what is given up.

The stream of streaming.py, 50,000 rows in chunks of 10,000, for three budgets and all
policies, next to the same without a budget.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from common import in_own_process, parse, save, show
from streaming import stream

BUDGETS = (100, 500, 2000)
POLICIES = ("project", "smallest", "oldest")


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__, rows=(50_000, "rows in all"), chunk=(10_000, "rows at a time")
    )
    lines = [measure("unbounded", None, options)] + [
        measure(policy, budget, options) for budget in BUDGETS for policy in POLICIES
    ]
    columns = ["policy", "budget", "support", "accuracy"]
    show("Test accuracy", columns, [[line[key] for key in columns] for line in lines])
    save("budgets", seeds=[0], lines=lines)


def measure(policy: str, budget: int | None, options: Namespace) -> dict[str, Any]:
    """One stream in a process of its own."""
    choice = Namespace(rows=options.rows, chunk=options.chunk, budget=budget or 1)
    found = in_own_process(stream, policy, choice)
    kept = {key: found[key] for key in ("support", "accuracy", "seconds")}
    return {"policy": policy, "budget": budget, **kept}


if __name__ == "__main__":
    main()
