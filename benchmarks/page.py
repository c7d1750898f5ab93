"""Figures of README and documentation, from the saved results and nothing else.

python benchmarks/page.py writes all tables, figures in running text, daggers and
pictures; --check only says which pages are not up to date, and then fails. A table
stands between <!-- table: NAME --> and <!-- end --> (see tables/), a figure before a
comment that says where it comes from (see figures.py), and both have a dagger while the
code they measure has changed since. <!-- legend --> says what that means.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import evidence
from evidence import standing
from figures import DAGGER, MARK, shown
from tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "paper" / "paper.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TABLE = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
LEGEND = re.compile(r"(<!-- legend -->\n).*?(<!-- end -->)", re.DOTALL)
MEANING = (
    f"{DAGGER} The code has changed since this was measured; "
    "`python benchmarks/run.py --status` says where.\n"
)


def main(arguments: list[str]) -> int:
    """Write, or check."""
    texts = {page: page.read_text("utf-8") for page in PAGES}
    late = {page: new for page in PAGES if (new := filled(texts[page])) != texts[page]}
    if "--check" in arguments:
        for page in late:
            print(f"{page.relative_to(ROOT)}: python benchmarks/page.py writes it anew")
        return int(bool(late))
    for page, text in late.items():
        page.write_text(text, "utf-8")
    from contest.pictures import draw_all

    draw_all(load)
    return 0


def filled(text: str) -> str:
    """A page with every table and figure made anew."""
    text = TABLE.sub(lambda mark: mark[1] + table(mark[2]) + mark[3], text)
    text = MARK.sub(figure, text)
    legend = MEANING * (DAGGER in LEGEND.sub("", text))
    return LEGEND.sub(lambda mark: mark[1] + legend + mark[2], text)


def undated(text: str) -> str:
    """A page without its daggers: what it says, whatever happened to the code."""
    text = LEGEND.sub(lambda mark: mark[1] + mark[2], text)
    return (
        text.replace(f"| {DAGGER} |", "|  |")
        .replace(f" {DAGGER} |", " |")
        .replace(DAGGER, "")
    )


def figure(mark: re.Match[str]) -> str:
    """A figure of running text, its dagger and its source."""
    asked = Asked()
    return shown(mark, asked) + asked.dagger() + mark["comment"]


def table(name: str) -> str:
    """The Markdown of one table: KIND or KIND ARGUMENT."""
    kind, _, argument = name.partition(" ")
    asked = Asked()
    rows = TABLES[kind](asked, argument)
    head, *body = [[_text(cell) for cell in row] for row in rows]
    head[0] = f"{head[0]} {asked.dagger()}".strip()
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


class Asked:
    """Results as they are asked for, remembered."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, name: str) -> dict[str, Any]:
        self.names.add(name)
        return load(name)

    def dagger(self) -> str:
        """A dagger if any of them is older than the code."""
        return DAGGER * any(map(stale, self.names))


@cache
def load(name: str) -> dict[str, Any]:
    """What a benchmark saved."""
    return evidence.load(name)


@cache
def stale(name: str) -> bool:
    """Whether code that a result measures has changed since."""
    return standing([name]).state == "stale"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
