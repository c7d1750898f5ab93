"""Tables of the page about stability and tests against chance."""

from __future__ import annotations

from contest.tables import Load, Rows

from tables.texts import percent, two

TIMED = {
    "stability": "`weight_stability`, 100 halves × 10 C, p = 1",
    "permutation": "`permutation_test`, p = 1.1",
    "fits_apart": "fits one by one, p = 1, the same tolerance",
}


def seconds(load: Load, _: str) -> Rows:
    """Seconds of all fits, and of one of them."""
    speed = load("stability")["speed"]
    rows: Rows = [["", "fits", "s", "processor s", "processor ms a fit"]]
    for key, name in TIMED.items():
        one = speed[key]
        each = 1000.0 * one["processor"] / one["fits"]
        times = [two(one["seconds"]), two(one["processor"]), two(each)]
        rows.append([name, f"{one['fits']:,}", *times])
    return rows


def p_values(load: Load, _: str) -> Rows:
    """Shares of data sets with a small p-value."""
    saved = load("stability")
    names = {"null": "labels that mean nothing", "signal": "signal in the first kernel"}
    rows: Rows = [["", "data sets", *saved["null"]["shares"]]]
    for key, name in names.items():
        one = saved[key]
        rows.append(
            [name, str(one["data_sets"]), *map(percent, one["shares"].values())]
        )
    return rows
