"""Tables of the pages about views."""

from __future__ import annotations

from typing import Any

from contest.tables import Load, Rows

WAYS = {
    "rescale": "`rescale`",
    "zero": "`zero`",
    "complete": "`complete`",
    "mean": "mean of the column",
    "drop": "drop incomplete patients",
}


def missing_views(load: Load, _: str) -> Rows:
    """Accuracy by the share of views that are missing."""
    saved = load("missing_views")
    head = ["missing", *(f"{100 * share:.0f} %" for share in saved["shares"])]
    lines = saved["accuracy"].items()
    return [head, *([WAYS[way], *map(_with_error, line)] for way, line in lines)]


def missing_at_predict(load: Load, _: str) -> Rows:
    """Accuracy where test patients lack a whole view."""
    saved = load("missing_views")["without"]
    ways = list(next(iter(saved.values())))
    head = ["without", *(WAYS[way] for way in ways)]
    return [
        head,
        *(
            [name, *(_with_error(own[way]) for way in ways)]
            for name, own in saved.items()
        ),
    ]


def _with_error(one: dict[str, Any]) -> str:
    return f"{100 * one['mean']:.1f} ± {100 * one['error']:.1f}"
