"""Tables of the page about studies."""

from __future__ import annotations

from contest.tables import Load, Rows

from tables.texts import two

NAMES = {
    "tcga_breast": "breast cancer subtypes, 3 views",
    "mfeat": "handwritten numerals, 6 views",
}


def seconds(load: Load, _: str) -> Rows:
    """Seconds of a study and of its report."""
    rows: Rows = [["data", "rows", "kernels", "study, s", "report, s", "file, kB"]]
    for key, one in load("study")["sets"].items():
        sizes = f"{one['rows']:,}", str(one["kernels"])
        took = two(one["seconds"]), two(one["report_seconds"])
        rows.append([NAMES[key], *sizes, *took, f"{one['bytes'] / 1000:.0f}"])
    return rows


def methods(load: Load, _: str) -> Rows:
    """Accuracies of all methods, with standard errors over splits."""
    sets = load("study")["sets"]
    rows: Rows = [["method", *(NAMES[key] for key in sets)]]
    for lines in zip(*(one["methods"] for one in sets.values()), strict=True):
        shown = [
            f"{100 * line['score']:.1f} ± {100 * line['std_error']:.1f} %"
            for line in lines
        ]
        rows.append([lines[0]["title"], *shown])
    return rows
