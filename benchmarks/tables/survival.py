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


def defaults(load: Load, _: str) -> Rows:
    """Mean concordance by kernels and C at p = 1.1, and the lead over the first."""
    found = load("survival_defaults")["settings"]
    rows: Rows = [["kernels, p = 1.1", "C = 0.1", "C = 0.3", "C = 1"]]
    for name, first in found.items():
        kernels = name.removesuffix(", p = 1.1, C = 0.1")
        if kernels == name:
            continue
        others = (found[f"{kernels}, p = 1.1, C = {C}"] for C in ("0.3", "1"))
        rows.append([kernels, *map(_lead, (first, *others))])
    return rows


def _lead(one: Mapping[str, float]) -> str:
    return f"{one['mean']:.3f} ({one['lead']:+.3f} ± {one['error']:.3f})"


def with_error(one: Mapping[str, float] | None) -> str | None:
    """Mean and standard error, where there are any."""
    return one and f"{one['mean']:.3f} ± {one['standard_error']:.3f}"
