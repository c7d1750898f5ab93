"""Tables and pictures of docs/benchmarks.md, from the saved results and nothing else.

python benchmarks/page.py writes them; --check only says whether the page is up to date.
A table stands between <!-- table: NAME --> and <!-- end -->.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from contest.tables import TABLES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = Path(__file__).parent / "results"
PLACE = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write, or check."""
    text = PAGE.read_text(encoding="utf-8")
    fresh = filled(text)
    if "--check" in arguments:
        return int(fresh != text)
    PAGE.write_text(fresh, encoding="utf-8")
    from contest.pictures import draw_all

    draw_all(load)
    return 0


def filled(text: str) -> str:
    """The page with every table made anew."""
    return PLACE.sub(lambda m: m[1] + table(m[2]) + m[3], text)


def load(name: str) -> dict[str, Any]:
    """What a benchmark saved."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(name: str) -> str:
    """The Markdown of one table: KIND or KIND ARGUMENT."""
    kind, _, argument = name.partition(" ")
    rows = TABLES[kind](load, argument)
    head, *body = [[_text(cell) for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
