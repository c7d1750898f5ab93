"""Tables of the page about survival."""

from __future__ import annotations

from collections.abc import Mapping

from contest.tables import Load, Rows

SHARES = {
    "share of the sum": "weight of the sum's group",
    "share of the squares": "of the squares' group",
    "of the largest other": "of the largest other",
}


def data_sets(load: Load, _: str) -> Rows:
    """Concordance of every learner on every data set."""
    found = load("survival")["data_sets"]
    head = [f"{name}, {one['rows']} rows" for name, one in found.items()]
    first = next(iter(found.values()))["learners"]
    rows = [
        [learner, *(with_error(one["learners"].get(learner)) for one in found.values())]
        for learner in first
    ]
    return [["concordance", *head], *rows]


def groups(load: Load, _: str) -> Rows:
    """Weights and concordance by p."""
    found = load("survival")["simulated"]
    rows = [
        [
            name,
            with_error(one["concordance"]),
            *(f"{one[key]['mean']:.2f}" if key in one else None for key in SHARES),
        ]
        for name, one in found.items()
        if "concordance" in one
    ]
    return [["", "concordance", *SHARES.values()], *rows]


def with_error(one: Mapping[str, float] | None) -> str | None:
    """Mean and standard error, where there are any."""
    return one and f"{one['mean']:.3f} ± {one['standard_error']:.3f}"
