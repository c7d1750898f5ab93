"""Tables of what a nugget does to weights and accuracy."""

from __future__ import annotations

from typing import Any

from contest.tables import Load, Rows


def simulated(load: Load, _: str) -> Rows:
    """Weight of all noise, and accuracy on new rows, without a nugget and with one."""
    cases = load("importance")["cases"]
    ps = sorted({case["p"] for case in cases})
    rows: Rows = [["noise views × columns"]]
    for p in ps:
        rows[0] += [f"weight, p = {p:g}", f"accuracy, p = {p:g}"]
    for views, columns in sorted({(c["views"], c["columns"]) for c in cases}):
        row = [f"{views} × {columns:,}"]
        for case in cases:
            if (case["views"], case["columns"]) == (views, columns):
                row += [_both(case, "weight", 1.0, 2), _both(case, "accuracy", 100, 1)]
        rows.append(row)
    return rows


def _both(case: dict[str, Any], key: str, factor: float, places: int) -> str:
    values = (case[key], case[f"nugget {key}"])
    return " → ".join(f"{factor * value:.{places}f}" for value in values)


def data_sets(load: Load, _: str) -> Rows:
    """The same on data sets, with C chosen, and p as well in the last columns."""
    saved = load("nugget")
    rows: Rows = [["noise columns", "p", "weight", "accuracy", "gain", "least gain"]]
    for case in saved["cases"]:
        p = case["p"]
        rows.append(
            [
                f"{case['columns']:,}" if case["columns"] else "no noise",
                p if isinstance(p, str) else f"{p:g}",
                _pair(case, "weight", 1.0, 2) if case["columns"] else "-",
                _pair(case, "accuracy", 100.0, 1),
                f"{100 * case['gain']:+.1f} ± {100 * case['gain error']:.1f}",
                f"{100 * case['least gain']:+.1f}",
            ]
        )
    return rows


def _pair(case: dict[str, Any], key: str, factor: float, places: int) -> str:
    values = (case[f"plain {key}"], case[f"nugget {key}"])
    return " → ".join(f"{factor * value:.{places}f}" for value in values)
