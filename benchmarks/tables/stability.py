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
    rows: Rows = [["", "fits", "s", "ms a fit"]]
    for key, name in TIMED.items():
        one = speed[key]
        each = 1000.0 * one["seconds"] / one["fits"]
        rows.append([name, f"{one['fits']:,}", two(one["seconds"]), two(each)])
    return rows


def p_values(load: Load, _: str) -> Rows:
    """Shares of data sets with a small p-value, and Kolmogorov's p-values."""
    saved = load("stability")
    names = {"null": "labels that mean nothing", "signal": "signal in the first kernel"}
    shuffled = {"target": "labels", "view": "rows of the kernel"}
    heads = list(saved["view"]["null"]["shares"])
    tests = [f"Kolmogorov, {head}" for head in heads]
    rows: Rows = [["shuffled", "data", "data sets", *heads, *tests]]
    for shuffle, what in shuffled.items():
        for key, name in names.items():
            one = saved[shuffle][key]
            shares = map(percent, one["shares"].values())
            tested = [two(value) for value in one["kolmogorov"]]
            rows.append([what, name, str(one["data_sets"]), *shares, *tested])
    return rows
