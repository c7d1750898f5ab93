"""Tables of the page about clusters."""

from __future__ import annotations

from typing import Any

from billion import Calculation, largest, lines
from contest.tables import Load, Rows

from tables.texts import percent, two


def fits(load: Load, _: str) -> Rows:
    """Seconds, passes, error and memory by the number of rows."""
    results = load("cluster")["results"]
    named = {"cuts": (("few",), ("many",)), "growth": ((),), "large": ((),)}
    head = ["rows", "partitions", "fit, s", "rows a second", "gap"]
    head += ["sums over all rows", "over those held", "test error", "GB of a worker"]
    return [head] + [
        _fit(_inside(results[part], path))
        for part, paths in named.items()
        for path in paths
        if part in results
    ]


def _fit(one: dict[str, Any]) -> list[str]:
    return [
        f"{one['rows']:,}",
        str(one["partitions"]),
        f"{one['seconds']:,.0f}",
        f"{one['rows_per_second']:,.0f}",
        two(one["gap"]),
        str(one["passes"]["all"]),
        str(one["passes"]["held"]),
        percent(one["error"], 2),
        two(one["peak_gb"]),
    ]


def same(load: Load, _: str) -> Rows:
    """Objectives by the number of partitions, next to one process."""
    found = load("cluster")["results"]["same"]
    rows = [
        [n, f"{one['difference']:.1e}", two(one["gap"]), f"{one['seconds']:,.0f}"]
        for n, one in found["partitions"].items()
    ]
    alone = found["one_process"]
    rows.append(["one process", "", two(alone["gap"]), f"{alone['seconds']:,.0f}"])
    return [["partitions", "objective differs by", "gap", "s"], *rows]


def billion(load: Load, _: str) -> Rows:
    """A calculation from the largest fit."""
    found = Calculation(largest(load("cluster")["results"]))
    return [["10⁹ rows on 32 workers, calculated", ""], *lines(found)]


def _inside(found: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        found = found[key]
    return found
